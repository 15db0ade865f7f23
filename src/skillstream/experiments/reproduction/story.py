"""The page of a reproduction: figures, tables, statistics and words, all from its outcomes."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillstream.experiments.reproduction import words
from skillstream.experiments.reproduction.protocol import CAUSES, CHANGES, EXTRA, FIGURE, TASKS
from skillstream.experiments.reproduction.published import published
from skillstream.experiments.reproduction.statistics import (
    QUALITY,
    Difference,
    Point,
    claims,
    costs_to_quality,
    differences,
    points,
    standings,
)
from skillstream.experiments.reproduction.trials import Failure, Outcome
from skillstream.files import write_whole
from skillstream.reporting import page
from skillstream.reporting.cost_section import costs_section
from skillstream.reporting.costs import Costs
from skillstream.reporting.figures import COLOURS, to_svg, write_png
from skillstream.reporting.panels import Bar, Curve, Panel, bars_figure, panels_figure
from skillstream.runs import REPORT, RunDirectory

_COLOURS = {"batch": COLOURS[0], "online": COLOURS[5], "flat": COLOURS[7], "skillstream": COLOURS[2]}
_NAMES = {"batch": "batch", "online": "online", "flat": "flat cloning", "skillstream": "skillstream's choice"}
_HOW = {
    "bounded": "Table 1's weights, with a divergence that is bounded",
    "none": "no penalties",
    "paper": "Table 1 as written",
}


@dataclass(frozen=True, eq=False)
class Findings:
    """All that a page tells."""

    outcomes: Sequence[Outcome]
    failures: Sequence[Failure]
    costs: Costs | None

    @property
    def points(self) -> list[Point]:
        """Means over seeds."""
        return points(self.outcomes)

    @property
    def differences(self) -> list[Difference]:
        """Online minus batch."""
        return differences(self.outcomes)

    def penalties(self) -> list[str]:
        """The settings of the penalties that there are, in the order to show them."""
        found = {row.penalties for row in self.outcomes if row.learner in ("batch", "online")}
        return [name for name in _HOW if name in found]


def panels(found: Sequence[Point], penalties: str, budget: str, tasks: Sequence[str]) -> list[Panel]:
    """The curves of each task, the published ones dashed."""
    shown = []
    for task in tasks:
        rows = [p for p in found if p.task == task and p.change == "protocol"]
        curves = []
        for learner, colour in _COLOURS.items():
            wanted = penalties if learner in ("batch", "online") else "none"
            at = budget if learner == "batch" else "steps"
            here = sorted(
                (p for p in rows if p.learner == learner and p.penalties == wanted and p.budget == at),
                key=lambda p: p.size,
            )
            if here:
                means, stds = [p.mean for p in here], [p.std for p in here]
                curves.append(Curve(_NAMES[learner], [p.size for p in here], means, stds, colour))
        if curves:
            sizes = sorted({p.size for p in rows if published(task, p.size)})
            for learner in ("batch", "online") if sizes else ():
                means = [published(task, size)[learner].mean for size in sizes]
                curves.append(
                    Curve(f"{learner}, published", sizes, means, None, _COLOURS[learner], dashed=True)
                )
            shown.append(Panel(TASKS[task].title, curves))
    return shown


def write_story(run: RunDirectory, found: Findings) -> Path:
    """Write `report.html`, and the figures as PNG and SVG beside it."""
    parts = [
        _header(run, found),
        *(_figure(found, penalties) for penalties in found.penalties()),
        _equal_time(found),
        _claims(found),
        _standings(found),
        _causes(found),
        _extra(found),
        _ablation(found),
        _quality(found),
        costs_section(found.costs) if found.costs is not None else "",
        _failed(found),
        _made(run),
    ]
    for penalties in found.penalties():
        shown = panels(found.points, penalties, "steps", tuple(FIGURE))
        if shown:
            write_png(run.path / f"figure1-{penalties}.png", lambda shown=shown: panels_figure(shown, 8.6))
            drawn = to_svg("figure1", "Figure 1", lambda shown=shown: panels_figure(shown, 8.6))
            named = drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
            write_whole(run.path / f"figure1-{penalties}.svg", named.encode())
    path = run.path / REPORT
    write_whole(path, page.page("Figure 1 and Table 1, reproduced · skillstream", parts).encode())
    return path


def _header(run: RunDirectory, found: Findings) -> str:
    seeds = len({(row.task, row.seed) for row in found.outcomes})
    learning = sum(row.seconds for row in found.outcomes)
    lead = (
        "The experiment of Giammarino and Paschalidis, 'Online Baum-Welch algorithm for Hierarchical "
        "Imitation Learning', run anew with exact E-steps: what an expert does is learnt from ever more "
        "samples, in batch and online, and the hierarchy learnt then acts by itself."
    )
    tiles = [
        ("Trials", f"{len(found.outcomes):,}", f"{seeds} seeds of tasks"),
        ("Learning", _duration(learning), "on the clock, all trials together"),
        ("The run", _duration(run.record.get("seconds", 0)), f"{run.record.get('jobs', '?')} at a time"),
        ("Failed", str(len(found.failures)), "trials"),
    ]
    return (
        "<header>\n"
        + page.paragraph(f"skillstream report of {run.path.name}", "kicker")
        + "<h1>Figure 1 and Table 1, reproduced</h1>\n"
        + page.paragraph(lead, "lead")
        + page.tiles(tiles)
        + "\n</header>"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _figure(found: Findings, penalties: str) -> str:
    shown = panels(found.points, penalties, "steps", tuple(FIGURE))
    if not shown:
        return ""
    first = penalties == found.penalties()[0]
    explained = (
        "Mean return over 100 episodes, on a scale where the expert's is 1 (for the pendulum, -1000 is 0); "
        "mean over seeds, and a band of one standard deviation. Batch takes 20 iterations of 50 passes, "
        "online 30 gradient steps a sample. The published curves are drawn as they are: their expert and "
        "their demonstrations were others. Curves that leave the panel below are worse than -0.3."
    )
    rows = [
        (
            f"{TASKS[p.task].title}, {p.size:,}",
            _NAMES[p.learner],
            f"{p.mean:.3f} ± {p.std:.3f}",
            _published(p),
            f"{p.gradient_steps:,}",
            f"{p.seconds:.2f}",
            str(p.seeds),
        )
        for p in found.points
        if p.task in FIGURE
        and p.change == "protocol"
        and p.budget == "steps"
        and p.penalties == (penalties if p.learner in ("batch", "online") else "none")
    ]
    head = ("Task, samples", "Learner", "Return", "Published", "Gradient steps", "Seconds", "Seeds")
    return page.section(
        f"Figure 1: {_HOW[penalties]}",
        *([page.paragraph(explained)] if first else []),
        page.figure(
            f"figure-{penalties}",
            f"Return over training samples in {len(shown)} tasks; the table below has the numbers",
            lambda width: panels_figure(shown, width),
        ),
        page.folded("The numbers", page.table(head, rows, f"Returns, {_HOW[penalties]}")),
    )


def _published(point: Point) -> str:
    theirs = published(point.task, point.size).get(point.learner)
    return "" if theirs is None else f"{theirs.mean:.3f} ± {theirs.std:.3f}"


def _equal_time(found: Findings) -> str:
    timed = [p for p in found.points if p.budget == "time"]
    if not timed:
        return ""
    penalties = found.penalties()[0]
    shown = [
        Panel(panel.title, [c for c in panel.curves if c.name in ("batch", "online")])
        for panel in panels(found.points, penalties, "time", tuple(FIGURE))
    ]
    online = {
        (p.task, p.size, p.penalties): p
        for p in found.points
        if p.learner == "online" and p.change == "protocol"
    }
    rows = []
    for p in timed:
        other = online.get((p.task, p.size, p.penalties))
        if other is not None and p.penalties == penalties:
            rows.append(
                (
                    f"{TASKS[p.task].title}, {p.size:,}",
                    f"{p.mean:.3f}",
                    f"{other.mean:.3f}",
                    f"{p.seconds:.2f}",
                    f"{other.seconds:.2f}",
                    f"{p.gradient_steps / max(other.gradient_steps, 1):.1f}",
                )
            )
    explained = (
        "Here batch goes on until it has taken as long as online. How many iterations that is was measured "
        "once for each size and is kept fixed, so that the figure repeats; the seconds of this very run "
        "stand beside it. Compiling, acting and reading data are on neither clock."
    )
    head = ("Task, samples", "Batch", "Online", "Batch, s", "Online, s", "Steps of batch, ÷ online's")
    return page.section(
        "The same with equal wall time",
        page.paragraph(explained),
        page.figure(
            "equal-time",
            "Return over training samples, batch and online with equal time",
            lambda width: panels_figure(shown, width),
        ),
        page.folded("The numbers", page.table(head, rows, "Equal time")),
    )


def _claims(found: Findings) -> str:
    gaps = found.differences
    if not gaps:
        return ""
    told = claims(gaps)
    verdicts = {(claim.difference): claim.verdict for claim in told}
    rows = [
        (
            f"{TASKS[gap.task].title}, {gap.size:,}",
            gap.penalties,
            gap.budget,
            f"{gap.mean:+.3f}",
            f"{gap.low:+.3f} to {gap.high:+.3f}",
            f"{gap.p:.3f}",
            verdicts.get(gap, ""),
        )
        for gap in gaps
    ]
    head = ("Task, samples", "Penalties", "Equal", "Online - batch", "95 % interval", "p", "The claim")
    return page.section(
        "What the paper claims, and what holds here",
        page.paragraph(
            "Online minus batch, seed by seed: the mean, its 95 % interval by Student's t, and the p-value "
            "of a test that flips signs."
        ),
        *(page.paragraph(sentence) for sentence in words.claim_sentences(told)),
        page.paragraph(words.margin(), "note"),
        page.folded("The numbers", page.table(head, rows, "Paired differences")),
    )


def _standings(found: Findings) -> str:
    rows = standings(found.points)
    if not any(row.published is not None or row.default is not None for row in rows):
        return ""
    table = [
        (
            f"{TASKS[row.task].title}, {row.size:,}",
            f"{row.ours:.3f}",
            _or_dash(row.published),
            _or_dash(row.default),
            _or_dash(row.flat),
        )
        for row in rows
    ]
    head = ("Task, samples", "Better of ours", "Better published", "skillstream's choice", "Flat cloning")
    explained = (
        "skillstream's choice is what the library does when it is left to choose: networks of 100 units, one "
        "or two options, observations scaled or not, whichever explains held-out stretches of the "
        "demonstrations better; then batch Baum-Welch. Flat cloning has the paper's network for one option."
    )
    return page.section(
        "Beside the published curves and flat cloning",
        *(page.paragraph(sentence) for sentence in words.standing_sentences(rows)),
        page.paragraph(explained, "note"),
        page.folded("The numbers", page.table(head, table, "Means over seeds")),
    )


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _causes(found: Findings) -> str:
    rows = [p for p in found.points if p.change in CAUSES]
    if not rows:
        return ""
    table = []
    plain = {
        (p.task, p.size, p.learner): p
        for p in found.points
        if (p.change, p.penalties, p.budget) == ("protocol", "none", "steps")
    }
    seen = {(p.task, p.size, p.learner, p.change): p for p in rows}
    for task, size, learner in dict.fromkeys((p.task, p.size, p.learner) for p in rows):
        cells = [plain.get((task, size, learner)), *(seen.get((task, size, learner, c)) for c in CAUSES)]
        theirs = published(task, size).get(learner)
        table.append(
            (
                f"{TASKS[task].title}, {size:,}, {learner}",
                *("-" if cell is None else f"{cell.mean:.3f}" for cell in cells),
                _or_dash(None if theirs is None else theirs.mean),
            )
        )
    explained = (
        "Where ours is behind, the algorithm was left as it is and what it is given was changed. The first "
        "samples of one recording show a small part of a world: some seconds of a pole that stands, one "
        "swing, half a landing. What the published demonstrations were, and where acting began, the paper "
        "does not say. With as many samples taken in ten pieces from all over a recording, or acting from "
        "the demonstrations' own start, the same algorithms come to the columns below."
    )
    head = ("Task, samples, learner", "As here", *(c.capitalize() for c in CAUSES), "Published")
    notes = "; ".join(f"{name}: {change.what}" for name, change in CAUSES.items())
    return page.section(
        "Why it is behind where it is behind",
        page.paragraph(explained),
        page.table(head, table, "Causes"),
        page.paragraph(f"No penalties. {notes[0].upper()}{notes[1:]}.", "note"),
    )


def _extra(found: Findings) -> str:
    shown = panels(found.points, found.penalties()[0] if found.penalties() else "none", "steps", tuple(EXTRA))
    if not shown:
        return ""
    explained = (
        "Worlds that the paper does not have, by the same protocol. In the hidden-goal world nothing that is "
        "seen tells where to go: the option is memory, and a policy without options must fail."
    )
    return page.section(
        "Other worlds",
        page.paragraph(explained),
        page.figure("extra", "Return over training samples", lambda width: panels_figure(shown, width)),
    )


def _ablation(found: Findings) -> str:
    rows = [
        p for p in found.points if (p.task, p.penalties) == ("grid-world", "none") and p.change in CHANGES
    ]
    sizes = {p.size for p in rows if p.change != "protocol"}
    if not sizes:
        return ""
    rows = [p for p in rows if p.size in sizes and p.budget == "steps"]
    order = list(CHANGES)
    groups = {
        learner: [
            Bar(CHANGES[p.change].what, p.mean, 1.96 * p.std / max(p.seeds - 1, 1) ** 0.5)
            for p in sorted(rows, key=lambda p: order.index(p.change))
            if p.learner == learner
        ]
        for learner in ("batch", "online")
    }
    size = next(iter(sizes))
    table = [
        (
            CHANGES[p.change].what,
            p.learner,
            f"{p.mean:.3f} ± {p.std:.3f}",
            f"{p.gradient_steps:,}",
            f"{p.seconds:.2f}",
        )
        for p in rows
        if p.learner in groups
    ]
    return page.section(
        "One change at a time",
        page.paragraph(
            f"The grid world with {size:,} samples and no penalties, with one thing done otherwise; "
            f"{max(p.seeds for p in rows)} seeds."
        ),
        page.figure(
            "ablation",
            "Mean returns with one change each; the table below has the numbers",
            lambda width: bars_figure(groups, _COLOURS, width),
        ),
        *(page.paragraph(sentence) for sentence in words.ablation_sentences(rows)),
        page.folded(
            "The numbers",
            page.table(("Change", "Learner", "Return", "Gradient steps", "Seconds"), table, "Ablation"),
        ),
    )


def _quality(found: Findings) -> str:
    if not found.penalties():
        return ""
    penalties = found.penalties()[0]
    rows = [
        (
            f"{TASKS[cost.task].title}, {_NAMES[cost.learner]}",
            "-" if cost.size is None else f"{cost.size:,}",
            "-" if cost.size is None else f"{cost.seconds:.2f}",
            "-" if cost.size is None else f"{cost.held / 1024:.0f}",
        )
        for cost in costs_to_quality(found.points, penalties)
    ]
    explained = (
        f"The first training size whose mean return is {QUALITY:.0%} of the expert's, how long learning took "
        "there, and what has to be kept to go on learning: in batch the policy, the data and their "
        "posteriors; online the learner, as it is saved. A dash: no size gets there."
    )
    return page.section(
        "What it takes",
        page.paragraph(explained),
        page.table(("Task, learner", "Samples", "Seconds", "KiB kept"), rows, "Costs to a quality"),
    )


def _failed(found: Findings) -> str:
    if not found.failures:
        return ""
    rows = [
        (
            f"{f.trial.task}, {f.trial.size:,}, seed {f.trial.seed}, {f.trial.learner}",
            f.error.strip().splitlines()[-1],
        )
        for f in found.failures
    ]
    return page.section("Trials that failed", page.facts(rows))


def _made(run: RunDirectory) -> str:
    record = run.record
    versions: dict[str, Any] = record.get("versions") or {}
    rows = [
        ("Command", "skillstream " + " ".join(map(str, record.get("arguments") or ()))),
        ("Began", record.get("began", "not recorded")),
        ("Machine", f"{platform.machine()}, {record.get('machine', '?')}, {record.get('cores', '?')} cores"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
        ("Files", "results.csv, points.csv, differences.csv, budgets.csv"),
    ]
    return page.section("How this was made", page.facts(rows))
