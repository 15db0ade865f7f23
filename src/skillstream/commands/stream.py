"""`skillstream stream`: online Baum-Welch on samples as they come: a pipe, a growing file, a live world."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qsl

import tyro

from skillstream.commands import common
from skillstream.commands.models import Kind, first_policy
from skillstream.errors import InputError, SkillstreamError
from skillstream.learning.config import OnlineConfig

if TYPE_CHECKING:
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.learning.online import OnlineLearner
    from skillstream.policies.policy import OptionPolicy
    from skillstream.runs import RunDirectory
    from skillstream.streaming.service import Service
    from skillstream.streaming.sources import Source
    from skillstream.streaming.state import StateDirectory

_LEARNING = OnlineConfig(pseudo_count=0.01, memory=10_000)
_NETWORKS_EVERY = 5
_STOPPED = 143
_AT_REST = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class Stream:
    """Learn skills from samples as they come, in memory that does not grow; it can be left running.

    Example: skillstream stream runs/collect-grid-world --options 2

    With --state it goes on for as long as something may come, and from its last checkpoint when it is
    started again: tail -F log.jsonl | skillstream stream - --state runs/live
    """

    source: tyro.conf.Positional[str]
    """- (standard input), a file of JSON lines that grows, or gym:TASK?expert=NAME&seed=0; a run of collect,
    a .npz, .csv or .parquet file, minari:NAME, or a folder of trajectories is read to its end."""
    state: Path | None = None
    """Directory that keeps everything, to go on from; made if it is not there. Without it, a file is read to
    its end into a new run."""
    options: int = 2
    """How many skills to look for."""
    policy: Kind = "auto"
    """tabular for discrete observations, neural for continuous ones; auto chooses."""
    states: int | None = None
    """Tables only: how many states there are, where neither the world nor the first samples tell."""
    actions: int | None = None
    """How many actions there are, where neither the world nor the first samples tell."""
    start: Path | None = None
    """A policy, or a run of fit, to go on from, instead of a random start."""
    resume: Path | None = None
    """The same as --state, for a run that must be there."""
    once: bool = False
    """Stop at the end of a file instead of following it as it grows."""
    first_lines: int = 1000
    """Lines that tell how many states and actions there are, where --states, --actions or --start do not."""
    at_end: bool = False
    """Begin at the end of a file, with what comes from now on."""
    replayed: bool = False
    """What is piped in begins anew with lines that were taken before: skip these."""
    strict: bool = False
    """Stop at a line that cannot be learnt from, instead of leaving it out; data sets are always read so."""
    samples: int | None = None
    """Stop after so many samples in all."""
    longest_line: int = 1 << 20
    """Bytes; a longer line is left out, and not kept in memory either."""
    checkpoint_every: int = 1_000_000
    """Samples between two checkpoints, at the most."""
    checkpoint_seconds: float = 30.0
    """Seconds between two checkpoints, at the most."""
    keep: int = 3
    """Checkpoints to keep."""
    on_drift: Literal["ignore", "forget", "restart"] = "ignore"
    """When the expert seems to have changed: do nothing, let the past count as 1000 samples, or begin anew
    with fresh options. An event in the metrics tells of it in any case."""
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
        self._check()
        about = self._about()
        source = self._open(about)
        learner = self._ready_learner()
        state = self._state(about)
        with common.progress("Learning", None) as report:

            def show(status: dict[str, Any]) -> None:
                report(status["samples"], _line(status))

            service = self._service(state, source, about, learner or self._learner_for(about, source), show)
            try:
                ending = service.run()
            except SkillstreamError as error:
                raise InputError(f"{error}; what was learnt before it is in {state.path}") from error
        self._conclude(state.run, ending)
        return {"interrupted": common.INTERRUPTED, "stopped": _STOPPED}.get(ending, 0)

    def _check(self) -> None:
        if self.options < 1:
            raise InputError(f"--options: must be at least 1, found {self.options}")
        given = [name for name in ("state", "resume", "output") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"--{given[0]}, --{given[1]}: give one of the two")
        if self.resume is not None and not (self.resume / "checkpoints").is_dir():
            raise FileNotFoundError(
                f"--resume: there is no file {self.resume}/checkpoints; give a run of stream"
            )
        for name in (
            "states",
            "actions",
            "samples",
            "first_lines",
            "longest_line",
            "checkpoint_every",
            "keep",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')}: must be at least 1, found {value}")
        if not self.checkpoint_seconds > 0:
            raise InputError(f"--checkpoint-seconds: must be positive, found {self.checkpoint_seconds}")

    @property
    def _place(self) -> Path | None:
        return self.state or self.resume

    def _about(self) -> common.Source:
        """What is known of where the samples come from."""
        if self.source == "-":
            return common.Source("-", "stdin")
        if self.source.startswith("gym:"):
            task, _, query = self.source.removeprefix("gym:").partition("?")
            pairs = [pair for pair in parse_qsl(query) if pair[0] not in ("expert", "seed")]
            return common.Source(
                self.source, task.replace("/", "-"), task, tuple(f"{name}={value}" for name, value in pairs)
            )
        return common.find_source(self.source)

    def _open(self, about: common.Source) -> "Source":
        from skillstream.streaming.columns import AtRest, World
        from skillstream.streaming.sources import line_source

        path = Path(about.path)
        if self.source.startswith("gym:"):
            return World(self.source.removeprefix("gym:"))
        at_rest = path.suffix.lower() in _AT_REST or path.is_dir() or about.path.startswith("minari:")
        if at_rest or (not path.exists() and about.path != "-"):
            return AtRest(about.path)
        return line_source(
            about.path,
            follow=self._place is not None and not self.once,
            at_end=self.at_end,
            longest=self.longest_line,
            strict=self.strict,
            enough=self.first_lines,
            states=self.states,
            actions=self.actions,
            replayed=self.replayed,
        )

    def _ready_learner(self) -> "OnlineLearner | None":
        """A learner, where the flags alone say what it is."""
        from skillstream.policies.policy import OptionPolicy

        if self.start is not None:
            return self._learner(common.load_policy(self.start))
        if self.states is None or self.actions is None or self.policy == "neural":
            return None
        return self._learner(
            OptionPolicy.tabular(self.options, self.states, self.actions, self.learning.seed)
        )

    def _learner_for(
        self, about: common.Source, source: "Source"
    ) -> "Callable[[Demonstrations], OnlineLearner]":
        """What makes a learner of the first samples."""
        world = getattr(source, "world", None) or common.world_of(about)

        def make(demos: "Demonstrations") -> "OnlineLearner":
            # Standardising would need data that have not come yet.
            seed, states, actions = self.learning.seed, self.states or 0, self.actions or 0
            return self._learner(
                first_policy(demos, self.options, self.policy, False, seed, world, states, actions)
            )

        return make

    def _learner(self, policy: "OptionPolicy") -> "OnlineLearner":
        """An M-step at every sample is cheap for tables, and milliseconds for all else."""
        from skillstream.learning.online import OnlineLearner
        from skillstream.policies.tabular import TabularModel

        every = 1 if isinstance(policy.model, TabularModel) else _NETWORKS_EVERY
        given = self.learning.update_every
        return OnlineLearner(policy, replace(self.learning, update_every=every if given is None else given))

    def _state(self, about: common.Source) -> "StateDirectory":
        from skillstream.runs import check_new, unused
        from skillstream.streaming.state import StateDirectory

        check_new(self.output)
        path = self._place or self.output or unused(Path(f"runs/stream-{about.name}"))
        state = StateDirectory(path, self, self.keep, self.tensorboard)
        state.run.record |= {"task": about.task, "set": list(about.settings), "demonstrations": about.path}
        try:
            state.run.write()
        except BaseException:
            state.release()
            raise
        return state

    def _service(
        self,
        state: "StateDirectory",
        source: "Source",
        about: common.Source,
        learner: "OnlineLearner | Callable[[Demonstrations], OnlineLearner]",
        show: Callable[[dict[str, Any]], None],
    ) -> "Service":
        from skillstream.streaming.service import Pace, Service

        known = about.path if about.path == "-" or ":" in about.path else str(Path(about.path).resolve())
        pace = Pace(self.checkpoint_every, self.checkpoint_seconds, self.on_drift, self.samples)

        try:
            return Service(state, source, known, learner, pace, show, _say)
        except BaseException:
            state.release()
            raise

    def _conclude(self, run: "RunDirectory", ending: str) -> None:
        from skillstream.policies.policy import OptionPolicy

        results = run.record["results"]
        if self.json:
            common.print_json(run=str(run.path), state=ending, **results)
        console = common.console(self.json)
        learnt = repr(OptionPolicy.load(run.policy)) if run.policy.is_file() else "nothing learnt yet"
        rejected = results["rejected"]
        left_out = f"{rejected} left out (see {run.path}/rejects.jsonl), " if rejected else ""
        console.print(
            f"{learnt}\n{results['samples']} samples, {left_out}predictive log-likelihood a step "
            f"{results['predictive_log_likelihood']:.4f}, certificate {results['certificate']:.0e}.\n"
            f"In {run.path}."
        )
        console.print(self._next(run, ending))

    def _next(self, run: "RunDirectory", ending: str) -> str:
        """What to do after it; what came through a pipe or from a world is not there to be read again."""
        again = self.source == "-" or self.source.startswith("gym:")
        if ending == "finished" and not again:
            return common.what_next(run, self.source, "--resume")
        if ending == "finished" and run.record["task"] is not None:
            return f"Next: skillstream evaluate {run.path}"
        verb = {"interrupted": "Interrupted. Go", "stopped": "Stopped. Go"}.get(ending, "Go")
        return f"{verb} on with: skillstream stream '{self.source}' --resume {run.path}"


def _say(note: str) -> None:
    print(f"skillstream: {note}", file=sys.stderr)


def _line(status: dict[str, Any]) -> str:
    """A status in a line, for people."""
    if status["option"] is None:
        return "waiting for the first samples, which tell how many states and actions there are"
    likelihood = status["recent_log_likelihood"]
    parts = [
        status["state"],
        f"{status['rate']:,.0f}/s",
        "log-likelihood -" if likelihood is None else f"log-likelihood {likelihood:.4f}",
        f"option {status['option']} ({max(status['option_probabilities']):.0%})",
        f"certificate {status['certificate']:.0e}",
        f"{status['rejected']:,} left out",
        f"{status['memory'] / 2**20:,.0f} MiB",
    ]
    return ", ".join(parts)
