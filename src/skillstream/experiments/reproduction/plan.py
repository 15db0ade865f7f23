"""Which trials a reproduction consists of, and how many iterations of batch take as long as online."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.experiments.reproduction.protocol import (
    ABLATION_SIZE,
    CAUSES,
    CHANGES,
    FIGURE,
    LARGEST_CAUSE,
    LEARNERS,
    MOST_SEEDS,
    PENALTIES,
    TASKS,
    Learner,
    PenaltyName,
    check_names,
)
from skillstream.experiments.reproduction.statistics import Standing
from skillstream.experiments.reproduction.trials import Outcome, Trial

Budgets = dict[tuple[str, int], int]
_BUDGETS = "budgets.csv"


@dataclass(frozen=True)
class Scope:
    """How much of the protocol to run; `None` stands for all that it has."""

    tasks: tuple[str, ...] = tuple(FIGURE)
    sizes: tuple[int, ...] | None = None
    seeds: int | None = None
    penalties: tuple[PenaltyName, ...] = ("bounded", "none", "paper")
    learners: tuple[Learner, ...] = LEARNERS
    ablation: bool = True
    few_sizes: bool = False  # only the first two of each task

    def __post_init__(self) -> None:
        check_names("--env", self.tasks, TASKS)
        check_names("--penalties", self.penalties, PENALTIES)
        check_names("--learners", self.learners, LEARNERS)
        for name, values in (("--env", self.tasks), ("--penalties", self.penalties), ("--sizes", self.sizes)):
            if values is not None and not values:
                raise InputError(f"{name}: there is none; name at least one, or leave it out")
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"--seeds: must be at least 1, found {self.seeds}")
        for size in self.sizes or ():
            if size < 10:
                raise InputError(f"--sizes: must be at least 10 samples, found {size}")

    def seeds_of(self, task: str) -> range:
        """The seeds of a task's trials."""
        return range(TASKS[task].seeds if self.seeds is None else self.seeds)

    def sizes_of(self, task: str) -> tuple[int, ...]:
        """The training sizes of a task."""
        sizes = TASKS[task].sizes if self.sizes is None else self.sizes
        return sizes[:2] if self.few_sizes else sizes


def main_trials(scope: Scope, budgets: Budgets) -> list[Trial]:
    """The figure, one setting of the penalties after the other.

    What has no penalties, and batch with as much time as online, comes with the first of them only.
    """
    trials = []
    for penalties in scope.penalties:
        first = penalties == scope.penalties[0]
        for task in scope.tasks:
            for learner in scope.learners:
                if learner in ("flat", "skillstream") and not first:
                    continue
                for size in scope.sizes_of(task):
                    iterations = budgets.get((task, size), 0) if learner == "batch" and first else 0
                    shown: PenaltyName = "none" if learner in ("flat", "skillstream") else penalties
                    trials += [
                        Trial(task, size, seed, learner, shown, iterations=iterations)
                        for seed in scope.seeds_of(task)[: MOST_SEEDS.get(learner)]
                    ]
    return trials


def ablation_trials(scope: Scope) -> list[Trial]:
    """The grid world with one thing changed at a time."""
    if not scope.ablation or "grid-world" not in scope.tasks:
        return []
    return [
        Trial("grid-world", ABLATION_SIZE, seed, learner, change=name)
        for name, change in CHANGES.items()
        for learner in change.learners
        if learner in scope.learners
        for seed in scope.seeds_of("grid-world")
    ]


def cause_trials(scope: Scope, found: Sequence[Standing]) -> list[Trial]:
    """Where ours is behind what is published, with few samples: other demonstrations, another first state."""
    return [
        Trial(row.task, row.size, seed, learner, change=change)
        for row in found
        if row.published is not None and row.ours < row.published and row.size <= LARGEST_CAUSE
        for change in CAUSES
        for learner in ("batch", "online")
        if learner in scope.learners
        for seed in scope.seeds_of(row.task)
    ]


def shipped_budgets() -> Budgets:
    """How many iterations of batch take as long as online, as measured once; so that figures repeat."""
    text = (files("skillstream.experiments.reproduction") / _BUDGETS).read_text()
    return _parse(_BUDGETS, text)


def read_budgets(path: Path) -> Budgets:
    """Budgets that a run has measured."""
    return _parse(str(path), path.read_text())


def _parse(where: str, text: str) -> Budgets:
    try:
        rows = csv.DictReader(text.splitlines())
        return {(row["task"], int(row["size"])): max(int(row["iterations"]), 1) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{where}: must have the columns task, size, iterations ({error})") from error


def measured_budgets(outcomes: Sequence[Outcome], iterations: int) -> Budgets:
    """Iterations of batch in the time of online, from trials that ran `iterations` of them."""
    seconds: dict[tuple[str, int, str], list[float]] = {}
    for row in outcomes:
        if row.learner in ("batch", "online") and row.budget == "steps" and row.change == "protocol":
            seconds.setdefault((row.task, row.size, row.learner), []).append(row.seconds)
    found = {}
    for (task, size, learner), times in seconds.items():
        online = seconds.get((task, size, "online"))
        if learner == "batch" and online is not None:
            found[task, size] = max(round(iterations * float(np.median(online) / np.median(times))), 1)
    return found
