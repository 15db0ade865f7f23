"""Pictures of grid tasks, drawn with NumPy alone."""

from functools import lru_cache

import numpy as np

from skillstream.environments.layout import Layout
from skillstream.environments.rules import GridRules

CELL = 32  # pixels a side
_FINE = 4  # everything is drawn this many times larger and averaged, so that edges are smooth
_GROUND, _LINE = (244, 239, 226), (228, 220, 202)
_LEAVES, _LIGHT, _TRUNK = (62, 112, 70), (98, 150, 98), (120, 84, 52)
_ROOF, _HOUSE = (178, 78, 64), (232, 190, 170)
_DARK, _LIT, _GLOW, _PIP = (184, 178, 164), (242, 178, 24), (255, 228, 140), (70, 56, 30)
_AGENT, _RIM = (0, 114, 178), (255, 255, 255)


def draw_frame(rules: GridRules, cell: int, mode: int) -> np.ndarray:
    """The world as an RGB image, uint8 `[height, width, 3]`."""
    frame = _background(rules.layout).copy()
    for number, (site, lit) in enumerate(zip(rules.layout.sites, rules.lit[mode], strict=True), 1):
        frame[_corner(rules.layout, site)] = _site(number, bool(lit))
    colour, cover = _agent()
    here = _corner(rules.layout, cell)
    frame[here] = np.rint((1 - cover) * frame[here] + cover * colour)
    return frame


def draw_text(rules: GridRules, cell: int, mode: int) -> str:
    """The world as text: `A` the agent, `*` a site that pays, `o` one that does not, `#` a wall."""
    marks = rules.layout.grid.copy()
    for site, lit in zip(rules.layout.sites, rules.lit[mode], strict=True):
        marks[tuple(rules.layout.cells[site])] = "*" if lit else "o"
    marks[tuple(rules.layout.cells[cell])] = "A"
    return "\n".join([*(" ".join(line) for line in marks), rules.captions[mode]])


def _corner(layout: Layout, cell: int) -> tuple[slice, slice]:
    row, column = layout.cells[cell]
    return slice(row * CELL, (row + 1) * CELL), slice(column * CELL, (column + 1) * CELL)


@lru_cache(maxsize=8)
def _background(layout: Layout) -> np.ndarray:
    tiles = {"#": _tree(), "B": _base()}
    plain = _tile([])
    return np.concatenate(
        [np.concatenate([tiles.get(mark, plain) for mark in line], 1) for line in layout.grid], 0
    )


def _plane() -> tuple[np.ndarray, np.ndarray]:
    """Height and width coordinates of a cell's fine pixels, from -1 to 1."""
    axis = (np.arange(CELL * _FINE) + 0.5) * 2 / (CELL * _FINE) - 1
    return axis[:, None], axis[None, :]


def _disc(radius: float, down: float = 0.0, right: float = 0.0) -> np.ndarray:
    y, x = _plane()
    return (y - down) ** 2 + (x - right) ** 2 < radius**2


def _box(top: float, bottom: float, half_width: float) -> np.ndarray:
    y, x = _plane()
    return (y > top) & (y < bottom) & (np.abs(x) < half_width)


def _averaged(fine: np.ndarray) -> np.ndarray:
    return fine.reshape(CELL, _FINE, CELL, _FINE, -1).mean((1, 3))


def _tile(shapes: list[tuple[np.ndarray, tuple[int, int, int]]]) -> np.ndarray:
    """Shapes painted one over the other on a cell's ground, uint8 `[CELL, CELL, 3]`."""
    y, x = _plane()
    edge = (np.abs(y) > 1 - 1 / CELL) | (np.abs(x) > 1 - 1 / CELL)
    fine = np.full((CELL * _FINE, CELL * _FINE, 3), _GROUND, float)
    for mask, colour in [(edge, _LINE), *shapes]:
        fine[mask] = colour
    return np.rint(_averaged(fine)).astype(np.uint8)


def _tree() -> np.ndarray:
    crown = _disc(0.62, -0.2) | _disc(0.45, 0.1, -0.4) | _disc(0.45, 0.1, 0.4)
    return _tile([(_box(0.3, 0.92, 0.14), _TRUNK), (crown, _LEAVES), (_disc(0.3, -0.35, -0.2), _LIGHT)])


def _base() -> np.ndarray:
    y, x = _plane()
    roof = (y > -0.75) & (y < 0.0) & (np.abs(x) < 0.95 * (y + 0.75) / 0.75)
    return _tile([(_box(-0.05, 0.75, 0.6), _HOUSE), (roof, _ROOF), (_box(0.25, 0.75, 0.18), _ROOF)])


@lru_cache(maxsize=4)
def _site(number: int, lit: bool) -> np.ndarray:
    """A site: gold and glowing when it pays, an empty ring otherwise; as many pips as its number."""
    pips = [(_disc(0.15, 0.0, right), _PIP) for right in ((0.0,) if number == 1 else (-0.24, 0.24))]
    if lit:
        return _tile([(_box(-1, 1, 1), _GLOW), (_disc(0.72), _LIT), *pips])
    return _tile([(_disc(0.72), _DARK), (_disc(0.56), _GROUND), *pips])


@lru_cache(maxsize=1)
def _agent() -> tuple[np.ndarray, np.ndarray]:
    """The agent's colour and how much of each pixel it covers."""
    fine = np.where(_disc(0.46)[..., None], np.array(_AGENT), np.array(_RIM))
    return _averaged(fine), _averaged(_disc(0.6) * 1.0)
