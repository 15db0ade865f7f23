"""The whole story in two worlds: expert, demonstrations, online and batch learning, evaluation, report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from skillstream.acting.collection import collect
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.experiments.learners import Result, learn_online, measure
from skillstream.experts.catalogue import HierarchicalExpert, make_expert
from skillstream.learning.batch import Progress, clone, fit
from skillstream.learning.config import BatchConfig, OnlineConfig
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import smooth
from skillstream.reporting.curves import Comparison
from skillstream.reporting.frames import record_frames
from skillstream.reporting.report import Agreement, write_report
from skillstream.reporting.timeline import plot_timeline
from skillstream.runs import RunDirectory

Log = Callable[[Progress], None]

STEPS = 2000
TABLES = BatchConfig(iterations=100, tolerance=1e-6, pseudo_count=0.01)
TABLES_ONLINE = OnlineConfig(pseudo_count=0.01)
NETWORKS = BatchConfig(iterations=20, epochs=10)
NETWORKS_ONLINE = OnlineConfig(update_every=2)
_INDEX = {"observation": "index"}


def run_demo(starts: int, seed: int, output: Path, console: Console) -> dict[str, list[Result]]:
    """Run both worlds, print their tables, write pictures and reports, and return what the tables show."""
    console.print(
        "[bold]1. The paper's grid world.[/bold] An expert gathers from two sites in the wind; each of its "
        "two options goes to one of them. The state tells which site pays, so a policy without options can "
        "follow."
    )
    told = {"seed": seed, "starts": starts, "steps": STEPS}
    runs = {
        task: RunDirectory.create(output / task, task, "demo", told) for task in ("grid-world", "hidden-goal")
    }
    grid = make_expert("grid-world", seed)
    assert isinstance(grid, HierarchicalExpert)
    results = {"grid-world": _grid_world(grid, starts, seed, _logger(runs["grid-world"]))}
    _show(console, results["grid-world"], grid)
    console.print(
        "\n[bold]2. A hidden goal.[/bold] An expert goes back and forth between two sites, and nothing it "
        "sees says where it goes: the option is memory, and a policy without options must fail."
    )
    hidden = make_expert("hidden-goal", seed)
    assert isinstance(hidden, HierarchicalExpert)
    results["hidden-goal"] = _hidden_goal(hidden, starts, seed, _logger(runs["hidden-goal"]))
    _show(console, results["hidden-goal"], hidden)
    for task, run in runs.items():
        console.print(f"Report: {_report(run, task, results[task], seed)}", soft_wrap=True)
    _, held_out = _collect("hidden-goal", hidden, seed)
    _plot(output / "timeline.png", results["hidden-goal"], held_out[:2])
    console.print(f"Option timeline: {output / 'timeline.png'}", soft_wrap=True)
    return results


def _logger(run: RunDirectory) -> Log:
    """Keeps the learning curve of a fit in a run's metrics."""
    return lambda now: run.log(now.iteration, start=now.start, log_likelihood=now.log_likelihood / STEPS)


def _grid_world(expert: HierarchicalExpert, starts: int, seed: int, log: Log) -> list[Result]:
    """The paper's networks on coordinates, and tables on the number of the state."""
    demos, held_out = _collect("grid-world", expert, seed)
    numbered, numbered_out = (expert.numbered(data) for data in (demos, held_out))
    networks = [OptionPolicy.neural(2, 3, 5, seed + n, standardise=demos) for n in range(min(starts, 2))]
    tables = [OptionPolicy.tabular(2, 416, 5, seed + n) for n in range(starts)]
    batch = replace(NETWORKS, starts=len(networks), seed=seed)
    ways = [
        ("flat cloning, networks", lambda: clone(networks[0], demos, NETWORKS).policy, held_out, {}),
        ("batch, networks", lambda: fit(networks[0], demos, batch, log).policy, held_out, {}),
        ("online, networks", lambda: learn_online(networks[:1], demos, NETWORKS_ONLINE), held_out, {}),
        ("batch, tables", lambda: _batch(tables, numbered, seed), numbered_out, _INDEX),
        ("online, tables", lambda: learn_online(tables, numbered, TABLES_ONLINE), numbered_out, _INDEX),
        ("the expert itself", lambda: expert.policy, numbered_out, _INDEX),
    ]
    return [measure(name, learn, data, "grid-world", **settings) for name, learn, data, settings in ways]


def _hidden_goal(expert: HierarchicalExpert, starts: int, seed: int, log: Log) -> list[Result]:
    demos, held_out = _collect("hidden-goal", expert, seed)
    shape = expert.policy.tables()["action"].shape
    tables = [OptionPolicy.tabular(2, shape[0], shape[2], seed + n) for n in range(starts)]
    ways = {
        "flat cloning, tables": lambda: clone(tables[0], demos, TABLES).policy,
        "batch, tables": lambda: _batch(tables, demos, seed, log),
        "online, tables": lambda: learn_online(tables, demos, TABLES_ONLINE),
        "the expert itself": lambda: expert.policy,
    }
    return [measure(name, learn, held_out, "hidden-goal") for name, learn in ways.items()]


def _batch(
    starts: list[OptionPolicy], demos: Demonstrations, seed: int, log: Log | None = None
) -> OptionPolicy:
    return fit(starts[0], demos, replace(TABLES, starts=len(starts), seed=seed), log).policy


def _collect(task: str, expert: Any, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """What to learn from, and what to look at afterwards."""
    return collect(expert, task, STEPS, seed=seed), collect(expert, task, STEPS, seed=seed + 1000)


def _show(console: Console, results: list[Result], expert: HierarchicalExpert) -> None:
    table = Table(
        title=f"{expert.name}: {STEPS} steps learnt from, as many others to test on",
        caption="return: mean of 100 episodes, and its share of the expert's;\n"
        "log-lik.: of a test step; option: test steps given the expert's",
    )
    table.add_column("learner")
    for column in ("return", "share", "log-lik.", "option", "seconds"):
        table.add_column(column, justify="right")
    for result in results:
        told = result.policy.num_options > 1
        table.add_row(
            result.name,
            f"{result.evaluation.mean:.2f}",
            f"{result.evaluation.mean / expert.expected_return:.0%}",
            f"{result.log_likelihood:.4f}",
            f"{result.agreement:.1%}" if told else "-",
            f"{result.seconds:.1f}" if result.name != "the expert itself" else "-",
        )
    console.print(table)


def _report(run: RunDirectory, task: str, results: list[Result], seed: int) -> Path:
    """What the run directory holds in the end: the batch-learnt policy, and the report."""
    flat, batch, *_, expert = results
    run.record |= {"task": task, "set": []}
    batch.policy.save(run.policy)
    run.finish(log_likelihood=batch.log_likelihood, agreement=batch.agreement)
    demos, _ = _collect(task, make_expert(task, seed), seed)
    evaluations = {"learnt policy": batch.evaluation, "flat clone": flat.evaluation}
    return write_report(
        run,
        demos,
        batch.policy,
        task=task,
        comparison=Comparison(evaluations, expert.evaluation.mean),
        agreement=Agreement(batch.agreement, expert.agreement),
        frames=record_frames(batch.policy, task, seed=seed),
    )


def _plot(path: Path, results: list[Result], demos: Demonstrations) -> None:
    """The expert's options and each hierarchy's smoothed probabilities of them, in the expert's numbers."""
    readings = {"true": np.eye(2)[np.asarray(demos.true_options)]}
    for result in results:
        if result.policy.num_options == 2:
            readings[result.name] = smooth(result.policy, demos).options[:, np.argsort(result.numbers)]
    plot_timeline(
        path, readings, "Hidden goal: which option runs, two held-out episodes", demos.episode_starts
    )
