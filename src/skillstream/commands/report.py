"""`skillstream report`: one page that shows what a run has learnt."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from skillstream.commands import common
from skillstream.commands.evaluate import expert_return
from skillstream.commands.fit import Fit
from skillstream.errors import InputError, SkillstreamError

if TYPE_CHECKING:
    import numpy as np

    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.policies.policy import OptionPolicy
    from skillstream.reporting.curves import Comparison
    from skillstream.reporting.frames import Frames
    from skillstream.reporting.report import Agreement
    from skillstream.runs import RunDirectory

_STAGES = ("reading", "evaluating", "cloning", "evaluating the clone", "drawing")


@dataclass(frozen=True)
class Report:
    """Write a page about a run: what was learnt, how it acts, what each option does.

    Example: skillstream report runs/fit-cart-pole
    """

    run_directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """A run of fit or stream."""
    demonstrations: Annotated[str | None, tyro.conf.Positional] = None
    """Where to show the options; what the run learnt from if left out."""
    task: str | None = None
    """The world to evaluate in; the one that the run's demonstrations came from if left out."""
    set: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME=VALUE ...")] = None
    """Settings of the task, such as observation=index."""
    episodes: int = 100
    """Episodes to evaluate for each policy."""
    seed: int = 0
    """Gives the same page twice."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Evaluate, clone, draw, write."""
        from skillstream.reporting.report import write_report
        from skillstream.runs import RunDirectory

        run = RunDirectory.open(self.run_directory)
        policy = common.load_policy(self.run_directory)
        notes: list[str] = []
        with common.progress("Reporting", len(_STAGES)) as stage:
            stage(0, _STAGES[0])
            source = self._source(run)
            demos = common.load(source)
            task = self.task or source.task or run.record.get("task")
            settings = common.parse_settings(self._settings(run, source, task))
            comparison = self._compare(policy, demos, task, settings, notes, stage)
            stage(4, _STAGES[4])
            agreement = _agreement(policy, demos, task)
            path = write_report(
                run,
                demos,
                policy,
                task=task,
                comparison=comparison,
                agreement=agreement,
                frames=self._frames(policy, task, settings, notes),
                notes=notes,
            )
            stage(5)
        self._conclude(path, comparison, agreement, notes)
        return 0

    def _source(self, run: "RunDirectory") -> common.Source:
        recorded = run.record.get("demonstrations")
        if self.demonstrations is not None:
            return common.find_source(self.demonstrations)
        if recorded is None:
            raise InputError(
                f"run: {run.path} is a run of {run.record.get('command')}, which learns nothing; give one of "
                "fit or stream"
            )
        if not recorded.startswith("minari:") and not Path(recorded).exists():
            raise InputError(
                f"demonstrations: {recorded}, which the run learnt from, is not there any more (seen "
                "from this folder); say where they are: skillstream report RUN DEMONSTRATIONS"
            )
        return common.find_source(recorded)

    def _settings(self, run: "RunDirectory", source: common.Source, task: str | None) -> tuple[str, ...]:
        if self.set is not None:
            return self.set
        if source.task is not None and task == source.task:
            return source.settings
        return tuple(run.record.get("set") or ()) if task == run.record.get("task") else ()

    def _compare(
        self,
        policy: "OptionPolicy",
        demos: "Demonstrations",
        task: str | None,
        settings: dict[str, Any],
        notes: list[str],
        stage: Any,
    ) -> "Comparison | None":
        """Evaluate the policy and a flat clone; None, and a note why, where the world is not there."""
        from skillstream.acting.evaluation import evaluate
        from skillstream.learning.batch import clone
        from skillstream.reporting.curves import Comparison

        if task is None:
            notes.append("The policy was not evaluated: nothing tells its world. Name one with --task.")
            return None
        try:
            stage(1, _STAGES[1])
            learnt = evaluate(policy, task, self.episodes, self.seed, **settings)
            stage(2, _STAGES[2])
            flat = clone(policy, demos, replace(Fit.learning, starts=1, seed=self.seed)).policy
            stage(3, _STAGES[3])
            cloned = evaluate(flat, task, self.episodes, self.seed, **settings)
        except SkillstreamError as error:
            if self.task is not None:
                raise
            notes.append(f"The policy was not evaluated. {error}")
            return None
        return Comparison({"learnt policy": learnt, "flat clone": cloned}, expert_return(task))

    def _frames(
        self, policy: "OptionPolicy", task: str | None, settings: dict[str, Any], notes: list[str]
    ) -> "Frames | None":
        """Pictures of the policy at work; None, and a note why, where the world cannot draw itself."""
        from skillstream.reporting.frames import record_frames

        if task is None:
            return None
        try:
            return record_frames(policy, task, seed=self.seed, **settings)
        except SkillstreamError as error:
            notes.append(f"There are no pictures of the policy at work. {error}")
            return None

    def _conclude(
        self,
        path: Path,
        comparison: "Comparison | None",
        agreement: "Agreement | None",
        notes: list[str],
    ) -> None:
        returns = {} if comparison is None else {n: r.mean for n, r in comparison.policies.items()}
        if self.json:
            common.print_json(
                report=str(path),
                returns=returns,
                expert_return=None if comparison is None else comparison.expert,
                agreement=None if agreement is None else agreement.learnt,
                true_agreement=None if agreement is None else agreement.true,
                notes=notes,
            )
        lines = [f"mean return of the {name}: {mean:.2f}" for name, mean in returns.items()]
        if comparison is not None and comparison.expert is not None:
            lines.append(f"the expert's: {comparison.expert:.2f}")
        common.console(self.json).print("\n".join([*notes, *lines, f"The report is {path}."]), markup=False)


def _agreement(policy: "OptionPolicy", demos: "Demonstrations", task: str | None) -> "Agreement | None":
    """How often the options are the expert's, beside what smoothing with its own hierarchy reaches."""
    from skillstream.policies.posteriors import smooth
    from skillstream.reporting.report import Agreement

    if demos.true_options is None:
        return None
    learnt = _share(smooth(policy, demos).options.argmax(1), demos.true_options)
    return Agreement(learnt, _reachable(demos, task))


def _reachable(demos: "Demonstrations", task: str | None) -> float | None:
    from skillstream.experts.acting import HierarchicalExpert
    from skillstream.experts.catalogue import NAMES, make_expert
    from skillstream.policies.posteriors import smooth

    expert = make_expert(task) if task in NAMES else None
    if not isinstance(expert, HierarchicalExpert) or demos.true_options is None:
        return None
    try:
        return _share(smooth(expert.policy, expert.numbered(demos)).options.argmax(1), demos.true_options)
    except InputError:  # they are not the expert's own, or its world was another
        return None


def _share(found: "np.ndarray", truth: "np.ndarray") -> float:
    from skillstream.experiments.matching import best_matching

    return best_matching(found, truth)[0]
