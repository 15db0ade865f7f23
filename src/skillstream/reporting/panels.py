"""Panels of curves over training sizes, one a task: what was learnt from how many samples, and how well."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillstream.reporting.figures import FAINT, INK, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT_OUT = -0.3  # of the vertical axis: worse than that is only bad


@dataclass(frozen=True)
class Curve:
    """A line over sizes, with a band of one standard deviation around it if `stds` are given."""

    name: str
    sizes: Sequence[int]
    means: Sequence[float]
    stds: Sequence[float] | None
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """The curves of a task."""

    title: str
    curves: Sequence[Curve]


def panels_figure(panels: Sequence[Panel], width: float) -> "Figure":
    """Panels side by side on a wide page, one below the other on a narrow one; one legend for all."""
    columns = min(len(panels), 2 if width > 5 else 1)
    rows = -(-len(panels) // columns)
    figure = new_figure(width, 2.55 * rows + 0.6)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, axis in enumerate(axes):
        if place < len(panels):
            _draw(axis, panels[place])
        else:
            axis.set_visible(False)
    drawn = [pair for axis in axes for pair in zip(*axis.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in drawn}
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper left",
        ncols=3 if width > 5 else 2,
        frameon=False,
        fontsize=8.5,
    )
    return figure


def _draw(axis: "Axes", panel: Panel) -> None:
    lowest = 0.0
    for order, curve in enumerate(panel.curves):
        sizes, means = np.array(curve.sizes), np.array(curve.means)
        if curve.stds is not None:
            low, high = means - curve.stds, means + curve.stds
            axis.fill_between(sizes, low, high, color=curve.colour, alpha=0.14, linewidth=0)
        axis.plot(
            sizes,
            means,
            color=curve.colour,
            linewidth=1.0 if curve.dashed else 1.7,
            linestyle=(0, (4, 3)) if curve.dashed else "-",
            marker="" if curve.dashed else "o",
            markersize=3.5,
            label=curve.name,
            zorder=2 if curve.dashed else 3 + order,
        )
        lowest = min(lowest, float(means.min()))
    axis.axhline(1.0, color=INK, linewidth=0.7, linestyle=":")
    axis.set_title(panel.title)
    axis.set_xscale("log")
    ticks = sorted({size for curve in panel.curves for size in curve.sizes})
    axis.set_xticks(ticks, [f"{size:,}" for size in ticks], fontsize=8)
    axis.minorticks_off()
    axis.set_ylim(max(lowest - 0.05, _LEFT_OUT), 1.12)
    axis.set_xlabel("training samples")
    axis.set_ylabel("return, expert = 1")
    axis.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)


@dataclass(frozen=True)
class Bar:
    """A mean with its interval, and what it is of."""

    name: str
    mean: float
    reach: float


def bars_figure(groups: Mapping[str, Sequence[Bar]], colours: Mapping[str, str], width: float) -> "Figure":
    """Means with intervals, a row a name; where each group's first one lies is a dotted line."""
    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    figure = new_figure(width, 0.9 + 0.3 * len(names))
    axis = figure.subplots()
    for shift, (group, bars) in enumerate(groups.items()):
        for bar in bars:
            row = names.index(bar.name) + 0.22 * (shift - (len(groups) - 1) / 2)
            axis.plot(
                [bar.mean - bar.reach, bar.mean + bar.reach], [row, row], color=colours[group], linewidth=2
            )
            axis.plot(bar.mean, row, "o", color=colours[group], markersize=4.5)
        if bars:
            axis.axvline(bars[0].mean, color=colours[group], linewidth=0.8, linestyle=":")
        axis.plot([], [], "o-", color=colours[group], label=group)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel("return, expert = 1; mean and its 95 % interval")
    axis.grid(axis="x", color=FAINT, alpha=0.25, linewidth=0.6)
    axis.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure
