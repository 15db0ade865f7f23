"""`skillstream reproduce`: the paper's experiments, run anew."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from skillstream.commands import common
from skillstream.errors import InputError
from skillstream.runs import RunDirectory

if TYPE_CHECKING:
    from skillstream.experiments.reproduction.figure1 import Watch
    from skillstream.experiments.reproduction.plan import Budgets, Scope

_FAILED = 1


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments: Figure 1 with Table 1, or what E-steps cost (Section 6.1).

    Example: skillstream reproduce figure1 --env grid-world --quick
    """

    what: tyro.conf.Positional[Literal["figure1", "costs"]]
    """figure1: four tasks, batch and online, over training sizes and seeds; costs: the times of E-steps."""
    env: tuple[str, ...] = ()
    """Tasks, of grid-world, cart-pole, pendulum, lunar-lander (the default); hidden-goal, mountain-car,
    acrobot."""
    extra: bool = False
    """Also run the tasks that the paper does not have."""
    sizes: tuple[int, ...] = ()
    """Training samples. Default: the paper's."""
    seeds: int | None = None
    """Seeds for each size. Default: the paper's, 30 for the grid world and 10 elsewhere."""
    penalties: tuple[Literal["bounded", "none", "paper"], ...] = ("bounded", "none", "paper")
    """Settings of the penalties: Table 1's with a bounded divergence, none, Table 1's as written."""
    learners: tuple[Literal["batch", "online", "flat", "skillstream"], ...] = (
        "batch",
        "online",
        "flat",
        "skillstream",
    )
    """Which curves."""
    ablation: bool = True
    """Whether to run the grid world with one thing changed at a time."""
    quick: bool = False
    """Two sizes, three seeds, one setting of the penalties, no ablation."""
    budgets: str = "shipped"
    """Iterations of batch that take as long as online. shipped: as measured once, so that figures repeat;
    measure: on this machine, first; or the budgets.csv of another run."""
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Trials to run side by side."""
    backend: Literal["loky", "sequential", "ray", "dask"] = "loky"
    """Where: processes of this machine, one after the other in this process, or a cluster."""
    output: Path | None = None
    """Run directory to make; runs/reproduce-figure1 (with a number) if left out."""
    resume: Path | None = None
    """A run to go on with: trials that it has are not run again."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Run what is asked for."""
        if self.resume is not None and self.output is not None:
            raise InputError("--resume: goes on in its own directory; leave --output out")
        return self._costs() if self.what == "costs" else self._figure1()

    def _figure1(self) -> int:
        from skillstream.experiments.reproduction.figure1 import finish, reproduce_figure1
        from skillstream.experiments.reproduction.runner import Workers

        scope, budgets, workers = self._scope(), self._budgets(), Workers(self.jobs, self.backend)
        run = self._directory()
        with run, _shown() as watch:
            found = reproduce_figure1(scope, run, workers, budgets, self.quick, watch)
            page = finish(run, found, workers)
        console = common.console(self.json)
        for failure in found.failures:
            console.print(f"Failed: {failure.trial}\n{failure.error}")
        if self.json:
            common.print_json(run=str(run.path), **run.record["results"])
        console.print(f"{len(found.outcomes)} results, {len(found.failures)} trials failed.\nReport: {page}")
        return _FAILED if found.failures else 0

    def _costs(self) -> int:
        from skillstream.experiments.costs import measure_costs
        from skillstream.files import write_whole
        from skillstream.reporting import page
        from skillstream.reporting.cost_section import costs_section
        from skillstream.runs import REPORT

        run = self._directory()
        with run:
            with common.progress("E-steps", None) as report:
                costs = measure_costs(self.quick, lambda done, total, words: report(done, words))
            costs.save(run.path)
            title = "What E-steps cost"
            body = [f"<header><h1>{title}</h1></header>", costs_section(costs)]
            write_whole(run.path / REPORT, page.page(f"{title} · skillstream", body).encode())
            run.finish()
        common.console(self.json).print(f"Report: {run.path / REPORT}")
        if self.json:
            common.print_json(run=str(run.path))
        return 0

    def _scope(self) -> "Scope":
        from skillstream.experiments.reproduction.plan import Scope
        from skillstream.experiments.reproduction.protocol import EXTRA, FIGURE

        tasks = (self.env or tuple(FIGURE)) + (tuple(EXTRA) if self.extra else ())
        return Scope(
            tasks=tuple(dict.fromkeys(tasks)),
            sizes=self.sizes or None,
            seeds=self.seeds or (3 if self.quick else None),
            penalties=self.penalties[:1] if self.quick else self.penalties,
            learners=self.learners,
            ablation=self.ablation and not self.quick,
            few_sizes=self.quick,
        )

    def _budgets(self) -> "Budgets | None":
        from skillstream.experiments.reproduction.plan import read_budgets, shipped_budgets

        if self.budgets == "measure":
            return None
        return shipped_budgets() if self.budgets == "shipped" else read_budgets(Path(self.budgets))

    def _directory(self) -> RunDirectory:
        if self.resume is not None:
            run = RunDirectory.open(self.resume)
            if run.record.get("command") != "reproduce":
                raise InputError(f"--resume: {self.resume} is a run of {run.record.get('command')}")
            run.record |= {"state": "running"}
            run.write()
            return run
        return RunDirectory.create(self.output, f"runs/reproduce-{self.what}", "reproduce", self)


@contextmanager
def _shown() -> "Iterator[Watch]":
    """A bar for each group of trials, with time left; larger sizes count more."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    bars: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def watch(title: str, trials: Sequence[Any], over: Any, failed: int) -> None:
            if over is None:
                bars[title] = progress.add_task(title, total=sum(t.size for t in trials) or None, note="")
                return
            note = f"{over.task} {over.size} {over.learner} {over.seed}"
            note += f", {failed} failed" if failed else ""
            progress.update(bars[title], advance=over.size, note=note)

        yield watch
