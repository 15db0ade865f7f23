"""Policies as tables over finitely many states and actions (the paper's Assumption 1)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from skillstream.errors import InputError
from skillstream.inference.potentials import Potentials


class TabularModel(eqx.Module):
    """The triplet as tables, laid out so that what one step needs lies together."""

    selection: Float[np.ndarray, "S K"]
    by_action: Float[np.ndarray, "S A K"]
    stop: Float[np.ndarray, "S K"]
    stay: Float[np.ndarray, "S K"]

    @property
    def num_options(self) -> int:
        """How many options there are, `K`."""
        return self.selection.shape[1]

    @property
    def num_states(self) -> int:
        """How many states there are, `S`."""
        return self.selection.shape[0]

    @property
    def num_actions(self) -> int:
        """How many actions there are, `A`."""
        return self.by_action.shape[1]

    def potentials(
        self, observations: Int[Array, "N"], actions: Int[Array, "N"], missing: Bool[Array, "N"]
    ) -> Potentials:
        """The potentials `[N, K]` of these steps; a missing action is explained equally by all options."""
        selection, by_action, stop, stay = (
            jnp.asarray(table) for table in (self.selection, self.by_action, self.stop, self.stay)
        )
        cells = by_action.reshape(-1, self.num_options)
        action = cells[observations * self.num_actions + jnp.where(missing, 0, actions)]
        return Potentials(
            selection[observations],
            stop[observations],
            stay[observations],
            jnp.where(missing[:, None], 1.0, action),
            jnp.zeros(len(observations), selection.dtype),
        )

    def action_probabilities(self, observations: Int[Array, "N"]) -> Float[Array, "N K A"]:
        """pi_lo(a | s, o) of every action."""
        return jnp.swapaxes(jnp.asarray(self.by_action)[observations], 1, 2)

    def check_steps(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` unless these are states and actions of the tables."""
        check_steps(observations, actions, mask, self.num_states, self.num_actions)


def from_tables(selection: ArrayLike, action: ArrayLike, termination: ArrayLike) -> TabularModel:
    """Tables in the public layout, `[S, K]`, `[S, K, A]` and `[S, K, 2]`, checked."""
    chosen = check_distribution("selection", selection, ("S", "K"))
    states, options = chosen.shape
    act = check_distribution("action", action, (states, options, "A"))
    end = check_distribution("termination", termination, (states, options, 2))
    by_action = np.ascontiguousarray(act.transpose(0, 2, 1))
    return TabularModel(
        chosen, by_action, np.ascontiguousarray(end[..., 1]), np.ascontiguousarray(end[..., 0])
    )


def check_distribution(name: str, table: ArrayLike, shape: tuple[int | str, ...]) -> np.ndarray:
    """A float64 copy whose last axis holds distributions; letters in `shape` stand for any size from 1."""
    try:
        array = np.array(table, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: must be an array of numbers ({error})") from error
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    fits = array.ndim == len(shape) and all(
        found == size if isinstance(size, int) else found > 0
        for found, size in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name}: must have the shape {wanted}, found {list(array.shape)}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{name}: holds a probability that is negative or not finite")
    sums = array.sum(-1, keepdims=True)
    if (np.abs(sums - 1) > 1e-6).any():
        row = tuple(int(i) for i in np.argwhere(np.abs(sums - 1) > 1e-6)[0][:-1])
        raise InputError(
            f"{name}: row {row} sums to {sums[row][0]:.6g}; every row along the last axis must sum to 1"
        )
    # A sum that is off by rounding only is left alone, so that tables saved and loaded keep their bits.
    return np.where(np.abs(sums - 1) > 1e-12, array / sums, array)


def check_steps(
    observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None, num_states: int, num_actions: int
) -> None:
    """Raise an `InputError` unless these are states and actions of tables of this size."""
    _check_range("observations", observations, num_states, "states", None)
    _check_range("actions", actions, num_actions, "actions", mask)


def _check_range(name: str, values: np.ndarray, size: int, what: str, mask: np.ndarray | None) -> None:
    if values.ndim != 1 or values.dtype.kind != "i":
        raise InputError(
            f"{name}: a tabular policy needs integers [T], found {values.dtype} {list(values.shape)}; "
            "number them, or use a policy for continuous data"
        )
    counted = values if mask is None else np.where(mask, values, 0)
    if len(counted) and counted.max() >= size:
        row = int(np.argmax(counted >= size))
        raise InputError(
            f"{name}: step {row} holds {counted[row]}, but the policy has {size} {what} (0 to {size - 1}); "
            f"build it with more {what}"
        )
