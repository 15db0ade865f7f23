"""Demonstrations laid out for inference: all episodes end to end in one chain of padded length.

Lengths are rounded up to a few sizes, so that new data seldom mean a new compilation. Episodes could
also lie side by side, which the inference takes as `[T, K, E]` and runs faster; but moving tables'
potentials into that layout and the posteriors out of it was measured to cost more than it saves.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Shaped

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.inference.potentials import Potentials, hide
from skillstream.policies.protocol import PolicyModel


class Chain(NamedTuple):
    """The columns of a data set as a compiled function takes them, padded at the end."""

    observations: Shaped[np.ndarray, "N ..."]
    actions: Shaped[np.ndarray, "N ..."]
    missing: Bool[np.ndarray, "N"]
    starts: Bool[np.ndarray, "N"]
    padding: Bool[np.ndarray, "N"]

    def potentials(self, model: PolicyModel) -> Potentials:
        """The potentials `[N, K]` of these steps under a policy (called while compiling)."""
        observations, actions, missing, padding = (
            jnp.asarray(x) for x in (self.observations, self.actions, self.missing, self.padding)
        )
        return hide(model.potentials(observations, actions, missing), padding)


def chain(demos: Demonstrations) -> Chain:
    """Lay all episodes of `demos` end to end."""
    length, steps = padded_size(demos.num_steps), demos.num_steps
    missing = np.zeros(steps, bool) if demos.action_mask is None else ~demos.action_mask
    return Chain(
        observations=_pad(_narrow(demos.observations), length),
        actions=_pad(_narrow(demos.actions), length),
        missing=_pad(missing, length),
        starts=_pad(demos.episode_starts, length),
        padding=np.arange(length) >= steps,
    )


def padded_size(count: int) -> int:
    """The next of the sizes 1 to 8, 9, 10, .. 15, 16, 18, .. 30, 32, 36, ..: at most 12.5 % too many."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step


def _narrow(column: np.ndarray) -> np.ndarray:
    return column.astype(np.int32) if column.dtype.kind == "i" and column.max() < 2**31 else column


def _pad(column: Shaped[np.ndarray, "T ..."], length: int) -> Shaped[np.ndarray, "N ..."]:
    padded = np.zeros((length, *column.shape[1:]), column.dtype)
    padded[: len(column)] = column
    return padded
