"""The rules of a grid task as probabilities: what the environment steps by and value iteration reads."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skillstream.environments.layout import Layout
from skillstream.errors import InputError


@dataclass(frozen=True, eq=False)
class TabularDynamics:
    """A Markov decision process with known transitions.

    Attributes
    ----------
    transitions
        P(s' | s, a), `[S, A, S]`.
    rewards
        The expected reward of taking `a` in `s`, `[S, A]`.
    start
        The distribution of an episode's first state, `[S]`.
    """

    transitions: np.ndarray
    rewards: np.ndarray
    start: np.ndarray


@dataclass(frozen=True, eq=False)
class GridRules:
    """A task on a map: a position that the agent moves, and a mode that says which sites pay.

    A step moves the agent, pays by the mode it began in and the cell it ends in, and then changes
    the mode.

    Attributes
    ----------
    layout
        The map.
    moves
        P(cell' | cell, action), `[C, A, C]`.
    modes
        P(mode' | mode, cell'), `[M, C, M]`.
    rewards
        What ending a step in a cell pays, `[M, C]`.
    first_modes
        The distribution of an episode's first mode, `[M]`.
    lit
        Which of the two sites pay in each mode, booleans `[M, 2]`.
    captions
        What each mode is called on a picture.
    visible
        Whether the agent sees the mode.
    """

    layout: Layout
    moves: np.ndarray
    modes: np.ndarray
    rewards: np.ndarray
    first_modes: np.ndarray
    lit: np.ndarray
    captions: tuple[str, ...]
    visible: bool

    @property
    def num_modes(self) -> int:
        """`M`."""
        return len(self.modes)

    @property
    def num_actions(self) -> int:
        """`A`."""
        return self.moves.shape[1]

    @property
    def num_observations(self) -> int:
        """How many different states the agent can tell apart."""
        return len(self.layout.cells) * (self.num_modes if self.visible else 1)

    @cached_property
    def dynamics(self) -> TabularDynamics:
        """The whole task as tables; the state is cell * M + mode, whether or not the mode is seen."""
        cells, states = len(self.layout.cells), len(self.layout.cells) * self.num_modes
        joint = np.einsum("cad,mdn->cmadn", self.moves, self.modes)
        paid = np.einsum("cad,md->cma", self.moves, self.rewards)
        start = np.outer(np.eye(cells)[self.layout.base], self.first_modes)
        return TabularDynamics(
            joint.reshape(states, self.num_actions, states),
            paid.reshape(states, self.num_actions),
            start.reshape(states),
        )

    def observe(self, cell: int, mode: int) -> int:
        """The number of what the agent sees."""
        return cell * self.num_modes + mode if self.visible else cell

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """Coordinates (row, column and, if it is seen, mode) `[..., 2 or 3]` as whole numbers `[...]`."""
        coordinates = np.rint(np.asarray(observations)).astype(np.int64)
        width = 3 if self.visible else 2
        if coordinates.ndim == 0 or coordinates.shape[-1] != width:
            raise InputError(
                f"observations: coordinates have {width} numbers each, found the shape {coordinates.shape}"
            )
        cells = self.layout.number(coordinates[..., :2])
        if not self.visible:
            return cells
        modes = coordinates[..., 2]
        if ((modes < 0) | (modes >= self.num_modes)).any():
            raise InputError(
                f"observations: the last coordinate must be from 0 to {self.num_modes - 1}, "
                f"found {modes.min()} to {modes.max()}"
            )
        return cells * self.num_modes + modes

    def decode(self, states: np.ndarray) -> np.ndarray:
        """Whole numbers `[...]` as coordinates, float32 `[..., 2 or 3]`: the reverse of `encode`."""
        states = np.asarray(states)
        if ((states < 0) | (states >= self.num_observations)).any():
            raise InputError(f"states: must be from 0 to {self.num_observations - 1}, found {states}")
        if not self.visible:
            return self.layout.cells[states].astype(np.float32)
        cells, modes = np.divmod(states, self.num_modes)
        return np.concatenate([self.layout.cells[cells], modes[..., None]], -1).astype(np.float32)
