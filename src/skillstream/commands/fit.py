"""`skillstream fit`: batch Baum-Welch on demonstrations at rest."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from skillstream.commands import common
from skillstream.commands.models import Kind, first_policy
from skillstream.learning.config import BatchConfig

if TYPE_CHECKING:
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.learning.batch import Progress
    from skillstream.policies.policy import OptionPolicy
    from skillstream.runs import RunDirectory

# More iterations than the paper's with fewer passes each, several starts, and no action ruled out: what
# was found to suit tables and networks alike.
_LEARNING = BatchConfig(iterations=50, tolerance=1e-5, pseudo_count=0.01, starts=3, epochs=10, batch_size=128)


@dataclass(frozen=True)
class Fit:
    """Learn skills from demonstrations at rest.

    Example: skillstream fit runs/collect-cart-pole --options 2
    """

    demonstrations: tyro.conf.Positional[str]
    """A run of collect, a .npz, .csv, .parquet or .jsonl file, minari:NAME, or a folder of trajectories."""
    options: int = 2
    """How many skills to look for."""
    policy: Kind = "auto"
    """tabular for discrete observations, neural for continuous ones; auto chooses."""
    standardise: bool = True
    """Networks only: whether to scale observations to mean 0 and variance 1."""
    states: int | None = None
    """Tables only: how many states there are, where neither the world nor the data tell."""
    start: Path | None = None
    """A policy, or a run, to go on from (an interrupted one, say), instead of a random start."""
    held_out: float = 0.0
    """Share of the episodes to hold out and stop early by."""
    learning: Annotated[BatchConfig, tyro.conf.arg(name="")] = _LEARNING
    """How to learn."""
    output: Path | None = None
    """Run directory to make; runs/fit-NAME (with a number) if left out."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard (needs skillstream[tensorboard])."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Fit, write, say how it went."""
        source = common.find_source(self.demonstrations)
        demos = common.load(source)
        held_out = None
        if self.held_out:
            held_out, demos = demos.split(self.held_out, self.learning.seed)
        policy = self._first(demos, source)
        run = common.learning_run("fit", self, source)
        with run:
            return self._learn(policy, demos, held_out, run)

    def _first(self, demos: "Demonstrations", source: common.Source) -> "OptionPolicy":
        if self.start is not None:
            return common.load_policy(self.start)
        world = common.world_of(source)
        states, seed = self.states or 0, self.learning.seed
        return first_policy(demos, self.options, self.policy, self.standardise, seed, world, states)

    def _learn(
        self,
        policy: "OptionPolicy",
        demos: "Demonstrations",
        held_out: "Demonstrations | None",
        run: "RunDirectory",
    ) -> int:
        from skillstream.learning.batch import fit

        best = {"log_likelihood": -float("inf"), "policy": policy}
        state, total = "finished", self.learning.iterations * self.learning.starts
        with common.progress("Learning", total) as report:

            def watch(now: "Progress") -> None:
                a_step = now.log_likelihood / demos.num_steps
                run.log(now.iteration, start=now.start, log_likelihood=a_step)
                if a_step > best["log_likelihood"]:
                    best.update(log_likelihood=a_step, policy=now.policy)
                note = f"start {now.start + 1}, log-likelihood a step {a_step:.4f}"
                report(now.start * self.learning.iterations + now.iteration + 1, note)

            try:
                learnt = fit(policy, demos, self.learning, watch, held_out).policy
            except KeyboardInterrupt:
                learnt, state = best["policy"], "interrupted"
        learnt.save(run.policy)
        self._conclude(learnt, demos, run, state)
        return common.INTERRUPTED if state == "interrupted" else 0

    def _conclude(self, learnt, demos, run: "RunDirectory", state: str) -> None:
        from skillstream.policies.segmentation import segment
        from skillstream.reporting.timeline import plot_segmentation
        from skillstream.reporting.usage import plot_usage

        found = segment(learnt, demos)
        plot_segmentation(run.path / "timeline.png", found, demos, task=run.record["task"])
        plot_usage(run.path / "usage.png", found, demos, run.record["task"])
        lengths = [part.length for part in found.runs()]
        run.finish(
            state,
            log_likelihood=found.log_likelihood / demos.num_steps,
            usage=found.usage(),
            mean_duration=sum(lengths) / len(lengths),
        )
        results = run.record["results"]
        if self.json:
            common.print_json(run=str(run.path), state=state, **results)
        usage = ", ".join(f"option {o} {share:.0%}" for o, share in enumerate(results["usage"]))
        console = common.console(self.json)
        console.print(
            f"{learnt!r}\nlog-likelihood a step {results['log_likelihood']:.4f}; {usage}; "
            f"a skill runs {results['mean_duration']:.1f} steps on average.\nIn {run.path}."
        )
        console.print(common.what_next(run, self.demonstrations, "--start"))
