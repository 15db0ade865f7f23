"""The option timeline: which skill runs when, under what was seen and done."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.policies.segmentation import Segmentation
from skillstream.reporting.figures import INK, colour, new_figure, shades, write_png
from skillstream.reporting.telling import most_telling
from skillstream.reporting.vocabulary import observation_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_VARIABLES = 8  # panels for observations, and half as many for actions


def plot_timeline(
    path: str | os.PathLike[str],
    readings: Mapping[str, Float[np.ndarray, "T K"]],
    title: str,
    episode_starts: np.ndarray | None = None,
) -> None:
    """Write a PNG with a strip for each reading; a step's colours are mixed by its probabilities."""
    options = next(iter(readings.values())).shape[1]

    def draw() -> "Figure":
        figure = new_figure(10, 1.3 + 0.6 * len(readings))
        panels = figure.subplots(len(readings), 1, sharex=True, squeeze=False)[:, 0]
        for panel, (name, probabilities) in zip(panels, readings.items(), strict=True):
            _strip(panel, name, probabilities)
            for start in np.flatnonzero(episode_starts) if episode_starts is not None else ():
                panel.axvline(start, color="white", linewidth=1.5)
        panels[-1].set_xlabel("step")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        _legend(figure, options, outside="upper right")
        return figure

    write_png(path, draw)


def plot_segmentation(
    path: str | os.PathLike[str],
    segmentation: Segmentation,
    demos: Demonstrations,
    steps: int = 400,
    task: str | None = None,
) -> None:
    """Write a PNG of the first steps: observations, actions, and below them the option that runs.

    Parameters
    ----------
    path
        The file to write.
    segmentation
        Which option runs when.
    demos
        The demonstrations it was read from.
    steps
        How many steps to show at most.
    task
        The world that the demonstrations come from, which has names for what is observed.
    """
    names = observation_names(demos, task)
    write_png(path, lambda: segmentation_figure(segmentation, demos, steps, names=names))


def segmentation_figure(
    segmentation: Segmentation,
    demos: Demonstrations,
    steps: int = 400,
    width: float = 10.0,
    names: Sequence[str] | None = None,
) -> "Figure":
    """The figure of `plot_segmentation`, as wide as wanted; `names` are those of the observations."""
    shown = min(steps, demos.num_steps)
    options = segmentation.probabilities.shape[1]
    rows = _variables(segmentation, demos, shown, names)
    strips = {"option": segmentation.probabilities[:shown]}
    if demos.true_options is not None:
        truth = _renumbered(np.asarray(demos.true_options), segmentation.options)[:shown]
        options = max(options, int(truth.max()) + 1)
        strips["true option"] = np.eye(options)[truth]
    heights = [0.55] * len(rows) + [0.32] * len(strips)
    figure = new_figure(width, sum(heights) + 1.15 + 0.08 * len(heights))
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (name, values) in zip(panels, rows.items(), strict=False):
        _lines(panel, name, values, strips["option"])
    for panel, (name, probabilities) in zip(panels[len(rows) :], strips.items(), strict=True):
        _strip(panel, name, probabilities)
    _events(panels, panels[len(rows)], segmentation, demos, shown)
    panels[-1].set_xlim(0, shown)
    panels[-1].set_xlabel(
        "step" if shown == demos.num_steps else f"step (the first {shown} of {demos.num_steps})"
    )
    _legend(figure, options, outside="upper left", events=True)
    return figure


def _events(
    panels: Sequence["Axes"] | np.ndarray,
    strip: "Axes",
    segmentation: Segmentation,
    demos: Demonstrations,
    shown: int,
) -> None:
    """Lines where episodes begin, and ticks above the strip of options where they switch."""
    starts = np.flatnonzero(demos.episode_starts[:shown])
    switches = np.setdiff1d(np.flatnonzero(segmentation.switches[:shown]), starts)
    for panel in panels:
        where = panel.get_xaxis_transform()
        panel.vlines(starts[starts > 0], 0, 1, color=INK, linewidth=1.2, transform=where)
        panel.tick_params(bottom=panel is panels[-1])
    above = np.full(len(switches), 1.12)
    strip.plot(switches, above, "|", color=INK, markersize=4, clip_on=False, markeredgewidth=0.7)


def _variables(
    segmentation: Segmentation, demos: Demonstrations, shown: int, names: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """The columns to draw by name: of many observations, those that tell the options apart best."""
    rows = {}
    if demos.observations.ndim == 1:
        rows["state"] = demos.observations[:shown]
    else:
        size = demos.observations.shape[1]
        chosen = range(size)
        if size > _MOST_VARIABLES:
            chosen = sorted(most_telling(demos.observations, segmentation.probabilities, _MOST_VARIABLES))
        for column in chosen:
            name = f"observation {column}" if names is None else names[column]
            rows[name] = demos.observations[:shown, column]
    if demos.actions.ndim == 1:
        rows["action"] = demos.actions[:shown]
    else:
        for column in range(min(demos.actions.shape[1], _MOST_VARIABLES // 2)):
            rows[f"action {column}"] = demos.actions[:shown, column]
    if demos.action_mask is not None:
        for name in [name for name in rows if name.startswith("action")]:
            rows[name] = np.where(demos.action_mask[:shown], rows[name], np.nan)
    return rows


def _lines(panel: "Axes", name: str, values: np.ndarray, probabilities: Float[np.ndarray, "T K"]) -> None:
    """A variable over time, on a ground tinted by the option that runs."""
    steps, known = len(values), values[np.isfinite(values)]
    whole = bool((known == np.rint(known)).all())
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    margin = 0.12 * (high - low) or 0.5
    _ground(panel, probabilities, (low - margin, high + margin), alpha=0.16)
    edges = np.arange(steps + 1)
    if whole or name.startswith("action"):
        panel.stairs(values, edges, baseline=None, color=INK, linewidth=0.9)
    else:
        panel.plot(edges[:-1] + 0.5, values, color=INK, linewidth=0.9, marker="." if steps < 40 else "")
    panel.set_ylim(low - margin, high + margin)
    ticks = [low, high] if high > low else [low]
    panel.set_yticks(ticks, [f"{value:.3g}" for value in ticks])
    panel.set_ylabel(name, rotation=0, ha="right", va="center")
    panel.tick_params(axis="y", labelsize=7)
    panel.spines["bottom"].set_visible(False)


def _strip(panel: "Axes", name: str, probabilities: Float[np.ndarray, "T K"]) -> None:
    _ground(panel, probabilities, (0, 1))
    panel.set_xlim(0, len(probabilities))
    panel.set_ylim(0, 1)
    panel.set_yticks([])
    panel.set_ylabel(name, rotation=0, ha="right", va="center")
    panel.spines[:].set_visible(False)


def _ground(
    panel: "Axes", probabilities: Float[np.ndarray, "T K"], limits: tuple[float, float], alpha: float = 1.0
) -> None:
    """Fill a panel with the options' colours, mixed by their probabilities."""
    mixed = (probabilities @ shades(probabilities.shape[1])).clip(0, 1)
    panel.imshow(
        mixed[None],
        aspect="auto",
        interpolation="nearest",
        extent=(0, len(probabilities), *limits),
        alpha=alpha,
        zorder=0,
    )


def _legend(figure: "Figure", options: int, outside: str, events: bool = False) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = [Patch(color=colour(k), label=f"option {k}") for k in range(options)]
    if events:
        bar: dict[str, Any] = {"linestyle": "none", "marker": "|", "color": INK}
        entries.append(Line2D([], [], **bar, markersize=5, markeredgewidth=0.8, label="switch"))
        entries.append(Line2D([], [], **bar, markersize=11, markeredgewidth=1.4, label="episode begins"))
    columns = max(1, min(len(entries), int(figure.get_figwidth() / 1.15)))
    where: Any = f"outside {outside}"
    figure.legend(handles=entries, loc=where, ncols=columns, frameon=False, fontsize=9, handlelength=1.2)


def _renumbered(truth: Int[np.ndarray, "T"], found: Int[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
    """The expert's options in the numbers, and so the colours, of the learnt ones they fall together with."""
    size = int(max(truth.max(), found.max())) + 1
    overlap = np.zeros((size, size), np.int64)
    np.add.at(overlap, (truth, found), 1)
    numbers = np.full(size, -1)
    for pair in np.argsort(-overlap, axis=None, kind="stable"):
        true, learnt = divmod(int(pair), size)
        if numbers[true] < 0 and learnt not in numbers:
            numbers[true] = learnt
    return numbers[truth]
