"""Figures in the house style: the colours of options, and how figures become files or parts of a page."""

import io
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.files import open_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which most colour-blind readers can tell apart; grey, which is seen on black
# too, in the place of their black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F")
INK, FAINT = "#1d2733", "#8b95a1"
_LARGEST = 1.5  # pixels of the page to a point of a figure
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "axes.facecolor": "none",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.fonttype": "none",  # words stay words, in the page's own font
    "svg.hashsalt": "skillstream",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


def colour(option: int) -> str:
    """The colour of an option."""
    return COLOURS[option % len(COLOURS)]


def shades(options: int) -> np.ndarray:
    """The colours of all options as numbers, `[K, 3]`."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(colour(option)) for option in range(options)])


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure in inches, which belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_png(path: str | os.PathLike[str], draw: Callable[[], "Figure"]) -> None:
    """Write what `draw` draws as a PNG, whole or not at all."""
    from matplotlib import rc_context

    with rc_context(_STYLE):
        figure = draw()
        with open_whole(path) as file:
            figure.savefig(file, format="png", dpi=120, facecolor="white")


def to_svg(name: str, alternative: str, draw: Callable[[], "Figure"]) -> str:
    """What `draw` draws as an SVG element to stand in a page: its ink is the page's own text colour.

    `name` must be another for each figure of a page; `alternative` describes the figure to those who do
    not see it. Both must be escaped.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context(_STYLE):
        draw().savefig(buffer, format="svg", dpi=180, transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor")
    text = re.sub(r"font: (?:\w+ )*([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    return _opened(text, alternative) + text[text.index(">") + 1 :]


def _opened(svg: str, alternative: str) -> str:
    """An opening tag that fills the width there is, up to where the words get as large as the page's."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found is not None
    width = float(found[1]) * _LARGEST
    return f'<svg role="img" aria-label="{alternative}" {found[0]} style="max-width: {width:.0f}px">'
