"""What each option does, in numbers: how much it runs, for how long, what it chooses, where it stops."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.policies.segmentation import Segmentation
from skillstream.reporting.vocabulary import action_names, observation_names, on_map

_MOST_PLACES, _MOST_VARIABLES, _MOST_ACTIONS, _MOST_STATES = 3, 2, 6, 24


@dataclass(frozen=True)
class Skill:
    """An option as the demonstrations show it."""

    share: float  # of the steps
    runs: int
    duration: float  # mean steps of a run
    actions: list[tuple[str, float]]  # the most frequent and their shares; none if they are continuous
    averages: list[tuple[str, float, float]]  # of continuous actions: mean and standard deviation
    stops: int  # runs that end before their episode does
    places: list[tuple[str, str]]  # where those end: a place and how many end there, or a variable's values


def describe_skills(
    segmentation: Segmentation, demos: Demonstrations, task: str | None = None
) -> list[Skill]:
    """Every option of a segmentation; words for actions and observations where the task is known."""
    options, runs = segmentation.options, segmentation.runs()
    stopped = stops(segmentation, demos)
    skills = []
    for option, weights in enumerate(segmentation.probabilities.T):
        lengths = [run.length for run in runs if run.option == option]
        ends = np.flatnonzero(stopped == option)
        known = weights if demos.action_mask is None else weights * demos.action_mask
        skills.append(
            Skill(
                share=float((options == option).mean()),
                runs=len(lengths),
                duration=float(np.mean(lengths)) if lengths else 0.0,
                actions=_choices(demos, known, task),
                averages=_averages(demos.actions, known),
                stops=len(ends),
                places=_places(demos, weights, ends, task),
            )
        )
    return skills


def choices_by_state(
    segmentation: Segmentation, demos: Demonstrations, task: str | None = None
) -> list[list[str]]:
    """A row a state, the most visited ones: each option's usual action there, and the share it has.

    Empty where states or actions are not finitely many, or where a map shows the same.
    """
    discrete = demos.observations.ndim == demos.actions.ndim == 1 and demos.actions.dtype.kind == "i"
    if not discrete or on_map(demos, task) is not None:
        return []
    names = action_names(demos, task)
    options = segmentation.probabilities.shape[1]
    counts = np.zeros((int(demos.observations.max()) + 1, len(names), options))
    recorded = slice(None) if demos.action_mask is None else demos.action_mask
    cells = demos.observations[recorded], demos.actions[recorded]
    np.add.at(counts, cells, segmentation.probabilities[recorded])
    busiest = np.sort(np.argsort(-counts.sum((1, 2)), kind="stable")[:_MOST_STATES])
    return [
        [str(state), *(_usual(column, names) for column in counts[state].T)]
        for state in busiest
        if counts[state].any()
    ]


def _usual(counts: Float[np.ndarray, "A"], names: list[str]) -> str:
    """The most frequent action, and how often it is taken; a dash where the option hardly ever runs."""
    total = counts.sum()
    return f"{names[int(counts.argmax())]} {counts.max() / total:.0%}" if total >= 0.5 else "-"


def stops(segmentation: Segmentation, demos: Demonstrations) -> Int[np.ndarray, "T"]:
    """The option that another one takes over from at each step, or -1 where none stops."""
    before = np.roll(segmentation.options, 1)
    return np.where(segmentation.switches & ~demos.episode_starts, before, -1)


def _choices(
    demos: Demonstrations, weights: Float[np.ndarray, "T"], task: str | None
) -> list[tuple[str, float]]:
    """The shares of the actions taken while an option runs, the most frequent first."""
    if demos.actions.dtype.kind == "f" or weights.sum() == 0:
        return []
    if demos.actions.ndim == 2:
        texts, places = np.unique(demos.actions, axis=0, return_inverse=True)
        names = ["(" + ", ".join(str(part) for part in row) + ")" for row in texts.tolist()]
        counts = np.bincount(places.ravel(), weights, len(names))
    else:
        names = action_names(demos, task)
        counts = np.bincount(demos.actions, weights, len(names))
    order = np.argsort(-counts, kind="stable")[:_MOST_ACTIONS]
    shares = counts / counts.sum()
    return [(names[action], float(shares[action])) for action in order if shares[action] >= 0.005]


def _averages(actions: np.ndarray, weights: Float[np.ndarray, "T"]) -> list[tuple[str, float, float]]:
    if actions.dtype.kind == "i" or weights.sum() == 0:
        return []
    mean = np.average(actions, axis=0, weights=weights)
    spread = np.sqrt(np.average((actions - mean) ** 2, axis=0, weights=weights))
    return [(f"action {i}", float(m), float(s)) for i, (m, s) in enumerate(zip(mean, spread, strict=True))]


def _places(
    demos: Demonstrations, weights: Float[np.ndarray, "T"], ends: Int[np.ndarray, "N"], task: str | None
) -> list[tuple[str, str]]:
    """Discrete or whole observations: the most frequent ones; others: what sets the ends apart."""
    if len(ends) == 0:
        return []
    found, names = on_map(demos, task), observation_names(demos, task)
    seen = demos.observations if found is None else found[1]
    if seen.ndim == 1 or (seen == np.rint(seen)).all():
        rows, counts = np.unique(seen[ends], axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:_MOST_PLACES]
        return [(_place(rows[row], names), f"{counts[row] / len(ends):.0%}") for row in order]
    total = weights.sum()
    mean = weights @ seen / total
    spread = np.sqrt(weights @ (seen - mean) ** 2 / total)
    at, around = seen[ends].mean(0), seen[ends].std(0)
    apart = np.abs(at - mean) / np.maximum(spread, 1e-12)
    order = np.argsort(-apart, kind="stable")[:_MOST_VARIABLES]
    return [
        (names[i], f"{at[i]:.2g} ± {around[i]:.2g} (else {mean[i]:.2g} ± {spread[i]:.2g})") for i in order
    ]


def _place(row: np.ndarray, names: list[str]) -> str:
    if np.ndim(row) == 0:
        return f"state {row}"
    return ", ".join(f"{name} {value:.0f}" for name, value in zip(names, row, strict=True))
