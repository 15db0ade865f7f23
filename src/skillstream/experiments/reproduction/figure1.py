"""The whole reproduction, from a scope to a page."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skillstream.experiments.costs import measure_costs
from skillstream.experiments.reproduction.plan import (
    Budgets,
    Scope,
    ablation_trials,
    cause_trials,
    main_trials,
    measured_budgets,
)
from skillstream.experiments.reproduction.runner import Workers, run_trials
from skillstream.experiments.reproduction.statistics import points, standings
from skillstream.experiments.reproduction.story import Findings, write_story
from skillstream.experiments.reproduction.trials import Failure, Outcome, Trial
from skillstream.files import write_whole
from skillstream.learning.config import BatchConfig
from skillstream.reporting.costs import Costs
from skillstream.runs import RunDirectory

Watch = Callable[[str, Sequence[Trial], Trial | None, int], None]
_TRIALS, _COSTS = "trials", "costs.csv"
_SEEDS_TO_MEASURE = 3


def reproduce_figure1(
    scope: Scope, run: RunDirectory, workers: Workers, budgets: Budgets | None, quick: bool, watch: Watch
) -> Findings:
    """Run every trial that is not there yet, measure what E-steps cost, and write tables and page.

    `budgets` are the iterations of batch that take as long as online; `None`: they are measured first.
    `watch` is told of each group of trials when it begins, and of each trial that is over.
    """
    stages = _Stages(run.path / _TRIALS, workers, watch)
    if budgets is None:
        budgets = _measure(scope, stages)
    rows = [{"task": task, "size": size, "iterations": n} for (task, size), n in budgets.items()]
    write_csv(run.path / "budgets.csv", rows)
    stages.run("Figure 1", main_trials(scope, budgets))
    stages.run("Ablation", ablation_trials(scope))
    stages.run("Causes", cause_trials(scope, standings(points(stages.outcomes))))
    found = Findings(stages.outcomes, stages.failures, _costs(run.path, quick, watch))
    write_csv(run.path / "results.csv", [asdict(row) for row in found.outcomes])
    write_csv(run.path / "points.csv", [asdict(row) for row in found.points])
    write_csv(run.path / "differences.csv", [asdict(row) for row in found.differences])
    return found


def finish(run: RunDirectory, found: Findings, workers: Workers) -> Path:
    """Say in the run's record how it went, and write the page."""
    run.record["jobs"] = workers.jobs
    run.finish(trials=len(found.outcomes), failed=len(found.failures))
    return write_story(run, found)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as a CSV file, whole or not at all."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


class _Stages:
    """Groups of trials, one after the other."""

    def __init__(self, folder: Path, workers: Workers, watch: Watch):
        self.folder, self.workers, self.watch = folder, workers, watch
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []

    def run(self, title: str, trials: Sequence[Trial]) -> None:
        """Run a group, and keep what comes of it."""
        outcomes, failures = self.look(title, trials)
        self.outcomes += outcomes
        self.failures += failures

    def look(self, title: str, trials: Sequence[Trial]) -> tuple[list[Outcome], list[Failure]]:
        """Run a group."""
        if not trials:
            return [], []
        self.watch(title, trials, None, 0)
        return run_trials(
            trials,
            self.folder,
            self.workers,
            lambda trial, failures: self.watch(title, trials, trial, len(failures)),
        )


def _measure(scope: Scope, stages: _Stages) -> Budgets:
    """Both algorithms timed on a few seeds."""
    few = replace(scope, seeds=_SEEDS_TO_MEASURE, learners=("batch", "online"), penalties=scope.penalties[:1])
    outcomes, _ = stages.look("Timing", main_trials(few, {}))
    return measured_budgets(outcomes, BatchConfig.paper().iterations)


def _costs(folder: Path, quick: bool, watch: Watch) -> Costs:
    """What E-steps cost, measured once a run; alone, since trials would be in the way."""
    if not (folder / _COSTS).is_file():
        watch("Costs of E-steps", [], None, 0)
        measure_costs(quick).save(folder)
    return Costs.load(folder)
