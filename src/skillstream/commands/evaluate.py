"""`skillstream evaluate`: how well a policy does in its world."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillstream.commands import common
from skillstream.errors import InputError


@dataclass(frozen=True)
class Evaluate:
    """Let a learnt policy act, and compare its return with the expert's.

    Example: skillstream evaluate runs/fit-cart-pole
    """

    policy: tyro.conf.Positional[Path]
    """A run of fit or stream, or a policy file."""
    task: Annotated[str | None, tyro.conf.Positional] = None
    """The world; the one that the run's demonstrations came from if left out."""
    episodes: int = 100
    """Episodes to run."""
    set: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME=VALUE ...")] = None
    """Settings of the task, such as observation=index."""
    deterministic: bool = False
    """Whether to take the most probable option and action instead of drawing them."""
    seed: int = 0
    """Gives the same episodes twice."""
    output: Path | None = None
    """Run directory to make; runs/evaluate-NAME (with a number) if left out."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Evaluate, write, say how well it does."""
        from skillstream.acting.evaluation import evaluate
        from skillstream.runs import RunDirectory, check_new

        check_new(self.output)
        policy = common.load_policy(self.policy)
        task, settings = self._task()
        expected = expert_return(task)
        with common.progress("Evaluating", self.episodes) as report:
            result = evaluate(
                policy,
                task,
                self.episodes,
                self.seed,
                deterministic=self.deterministic,
                progress=report,
                **common.parse_settings(settings),
            )
        name = self.policy.name if self.policy.is_dir() else self.policy.stem
        run = RunDirectory.create(self.output, f"runs/evaluate-{name}", "evaluate", self)
        low, high = result.interval
        run.finish(
            task=task,
            mean=result.mean,
            std=result.std,
            interval=[low, high],
            expert_return=expected,
            usage=result.usage,
            durations=result.durations,
            returns=result.returns,
            lengths=result.lengths,
        )
        if self.json:
            common.print_json(run=str(run.path), **run.record["results"])
        expert = "" if expected is None else f"; the expert's is {expected:.2f}"
        console = common.console(self.json)
        console.print(
            f"{task}: mean return {result.mean:.2f} ± {result.std:.2f} over {self.episodes} episodes "
            f"(95 % interval of the mean {low:.2f} to {high:.2f}){expert}."
        )
        for option, (share, steps) in enumerate(zip(result.usage, result.durations, strict=True)):  # pyright: ignore
            console.print(f"  option {option}: {share:.0%} of the steps, {steps:.1f} in a row on average")
        console.print(f"In {run.path}.")
        return 0

    def _task(self) -> tuple[str, tuple[str, ...]]:
        from skillstream.runs import RunDirectory

        record = RunDirectory.open(self.policy).record if (self.policy / "run.json").is_file() else {}
        task = self.task or record.get("task")
        if task is None:
            raise InputError("task: nothing tells in which world to evaluate; name one, such as cart-pole")
        known = tuple(record.get("set") or ()) if task == record.get("task") else ()
        return task, known if self.set is None else self.set


def expert_return(task: str) -> float | None:
    """The expected return of the expert of a task, if there is one."""
    from skillstream.experts.catalogue import NAMES, make_expert

    return make_expert(task).expected_return if task in NAMES else None
