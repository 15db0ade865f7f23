"""Demonstrations laid out for inference: episodes end to end in a few chains of padded length.

A loop over time costs about the same for one chain as for a few dozen side by side, so many
episodes are dealt out to many chains. Lengths are rounded up to a few sizes, so that new data
seldom mean a new compilation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.inference.potentials import Potentials, hide
from skillstream.policies.protocol import PolicyModel

_MOST_CHAINS = 256
_FEWEST_CHAINS = 32  # below this one long chain is faster


def padded_size(count: int) -> int:
    """The next of the sizes 1 to 8, 9, 10, .. 15, 16, 18, .. 30, 32, 36, ..: at most 12.5 % too many."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step


@dataclass(frozen=True)
class Chains:
    """The columns of a data set as inference wants them.

    `rows` says which row of the data set stands at each place, `[T]` or `[T, E]`; padding repeats
    row 0 and is marked. `places` leads back, `[num_steps]`. With `restarts` a chain holds more than
    one episode.
    """

    observations: np.ndarray
    actions: np.ndarray
    missing: np.ndarray
    starts: np.ndarray
    padding: np.ndarray
    places: np.ndarray | None
    restarts: bool
    num_steps: int

    def arrays(self) -> tuple[np.ndarray, ...]:
        """What a compiled function needs, in the order `lay_out` takes it."""
        return self.observations, self.actions, self.missing, self.starts, self.padding

    def flatten(self, values: jax.Array) -> np.ndarray:
        """Rows of the data set, `[num_steps, *rest]`, from what `unlay` made of laid-out steps."""
        array = np.asarray(values)
        return array[: self.num_steps] if self.places is None else np.take(array, self.places, axis=0)

    def flatten_all(self, columns: Sequence[jax.Array]) -> list[np.ndarray]:
        """The columns that `unlay_all` took, as rows of the data set."""
        flat = [self.flatten(column) for column in columns]
        return flat if self.places is None else np.split(flat[0], 4, axis=1)


def lay_out(model: PolicyModel, observations, actions, missing, padding) -> Potentials:
    """Potentials `[T, K]` or `[T, K, E]` of laid-out steps (called while compiling)."""
    chained = padding.ndim == 2
    if not chained:
        return hide(model.potentials(observations, actions, missing), padding)
    flat = model.potentials(
        *(column.reshape(-1, *column.shape[2:]) for column in (observations, actions)), missing.reshape(-1)
    )
    shape = padding.shape
    stacked = (jnp.moveaxis(x.reshape(*shape, *x.shape[1:]), 1, -1) for x in flat)
    return hide(Potentials(*stacked), padding)


def unlay(values: jax.Array) -> jax.Array:
    """`[T, N]`, or `[T, N, E]` as `[T * E, N]`, ready to be flattened (called while compiling)."""
    return jnp.moveaxis(values, -1, 1).reshape(-1, values.shape[1]) if values.ndim == 3 else values


def unlay_all(columns: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Several columns of the same shape for `flatten_all`; chained ones side by side, to be moved at once."""
    return (unlay(jnp.concatenate(columns, 1)),) if columns[0].ndim == 3 else tuple(columns)


def chain(demos: Demonstrations, single: bool = False) -> Chains:
    """Lay `demos` out, in one chain if `single` or if that is faster."""
    number = 1 if single else _number_of_chains(demos.episode_lengths)
    if number == 1:
        length, places = padded_size(demos.num_steps), np.arange(demos.num_steps)
    else:
        length, places = _deal(demos.episode_lengths, number)
    shape = (length,) if number == 1 else (length, number)

    def place(values, dtype=bool, rows=places, rest=()):
        laid = np.zeros((length * number, *rest), dtype)
        laid[rows] = values
        return laid.reshape(*shape, *rest)

    columns = ((_narrow(x), x.shape[1:]) for x in (demos.observations, demos.actions))
    missing = False if demos.action_mask is None else ~demos.action_mask
    return Chains(
        *(place(column, column.dtype, rest=rest) for column, rest in columns),
        missing=place(missing),
        starts=place(True, rows=places[demos.episode_starts]),
        padding=~place(True),
        places=None if number == 1 else places,
        restarts=demos.num_episodes > number,
        num_steps=demos.num_steps,
    )


def _narrow(column: np.ndarray) -> np.ndarray:
    return column.astype(np.int32) if column.dtype.kind == "i" and column.max() < 2**31 else column


def _number_of_chains(lengths: np.ndarray) -> int:
    """The largest power of two that leaves chains at most a quarter padding, or 1."""
    number = _MOST_CHAINS
    while number >= _FEWEST_CHAINS:
        if number <= len(lengths) and _assign(lengths, number)[2].max() * number <= 1.25 * lengths.sum():
            return number
        number //= 2
    return 1


def _assign(lengths: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deal episodes to chains, longest first, back and forth: each one's chain and begin, each chain's length."""
    order = np.argsort(-lengths, kind="stable")
    position = np.arange(len(lengths))
    column = position % number
    column = np.where((position // number) % 2 == 0, column, number - 1 - column)
    chains, begins = np.empty((2, len(lengths)), int)
    chains[order] = column
    totals = np.zeros(number, np.int64)
    for first in range(0, len(lengths), number):
        dealt = order[first : first + number]
        begins[dealt] = totals[chains[dealt]]
        totals[chains[dealt]] += lengths[dealt]
    return chains, begins, totals


def _deal(lengths: np.ndarray, number: int) -> tuple[int, np.ndarray]:
    """The padded length of `number` chains, and each step's place in them, counted along time first."""
    chains, begins, totals = _assign(lengths, number)
    shift = begins - (np.cumsum(lengths) - lengths)
    places = np.repeat(shift * number + chains, lengths)
    places += np.arange(len(places)) * number
    return padded_size(int(totals.max())), places
