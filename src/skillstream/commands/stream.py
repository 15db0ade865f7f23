"""`skillstream stream`: online Baum-Welch on demonstrations as they come, sample by sample."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from skillstream.commands import common
from skillstream.commands.models import Kind, first_policy
from skillstream.errors import InputError, SkillstreamError
from skillstream.learning.config import OnlineConfig

if TYPE_CHECKING:
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.learning.online import OnlineLearner
    from skillstream.runs import RunDirectory

_LEARNING = OnlineConfig(pseudo_count=0.01, memory=10_000, update_every=5)
_LEARNER = "learner"


@dataclass(frozen=True)
class Stream:
    """Learn skills from demonstrations episode by episode, in memory that does not grow.

    Example: skillstream stream runs/collect-grid-world --options 2
    """

    demonstrations: tyro.conf.Positional[str]
    """A run of collect, a .npz, .csv, .parquet or .jsonl file, minari:NAME, or a folder of trajectories."""
    options: int = 2
    """How many skills to look for."""
    policy: Kind = "auto"
    """tabular for discrete observations, neural for continuous ones; auto chooses."""
    states: int | None = None
    """Tables only: how many states there are, where neither the world nor the first episode tells."""
    start: Path | None = None
    """A policy, or a run of fit, to go on from, instead of a random start."""
    resume: Path | None = None
    """An interrupted run of stream to go on with, from the sample after its last."""
    learning: Annotated[OnlineConfig, tyro.conf.arg(name="")] = _LEARNING
    """How to learn."""
    output: Path | None = None
    """Run directory to make; runs/stream-NAME (with a number) if left out."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard (needs skillstream[tensorboard])."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Learn, write, say how it went."""
        from skillstream.demonstrations.formats import stream_episodes

        source = common.find_source(self.demonstrations)
        episodes = stream_episodes(source.path)
        first = next(episodes, None)
        if first is None:
            raise InputError(f"demonstrations: {source.path} holds no episode")
        learner = self._learner(first, source)
        run = common.learning_run("stream", self, source)
        with run:
            return self._learn(learner, first, episodes, run)

    def _learner(self, first: "Demonstrations", source: common.Source) -> "OnlineLearner":
        from skillstream.learning.online import OnlineLearner

        if self.resume is not None:
            return OnlineLearner.load(self.resume / _LEARNER)
        if self.start is not None:
            return OnlineLearner(common.load_policy(self.start), self.learning)
        world = common.world_of(source)
        # Standardising would need data that have not come yet.
        policy = first_policy(
            first, self.options, self.policy, False, self.learning.seed, world, self.states or 0
        )
        return OnlineLearner(policy, self.learning)

    def _learn(self, learner: "OnlineLearner", first: "Demonstrations", episodes, run: "RunDirectory") -> int:
        state, known, seen, count = "finished", learner.num_samples, 0, -1
        failure: SkillstreamError | None = None
        with common.progress("Learning", None) as report:
            try:
                for demos in chain([first], episodes):
                    count += 1
                    skipped = min(max(known - seen, 0), demos.num_steps)
                    seen += demos.num_steps
                    if skipped < demos.num_steps:
                        _feed(learner, demos, skipped)
                        run.log(
                            learner.num_samples,
                            log_likelihood=learner.log_likelihood / learner.num_samples,
                            certificate=learner.certificate,
                            impossible=learner.num_impossible,
                        )
                    report(learner.num_samples)
            except KeyboardInterrupt:
                state = "interrupted"
            except SkillstreamError as error:
                state, failure = "failed", error
        learner.save(run.path / _LEARNER)
        learner.policy.save(run.policy)
        self._finish(learner, run, state)
        if failure is not None:
            raise InputError(
                f"episode {count} of {self.demonstrations}: {failure} (see --states, if it is for want of "
                f"states); what was learnt before it is in {run.path}"
            ) from failure
        self._conclude(learner, run, state)
        return common.INTERRUPTED if state == "interrupted" else 0

    def _finish(self, learner: "OnlineLearner", run: "RunDirectory", state: str) -> None:
        run.finish(
            state,
            samples=learner.num_samples,
            predictive_log_likelihood=learner.log_likelihood / max(learner.num_samples, 1),
            certificate=learner.certificate,
            impossible=learner.num_impossible,
        )

    def _conclude(self, learner: "OnlineLearner", run: "RunDirectory", state: str) -> None:
        results = run.record["results"]
        if self.json:
            common.print_json(run=str(run.path), state=state, **results)
        console = common.console(self.json)
        console.print(
            f"{learner.policy!r}\n{learner.num_samples} samples, predictive log-likelihood a step "
            f"{results['predictive_log_likelihood']:.4f}, certificate {learner.certificate:.0e}.\n"
            f"In {run.path}."
        )
        console.print(common.what_next(run, self.demonstrations, "--resume"))


def _feed(learner: "OnlineLearner", demos: "Demonstrations", skipped: int) -> None:
    """The steps of an episode that have not been learnt from."""
    mask = None if demos.action_mask is None else demos.action_mask[skipped:]
    learner.partial_fit(
        demos.observations[skipped:], demos.actions[skipped:], demos.episode_starts[skipped:], mask
    )
