"""Where in the state space each option runs."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.environments.rules import GridRules
from skillstream.policies.segmentation import Segmentation
from skillstream.reporting.figures import FAINT, INK, colour, new_figure, shades, write_png
from skillstream.reporting.skills import stops
from skillstream.reporting.telling import most_telling_pair
from skillstream.reporting.vocabulary import observation_names, on_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_STATES, _MOST_POINTS = 40, 4000
_MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])  # right and up, of north, south, east, west


def plot_usage(
    path: str | os.PathLike[str],
    segmentation: Segmentation,
    demos: Demonstrations,
    task: str | None = None,
) -> None:
    """Write a PNG of where each option runs.

    Maps for the grid tasks; for other continuous observations the two coordinates that tell the
    options apart best, for other discrete ones P(option | state).

    Parameters
    ----------
    path
        The file to write.
    segmentation
        Which option runs when.
    demos
        The demonstrations it was read from.
    task
        The world they come from, if it is known.
    """
    write_png(path, lambda: usage_figure(segmentation, demos, task))


def usage_figure(
    segmentation: Segmentation,
    demos: Demonstrations,
    task: str | None = None,
    width: float = 8.0,
) -> "Figure":
    """The figure of `plot_usage`, as wide as wanted."""
    found = on_map(demos, task)
    if found is not None:
        return _maps(*found, segmentation, demos, width)
    if demos.observations.ndim == 1:
        return _bars(segmentation.probabilities, demos.observations, width)
    size = demos.observations.shape[1]
    names = observation_names(demos, task)
    if size == 1:
        return _histogram(segmentation.probabilities, demos.observations[:, 0], names[0], width)
    return _scatter(segmentation, demos, names, width)


def _maps(
    rules: GridRules,
    coordinates: Float[np.ndarray, "T D"],
    segmentation: Segmentation,
    demos: Demonstrations,
    width: float,
) -> "Figure":
    """A map for each option, in as many columns as there is room for."""
    probabilities, ends = segmentation.probabilities, stops(segmentation, demos)
    options, count = probabilities.shape[1], len(rules.layout.cells)
    cells, shares = rules.layout.number(coordinates[:, :2].astype(int)), segmentation.usage()
    columns = max(1, min(options, int(width / 2.3)))
    lines = -(-options // columns)
    height, breadth = rules.layout.grid.shape
    each = min(width / columns, 4.2)
    figure = new_figure(each * columns, (each * height / breadth + 0.3) * lines + 0.3)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    known = np.ones(demos.num_steps, bool) if demos.action_mask is None else demos.action_mask
    known = known & (demos.actions < rules.num_actions) if demos.actions.ndim == 1 else ~known
    for option, panel in enumerate(panels[:options]):
        choices = np.zeros((count, rules.num_actions))
        np.add.at(choices, (cells[known], demos.actions[known]), probabilities[known, option])
        time = np.bincount(cells, probabilities[:, option], count)
        _map(panel, rules, option, time, choices, np.bincount(cells[ends == option], minlength=count))
        panel.set_title(f"option {option}: {shares[option]:.0%} of the steps")
    for panel in panels[options:]:
        panel.set_visible(False)
    key = ("darker: longer there;", "arrow: its usual action;", "ring: where it stops")
    figure.supxlabel(("\n" if width < 4 else " ").join(key), fontsize=8, x=0.01, ha="left")
    return figure


def _map(
    panel: "Axes",
    rules: GridRules,
    option: int,
    time: Float[np.ndarray, "C"],
    choices: Float[np.ndarray, "C A"],
    ends: Int[np.ndarray, "C"],
) -> None:
    layout = rules.layout
    image = np.zeros((*layout.grid.shape, 4))
    image[..., :3] = shades(option + 1)[option]
    # The root, so that cells seen now and then do not vanish beside those where the option waits.
    image[(*layout.cells.T, 3)] = 0.9 * np.sqrt(time / max(time.max(), 1e-9))
    image[layout.numbers < 0] = (0.55, 0.58, 0.62, 1.0)
    panel.imshow(image, interpolation="nearest")
    seen = np.flatnonzero(time >= 0.5)
    best = choices[seen].argmax(1)
    rows, columns = layout.cells[seen].T
    moving = (best < len(_MOVES)) & (choices[seen].sum(1) > 0)
    arrows: dict[str, Any] = {"pivot": "mid", "units": "xy", "scale": 1.7, "width": 0.07, "color": INK}
    arrows |= {"headwidth": 4, "headlength": 3.5, "headaxislength": 3.2}
    panel.quiver(columns[moving], rows[moving], *_MOVES[best[moving]].T, angles="uv", **arrows)
    panel.plot(columns[~moving], rows[~moving], "o", color=INK, markersize=2.5)
    base, sites = layout.cells[layout.base], layout.cells[list(layout.sites)]
    for mark, (row, column) in zip(("B", "1", "2"), (base, *sites), strict=True):
        _mark(panel, mark, row, column)
    for cell in np.flatnonzero(ends):
        row, column = layout.cells[cell]
        _ring(panel, row, column, ends[cell] / ends.max())
    panel.set_xticks([])
    panel.set_yticks([])
    panel.spines[:].set(visible=True, color=FAINT)


def _ring(panel: "Axes", row: int, column: int, share: float) -> None:
    """A ring in a cell, whose area says how often the option stops there."""
    from matplotlib.patches import Circle

    radius = 0.44 * np.sqrt(share)
    if radius > 0.15:  # smaller ones would only be clutter
        panel.add_patch(Circle((column, row), radius, fill=False, edgecolor=INK, linewidth=1.1))


def _mark(panel: "Axes", text: str, row: int, column: int) -> None:
    """A frame around a cell that matters, and its name in the corner."""
    from matplotlib.patches import Rectangle

    panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.2))
    panel.text(column - 0.42, row - 0.42, text, fontsize=6.5, va="top", ha="left", fontweight="bold")


def _bars(probabilities: Float[np.ndarray, "T K"], states: Int[np.ndarray, "T"], width: float) -> "Figure":
    """P(option | state) of the states that come most often."""
    numbers, places, counts = np.unique(states, return_inverse=True, return_counts=True)
    shares = np.stack([np.bincount(places, column) for column in probabilities.T], 1) / counts[:, None]
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_STATES])
    figure = new_figure(width, 2.8)
    panel = figure.subplots()
    bottom = np.zeros(len(kept))
    for option, column in enumerate(shares[kept].T):
        panel.bar(range(len(kept)), column, 0.85, bottom, color=colour(option), label=f"option {option}")
        bottom += column
    every = -(-len(kept) // max(int(width * 4), 1))
    panel.set_xticks(range(0, len(kept), every), numbers[kept][::every].tolist(), fontsize=8)
    few = len(kept) < len(numbers)
    panel.set_xlabel(f"state (the {len(kept)} most frequent of {len(numbers)})" if few else "state")
    panel.set_ylim(0, 1)
    panel.set_yticks([0, 0.5, 1])
    panel.set_ylabel("P(option | state)")
    _legend(figure)
    return figure


def _histogram(
    probabilities: Float[np.ndarray, "T K"], values: Float[np.ndarray, "T"], name: str, width: float
) -> "Figure":
    options = probabilities.shape[1]
    figure = new_figure(width, 2.8)
    panel = figure.subplots()
    panel.hist(
        [values] * options,
        bins=min(40, max(1, len(np.unique(values)))),
        weights=list(probabilities.T),
        stacked=True,
        color=[colour(option) for option in range(options)],
        label=[f"option {option}" for option in range(options)],
    )
    panel.set_xlabel(name)
    panel.set_ylabel("steps")
    _legend(figure)
    return figure


def _scatter(
    segmentation: Segmentation, demos: Demonstrations, names: Sequence[str], width: float
) -> "Figure":
    seen, options = demos.observations, segmentation.probabilities.shape[1]
    across, up = most_telling_pair(seen, segmentation.probabilities)
    # In an order drawn at random, so that no option covers the others.
    shown = np.random.default_rng(0).permutation(len(seen))[:_MOST_POINTS]
    figure = new_figure(min(width, 6.5), min(width, 6.5) * 0.72)
    panel = figure.subplots()
    panel.scatter(
        seen[shown, across],
        seen[shown, up],
        s=14 if len(shown) < 1000 else 7,
        c=(segmentation.probabilities[shown] @ shades(options)).clip(0, 1),
        alpha=0.75,
        linewidths=0,
        rasterized=True,
    )
    for option in range(options):
        panel.scatter([], [], s=24, color=colour(option), label=f"option {option}")
    ends = shown[stops(segmentation, demos)[shown] >= 0]
    if len(ends):
        panel.scatter(
            seen[ends, across], seen[ends, up], s=9, marker="x", color=INK, linewidths=0.6, label="stop"
        )
    panel.set_xlabel(names[across])
    panel.set_ylabel(names[up])
    _legend(figure)
    return figure


def _legend(figure: "Figure") -> None:
    columns = max(1, int(figure.get_figwidth() / 1.2))
    figure.legend(loc="outside upper left", ncols=columns, frameon=False, handlelength=1.2)
