"""`skillstream collect`: an expert's demonstrations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillstream.commands import common
from skillstream.commands.evaluate import expert_return
from skillstream.errors import InputError


@dataclass(frozen=True)
class Collect:
    """Record what an expert sees and does.

    Example: skillstream collect cart-pole --steps 2000
    """

    task: tyro.conf.Positional[str]
    """grid-world, hidden-goal, cart-pole (2000 steps), pendulum (with five torques), lunar-lander,
    mountain-car, acrobot, or any Gymnasium id."""
    steps: int | None = None
    """Steps to record; 2000 unless --episodes is given."""
    episodes: int | None = None
    """Episodes to record, instead of steps."""
    expert: Path | None = None
    """A policy, or a run of fit or stream, that acts; the task's own expert if left out."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """Settings of the task, such as observation=index."""
    deterministic: bool = False
    """Whether the expert takes its most probable actions instead of drawing them."""
    seed: int = 0
    """Gives the same demonstrations twice."""
    output: Path | None = None
    """Run directory to make; runs/collect-TASK (with a number) if left out."""
    save: str | None = None
    """Also write them to this .npz, .csv, .parquet or .jsonl file, or as minari:NAME."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Collect, write, say what there is."""
        from skillstream.acting.collection import collect
        from skillstream.demonstrations.formats import check_can_save
        from skillstream.environments.catalogue import make_env
        from skillstream.experts.catalogue import make_expert
        from skillstream.runs import RunDirectory

        if self.steps is not None and self.episodes is not None:
            raise InputError("--steps, --episodes: give one of the two")
        steps = 2000 if self.steps is None and self.episodes is None else self.steps
        if self.save is not None and not self.save.startswith("minari:") and Path(self.save).exists():
            raise InputError(f"--save: {self.save} exists already; name a new file")
        if self.save is not None:
            check_can_save(self.save)
        world = make_env(self.task, **common.parse_settings(self.set))
        expert = common.load_policy(self.expert) if self.expert else make_expert(self.task, self.seed)
        run = RunDirectory.create(self.output, f"runs/collect-{self.task.replace('/', '-')}", "collect", self)
        with common.progress("Collecting", steps or self.episodes or 0) as report:
            demos = collect(
                expert,
                world,
                steps,
                self.episodes,
                self.seed,
                deterministic=self.deterministic,
                progress=lambda done: report(done) if done % 100 == 0 else None,
            )
        demos.save(run.path / common.DEMONSTRATIONS)
        if self.save is not None:
            demos.save(self.save)
        whole = demos if len(demos) == 1 else demos[:-1]
        mean = float(whole.rewards.sum() / len(whole)) if whole.rewards is not None else None
        # An expert's return is known in its own task, not where a Gymnasium id has another time limit.
        expected = expert_return(self.task) if self.expert is None else None
        run.finish(steps=demos.num_steps, episodes=len(demos), mean_return=mean, expert_return=expected)
        if self.json:
            common.print_json(run=str(run.path), **run.record["results"])
        known = "" if expected is None else f"; the expert's expected return is {expected:.2f}"
        common.console(self.json).print(
            f"{demos.num_steps} steps in {len(demos)} episodes, mean return {mean:.2f}{known}.\n"
            f"In {run.path}. Next: skillstream fit {run.path}"
        )
        return 0
