"""Maps of cells: where the walls are, which cell lies next to which, where a move ends."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skillstream.errors import InputError

NORTH, SOUTH, EAST, WEST, HOVER = range(5)
_STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))
_WALL, _BASE, _SITES = "#", "B", "12"


@dataclass(frozen=True)
class Layout:
    """A map drawn as text, row 0 in the north: `#` a wall, `B` the base, `1` and `2` the sites.

    Free cells are numbered row by row; `C` is how many there are.
    """

    text: str

    @cached_property
    def grid(self) -> np.ndarray:
        """The characters, `[rows, columns]`."""
        return np.array([list(line) for line in self.text.split()])

    @cached_property
    def cells(self) -> np.ndarray:
        """Row and column of every free cell, `[C, 2]`."""
        return np.argwhere(self.grid != _WALL)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The number of every cell, `[rows, columns]`; -1 where there is a wall."""
        numbers = np.full(self.grid.shape, -1)
        numbers[tuple(self.cells.T)] = np.arange(len(self.cells))
        return numbers

    @property
    def base(self) -> int:
        """The cell where episodes begin."""
        return self._find(_BASE)

    @property
    def sites(self) -> tuple[int, int]:
        """The two cells that can pay."""
        first, second = (self._find(mark) for mark in _SITES)
        return first, second

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The cell north, south, east and west of every cell, `[C, 4]`; -1 for walls and the edge."""
        padded = np.pad(self.numbers, 1, constant_values=-1)
        rows, columns = self.cells.T + 1
        return np.stack([padded[rows + down, columns + right] for down, right in _STEPS], 1)

    def number(self, positions: np.ndarray) -> np.ndarray:
        """The cells at whole rows and columns `[..., 2]`."""
        limits = np.array(self.grid.shape)
        inside = ((positions >= 0) & (positions < limits)).all(-1)
        cells = np.where(inside, self.numbers[tuple(np.moveaxis(positions % limits, -1, 0))], -1)
        if (cells < 0).any():
            found = positions[cells < 0].reshape(-1, 2)[0]
            raise InputError(
                f"observations: row {found[0]}, column {found[1]} is not a free cell of this "
                f"{limits[0]} by {limits[1]} map"
            )
        return cells

    def windy_moves(self, wind: float) -> np.ndarray:
        """P(cell' | cell, action), `[C, 5, C]`: a crash, by a move or by the wind, leads to the base.

        The action comes first; then, with probability `wind`, a gust pushes one cell north, south,
        east or west. No gust follows a crash.
        """
        identity = np.eye(len(self.cells))
        blown = identity[np.where(self.neighbours < 0, self.base, self.neighbours)].mean(1)
        settled = (1 - wind) * identity + wind * blown
        hovering = np.arange(len(self.cells))[:, None]
        targets = np.concatenate([self.neighbours, hovering], 1)
        return np.where((targets < 0)[..., None], identity[self.base], settled[targets])

    def slippery_moves(self, slip: float) -> np.ndarray:
        """P(cell' | cell, action), `[C, 4, C]`: with probability `slip` a random move is made instead.

        A move into a wall or over the edge leaves the agent where it is.
        """
        stay = np.arange(len(self.cells))[:, None]
        moved = np.eye(len(self.cells))[np.where(self.neighbours < 0, stay, self.neighbours)]
        return (1 - slip) * moved + slip * moved.mean(1, keepdims=True)

    def crash_chances(self, wind: float) -> np.ndarray:
        """P(crash | cell, action) under `windy_moves`, `[C, 5]`."""
        blown = wind * (self.neighbours < 0).mean(1)
        moving = np.where(self.neighbours < 0, 1.0, blown[self.neighbours])
        return np.concatenate([moving, blown[:, None]], 1)

    def _find(self, mark: str) -> int:
        return int(self.numbers[self.grid == mark][0])
