"""What the outcomes of many seeds say: means, paired differences, and which of the paper's claims hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import permutation_test
from scipy.stats import t as student

from skillstream.experiments.reproduction.protocol import FIGURE, Learner
from skillstream.experiments.reproduction.published import published
from skillstream.experiments.reproduction.trials import Outcome

MARGIN = 0.05  # of the expert's return: what counts as a tangible deterioration
QUALITY = 0.9

Verdict = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Point:
    """A learner at a size: mean and std over seeds, as the figure shows them."""

    task: str
    size: int
    learner: Learner
    penalties: str
    change: str
    budget: str
    seeds: int
    mean: float
    std: float
    seconds: float  # the median of a trial's
    gradient_steps: int
    held: int


@dataclass(frozen=True)
class Difference:
    """Online minus batch at a size, seed by seed."""

    task: str
    size: int
    penalties: str
    budget: str
    seeds: int
    mean: float
    low: float  # of the 95 % confidence interval
    high: float
    p: float  # of a sign-flip permutation test


@dataclass(frozen=True)
class Claim:
    """One of the paper's claims at a size, and how it stands here."""

    claim: str
    difference: Difference
    verdict: Verdict


def points(outcomes: Iterable[Outcome]) -> list[Point]:
    """Means over seeds."""
    groups: dict[tuple[str, int, Learner, str, str, str], list[Outcome]] = {}
    for row in outcomes:
        key = (row.task, row.size, row.learner, row.penalties, row.change, row.budget)
        groups.setdefault(key, []).append(row)
    found = []
    for key, rows in groups.items():
        shares = np.array([row.share for row in rows])
        seconds = float(np.median([row.seconds for row in rows]))
        held = int(np.median([row.held for row in rows]))
        steps = rows[0].gradient_steps
        mean, std = float(shares.mean()), float(shares.std())
        found.append(Point(*key, len(rows), mean, std, seconds, steps, held))
    return found


def differences(outcomes: Sequence[Outcome]) -> list[Difference]:
    """Online minus batch, for both budgets, where at least two seeds have both."""
    shares: dict[tuple, dict[int, float]] = {}
    for row in outcomes:
        if row.change == "protocol":
            key = (row.task, row.size, row.penalties, row.learner, row.budget)
            shares.setdefault(key, {})[row.seed] = row.share
    found = []
    for (task, size, penalties, learner, budget), batch in shares.items():
        online = shares.get((task, size, penalties, "online", "steps"), {})
        both = sorted(set(batch) & set(online))
        if learner != "batch" or len(both) < 2:
            continue
        gaps = np.array([online[seed] - batch[seed] for seed in both])
        found.append(Difference(task, size, penalties, budget, len(both), *_interval(gaps)))
    return found


def _interval(gaps: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, its 95 % confidence interval by Student's t, and the p-value of a sign-flip test."""
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    if error == 0:
        return mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - len(gaps))
    reach = float(student.ppf(0.975, len(gaps) - 1)) * error
    test = permutation_test(
        (gaps,),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    return mean, mean - reach, mean + reach, float(test.pvalue)


def claims(found: Iterable[Difference]) -> list[Claim]:
    """The paper's claims about returns, size by size."""
    told = []
    for difference in found:
        if difference.task == "grid-world":
            verdict: Verdict = "undecided"
            if difference.low > 0:
                verdict = "holds"
            elif difference.high <= 0:
                verdict = "does not hold"
            told.append(Claim("online outperforms batch on the grid world", difference, verdict))
        elif difference.task in FIGURE:
            verdict = "undecided"
            if difference.low > -MARGIN:
                verdict = "holds"
            elif difference.high < 0:
                verdict = "does not hold"
            told.append(Claim("no tangible deterioration in continuous tasks", difference, verdict))
    return told


@dataclass(frozen=True)
class Standing:
    """The better of our two algorithms at a size beside the better of the published ones, and the others."""

    task: str
    size: int
    ours: float  # the better of batch and online, without penalties or with bounded ones
    published: float | None
    default: float | None  # the `skillstream` curve
    flat: float | None


def standings(found: Iterable[Point]) -> list[Standing]:
    """Every size of every task."""
    rows: dict[tuple[str, int], list[Point]] = {}
    for point in found:
        if point.change == "protocol":
            rows.setdefault((point.task, point.size), []).append(point)
    told = []
    for (task, size), here in rows.items():
        ours = [
            p.mean
            for p in here
            if p.learner in ("batch", "online") and p.penalties != "paper" and p.budget == "steps"
        ]
        if ours:
            theirs = max((p.mean for p in published(task, size).values()), default=None)
            others = (_mean(here, learner) for learner in ("skillstream", "flat"))
            told.append(Standing(task, size, max(ours), theirs, *others))
    return told


def _mean(here: Iterable[Point], learner: str) -> float | None:
    return next((point.mean for point in here if point.learner == learner), None)


@dataclass(frozen=True)
class Cost:
    """What it takes a learner to come to a given quality: the first size that does."""

    task: str
    learner: Learner
    size: int | None  # None: no size does
    seconds: float
    held: int


def costs_to_quality(found: Iterable[Point], penalties: str) -> list[Cost]:
    """Time and memory to the first size whose mean share reaches `QUALITY`."""
    curves: dict[tuple[str, Learner], list[Point]] = {}
    for point in found:
        shown = point.penalties == penalties or point.learner in ("flat", "skillstream")
        if point.change == "protocol" and point.budget == "steps" and shown:
            curves.setdefault((point.task, point.learner), []).append(point)
    told = []
    for (task, learner), curve in curves.items():
        reached = [p for p in sorted(curve, key=lambda p: p.size) if p.mean >= QUALITY]
        first = reached[0] if reached else None
        told.append(
            Cost(task, learner, first.size, first.seconds, first.held)
            if first
            else Cost(task, learner, None, float("nan"), 0)
        )
    return told
