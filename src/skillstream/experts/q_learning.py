"""Q-learning on a discretised world, many episodes at once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from skillstream.environments.discretising import Bins
from skillstream.errors import InputError
from skillstream.experts.classic_control import BatchWorld


@dataclass(frozen=True)
class QLearningConfig:
    """How to learn; see Sutton and Barto's book, section 6.5.

    Attributes
    ----------
    steps
        Steps of every copy of the world.
    copies
        How many copies learn side by side into one table.
    discount
        What a reward one step later is worth.
    learning_rate
        At the beginning and at the end, geometrically between.
    exploration
        Probability of a random action, likewise.
    optimism
        What every entry of the table is before learning.
    wandering
        The share of episodes that begin anywhere instead of where the world begins them.
    patience
        Steps after which an episode that is learnt from is cut off.
    evaluations
        How often the greedy policy is tried; the best one is kept.
    evaluation_episodes
        Episodes of each trial.
    """

    steps: int = 20_000
    copies: int = 256
    discount: float = 0.99
    learning_rate: tuple[float, float] = (0.5, 0.02)
    exploration: tuple[float, float] = (0.3, 0.02)
    optimism: float = 0.0
    wandering: float = 0.5
    patience: int = 200
    evaluations: int = 20
    evaluation_episodes: int = 200

    def __post_init__(self) -> None:
        for name in ("steps", "copies", "patience", "evaluations", "evaluation_episodes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: must be at least 1, found {getattr(self, name)}")
        for name in ("learning_rate", "exploration"):
            if not all(0 < rate <= 1 for rate in getattr(self, name)):
                raise InputError(f"{name}: must lie above 0 and up to 1, found {getattr(self, name)}")
        for name in ("discount", "wandering"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: must be from 0 to 1, found {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Learnt:
    """The best greedy policy met while learning.

    Attributes
    ----------
    actions
        What to do in each box, `[S]`.
    score
        Its mean return over episodes that had no part in choosing it.
    """

    actions: Int[np.ndarray, "S"]
    score: float


def learn(
    world: BatchWorld,
    bins: Bins,
    config: QLearningConfig,
    seed: int = 0,
    report: Callable[[float], None] | None = None,
) -> Learnt:
    """Learn a greedy policy on boxes of observations; `report` is told the share done now and then."""
    training, trials, last = (np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(3))
    table = np.full((bins.num_states, world.num_actions), config.optimism)
    best, best_score = table.argmax(1), -np.inf
    runs = _Runs(world, bins, config, training)
    for trial in range(1, config.evaluations + 1):
        first = (trial - 1) * config.steps // config.evaluations
        for step in range(first, trial * config.steps // config.evaluations):
            share = step / config.steps
            runs.advance(table, _between(config.learning_rate, share), _between(config.exploration, share))
        actions = table.argmax(1)
        score = float(play(world, bins, actions, config.evaluation_episodes, trials).mean())
        if score > best_score:
            best, best_score = actions, score
        if report is not None:
            report(trial / config.evaluations)
    return Learnt(best, float(play(world, bins, best, 1000, last).mean()))


def play(
    world: BatchWorld, bins: Bins, actions: Int[np.ndarray, "S"], episodes: int, rng: np.random.Generator
) -> Float[np.ndarray, "episodes"]:
    """Returns of whole episodes under a policy on boxes."""
    states = world.start(rng, episodes)
    running, returns = np.arange(episodes), np.zeros(episodes)
    for _ in range(world.time_limit):
        states, rewards, ended = world.step(states, actions[bins.encode(world.observe(states))])
        returns[running] += rewards
        states, running = states[~ended], running[~ended]
        if not len(running):
            break
    return returns


class _Runs:
    """Copies of a world in the middle of their episodes."""

    def __init__(self, world: BatchWorld, bins: Bins, config: QLearningConfig, rng: np.random.Generator):
        self._world, self._bins, self._config, self._rng = world, bins, config, rng
        self._states = self._begin(config.copies)
        self._boxes = self._see(self._states)
        self._ages = rng.integers(config.patience, size=config.copies)

    def advance(self, table: np.ndarray, rate: float, exploration: float) -> None:
        """One step of every copy, and one update of the table by all of them."""
        rng, (count, choices) = self._rng, (self._config.copies, table.shape[1])
        greedy = table[self._boxes].argmax(1)
        actions = np.where(rng.random(count) < exploration, rng.integers(choices, size=count), greedy)
        states, rewards, ended = self._world.step(self._states, actions)
        boxes = self._see(states)
        targets = rewards + self._config.discount * np.where(ended, 0.0, table[boxes].max(1))
        _update(table, self._boxes * choices + actions, targets, rate)
        self._ages += 1
        over = ended | (self._ages >= self._config.patience)
        if over.any():
            states[over] = self._begin(int(over.sum()))
            boxes[over] = self._see(states[over])
            self._ages[over] = 0
        self._states, self._boxes = states, boxes

    def _begin(self, count: int) -> np.ndarray:
        wandering = self._rng.random(count) < self._config.wandering
        here, there = self._world.start(self._rng, count), self._world.anywhere(self._rng, count)
        return np.where(wandering[:, None], there, here)

    def _see(self, states: np.ndarray) -> np.ndarray:
        return self._bins.encode(self._world.observe(states))


def _update(table: np.ndarray, entries: np.ndarray, targets: np.ndarray, rate: float) -> None:
    """Move each entry towards the mean of its targets."""
    flat = table.reshape(-1)
    touched, places, counts = np.unique(entries, return_inverse=True, return_counts=True)
    means = np.bincount(places, targets) / counts
    flat[touched] += rate * (means - flat[touched])


def _between(ends: tuple[float, float], share: float) -> float:
    return ends[0] * (ends[1] / ends[0]) ** share
