"""The option timeline: which skill runs when, one strip a reading of the same steps."""

import os
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

# Okabe and Ito's colours, which most colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def plot_timeline(
    path: str | os.PathLike[str],
    readings: Mapping[str, Float[np.ndarray, "T K"]],
    title: str,
    episode_starts: np.ndarray | None = None,
) -> None:
    """Write a PNG with a strip for each reading; a step's colours are mixed by its probabilities."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(10, 1.3 + 0.6 * len(readings)), layout="constrained")
    FigureCanvasAgg(figure)
    options = next(iter(readings.values())).shape[1]
    colours = np.array([to_rgb(_COLOURS[k % len(_COLOURS)]) for k in range(options)])
    panels = figure.subplots(len(readings), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, probabilities) in zip(panels, readings.items(), strict=True):
        steps = len(probabilities)
        panel.imshow(
            (probabilities @ colours)[None], aspect="auto", interpolation="nearest", extent=(0, steps, 0, 1)
        )
        panel.set_yticks([])
        panel.set_ylabel(name, rotation=0, ha="right", va="center")
        panel.spines[:].set_visible(False)
        for start in np.flatnonzero(episode_starts) if episode_starts is not None else ():
            panel.axvline(start, color="white", linewidth=1.5)
    panels[-1].set_xlabel("step")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    legend = [Patch(color=colours[k], label=f"option {k}") for k in range(options)]
    figure.legend(handles=legend, loc="outside upper right", ncols=options, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
