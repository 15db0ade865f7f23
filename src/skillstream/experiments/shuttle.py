"""A small world where the option is memory: a shuttle between two corners of a grid.

In the same cell the expert moves one way when it fetches and the other when it delivers, so no
policy without options can imitate it.
"""

from dataclasses import dataclass

import numpy as np

from skillstream.policies.policy import OptionPolicy

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


@dataclass(frozen=True)
class Shuttle:
    """A square grid with `size` cells a side; moves slip, and the expert errs, now and then."""

    size: int = 5
    slip: float = 0.1
    error: float = 0.1

    @property
    def num_states(self) -> int:
        """Cells of the grid."""
        return self.size**2

    @property
    def num_actions(self) -> int:
        """Up, down, left and right."""
        return len(_MOVES)

    def transitions(self) -> np.ndarray:
        """P(s' | s, a), `[S, A, S]`."""
        moved = np.zeros((self.num_states, self.num_actions, self.num_states))
        for state in range(self.num_states):
            for action, move in enumerate(_MOVES):
                moved[state, action, self._after(state, move)] = 1
        return (1 - self.slip) * moved + self.slip * moved.mean(1, keepdims=True)

    def start(self) -> np.ndarray:
        """Episodes begin anywhere."""
        return np.full(self.num_states, 1 / self.num_states)

    def expert(self) -> OptionPolicy:
        """Option 0 goes to the first corner, option 1 to the last; each stops there and hands over."""
        corners = (0, self.num_states - 1)
        action = np.full((self.num_states, 2, self.num_actions), self.error / self.num_actions)
        stop = np.zeros((self.num_states, 2))
        selection = np.full((self.num_states, 2), 0.5)
        for option, corner in enumerate(corners):
            stop[corner, option] = 1
            selection[corner] = np.arange(2) != option
            for state in range(self.num_states):
                distances = np.array([self._distance(self._after(state, move), corner) for move in _MOVES])
                best = distances == distances.min()
                action[state, option] += (1 - self.error) * best / best.sum()
        return OptionPolicy.from_tables(selection, action, np.stack([1 - stop, stop], -1))

    def _after(self, state: int, move: tuple[int, int]) -> int:
        row, column = (int(x) for x in np.add(divmod(state, self.size), move))
        inside = 0 <= row < self.size and 0 <= column < self.size
        return row * self.size + column if inside else state

    def _distance(self, state: int, other: int) -> int:
        return int(np.abs(np.subtract(divmod(state, self.size), divmod(other, self.size))).sum())
