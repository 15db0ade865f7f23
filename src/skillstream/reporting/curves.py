"""How learning went, and how well what was learnt does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.acting.evaluation import Evaluation
from skillstream.reporting.figures import COLOURS, FAINT, INK, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison:
    """How policies do in a world, beside the expert."""

    policies: dict[str, Evaluation]  # by name, the learnt one first
    expert: float | None  # its expected return


def short(number: float) -> str:
    """A return, to as many digits as mean something."""
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 0.1 or number == 0 else f"{number:.2g}"


def learning_figure(
    metrics: Sequence[Mapping[str, Any]], online: bool, kept_by_end: bool = True, width: float = 4.6
) -> "Figure":
    """The log-likelihood of a step as learning went on, a line for each start.

    `kept_by_end` says that the start that ends highest was kept; otherwise none stands out.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(width, 2.7)
    panel = figure.subplots()
    curves: dict[int, list[tuple[float, float]]] = {}
    for line in metrics:
        if line.get("log_likelihood") is not None:
            curves.setdefault(int(line.get("start", 0)), []).append((line["step"], line["log_likelihood"]))
    best = max(curves, key=lambda start: curves[start][-1][1])
    told = len(curves) > 1 and kept_by_end
    for start, points in curves.items():
        kept = start == best or not told
        panel.plot(
            *np.array(points, float).T,
            color=COLOURS[0] if kept else FAINT,
            linewidth=1.8 if kept else 1.0,
            marker="." if len(points) < 30 else "",
            markersize=4,
            zorder=3 if kept else 2,
            label=f"start {start + 1}, kept" if kept else "other starts",
        )
    panel.set_xlabel("samples seen" if online else "iteration")
    panel.set_ylabel("log-likelihood a step")
    panel.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if told:
        handles, labels = panel.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        panel.legend(list(once.values()), list(once), frameon=False, loc="lower right")
    return figure


def comparison_figure(comparison: Comparison, width: float = 4.6) -> "Figure":
    """Mean returns with their 95 % intervals; a line where the expert is."""
    count = len(comparison.policies)
    figure = new_figure(width, 1.1 + 0.45 * count)
    panel = figure.subplots()
    for row, result in enumerate(comparison.policies.values()):
        low, high = result.interval
        tint = COLOURS[0] if row == 0 else COLOURS[5]
        panel.plot([low, high], [row, row], color=tint, linewidth=5, solid_capstyle="butt", alpha=0.45)
        panel.plot(result.mean, row, "o", color=tint, markersize=7)
    if comparison.expert is not None:
        low_expert = comparison.expert < np.mean([result.mean for result in comparison.policies.values()])
        panel.axvline(comparison.expert, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        panel.annotate(
            f"expert {short(comparison.expert)}",
            (comparison.expert, -0.72),
            (5 if low_expert else -5, 0),
            textcoords="offset points",
            ha="left" if low_expert else "right",
            va="center",
            fontsize=8.5,
        )
    panel.set_ylim(count - 0.5, -1.0)
    panel.set_yticks(
        range(count), [f"{name[:24]}\n{short(r.mean)}" for name, r in comparison.policies.items()]
    )
    panel.margins(x=0.12)
    panel.set_xlabel("mean return, with its 95 % interval")
    panel.grid(axis="x", color=FAINT, alpha=0.25, linewidth=0.6)
    panel.tick_params(axis="y", length=0)
    return figure
