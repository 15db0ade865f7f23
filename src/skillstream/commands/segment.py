"""`skillstream segment`: which skill runs when."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from skillstream.commands import common
from skillstream.errors import SkillstreamError

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy


@dataclass(frozen=True)
class Segment:
    """Say for every demonstration step which skill runs, how sure that is, and where skills change.

    Example: skillstream segment runs/fit-cart-pole runs/collect-cart-pole --method viterbi
    """

    policy: tyro.conf.Positional[Path]
    """A run of fit or stream, or a policy file."""
    demonstrations: tyro.conf.Positional[str]
    """A run of collect, a .npz, .csv, .parquet or .jsonl file, minari:NAME, or a folder of trajectories."""
    method: Literal["smooth", "filter", "viterbi"] = "smooth"
    """Given the whole episode, given the past only, or the single most probable path."""
    format: Literal["csv", "parquet"] = "csv"
    """Of the table."""
    output: Path | None = None
    """Run directory to make; runs/segment-NAME (with a number) if left out."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> int:
        """Segment, write the table and the pictures, say what they show."""
        from skillstream.experiments.matching import best_matching
        from skillstream.policies.segmentation import segment
        from skillstream.reporting.timeline import plot_segmentation
        from skillstream.reporting.usage import plot_usage
        from skillstream.runs import RunDirectory, check_new

        check_new(self.output)
        policy = common.load_policy(self.policy)
        source = common.find_source(self.demonstrations)
        demos = common.load(source)
        found = segment(policy, demos, self.method)
        run = RunDirectory.create(self.output, f"runs/segment-{source.name}", "segment", self)
        found.save(run.path / f"segments.{self.format}")
        plot_segmentation(run.path / "timeline.png", found, demos, task=source.task)
        plot_usage(run.path / "usage.png", found, demos, source.task)
        pictures = ["timeline.png", "usage.png", *self._frames(policy, source, run.path)]
        runs = found.runs()
        agreement = None
        if demos.true_options is not None:
            agreement, _ = best_matching(found.options, demos.true_options)
        run.finish(
            log_likelihood=found.log_likelihood / demos.num_steps,
            usage=found.usage(),
            segments=len(runs),
            agreement=agreement,
        )
        results = run.record["results"]
        if self.json:
            common.print_json(run=str(run.path), **results)
        lines = [f"{len(runs)} runs of skills in {demos.num_steps} steps:"]
        for option, share in enumerate(found.usage()):
            lengths = [part.length for part in runs if part.option == option]
            mean = sum(lengths) / len(lengths) if lengths else 0
            lines.append(
                f"  option {option}: {share:.0%} of the steps, {len(lengths)} runs of {mean:.1f} steps"
            )
        if agreement is not None:
            lines.append(f"{agreement:.1%} of the steps have the expert's own option (labels matched).")
        lines.append(f"segments.{self.format}, {', '.join(pictures)} are in {run.path}.")
        common.console(self.json).print("\n".join(lines))
        return 0

    def _frames(self, policy: "OptionPolicy", source: common.Source, folder: Path) -> list[str]:
        """A strip of the policy at work, where its world is known and can draw itself."""
        from skillstream.reporting.frames import plot_frames, record_frames

        if source.task is None:
            return []
        try:
            frames = record_frames(policy, source.task, **common.parse_settings(source.settings))
        except SkillstreamError:
            return []
        plot_frames(folder / "frames.png", frames)
        return ["frames.png"]
