"""Policies as tables over finitely many states and actions (the paper's Assumption 1)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from skillstream.inference.potentials import Potentials
from skillstream.policies.checks import check_distribution, check_integers


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


def draw_choices(
    rng: np.random.Generator, num_options: int, num_states: int
) -> tuple[np.ndarray, np.ndarray]:
    """Random pi_hi and pi_b: rows flat Dirichlet, probabilities to stop uniform in 0.02 to 0.2."""
    stop = rng.uniform(0.02, 0.2, (num_states, num_options))
    return rng.dirichlet(np.ones(num_options), num_states), np.stack([1 - stop, stop], -1)


def draw_tables(num_options: int, num_states: int, num_actions: int, seed: int) -> TabularModel:
    """Random tables to start learning from."""
    rng = np.random.default_rng(seed)
    selection, termination = draw_choices(rng, num_options, num_states)
    return from_tables(selection, rng.dirichlet(np.ones(num_actions), (num_states, num_options)), termination)


def tables_of(model: TabularModel) -> dict[str, np.ndarray]:
    """Copies of the tables in the layout that `from_tables` takes."""
    return {
        "selection": model.selection.copy(),
        "action": np.ascontiguousarray(model.by_action.transpose(0, 2, 1)),
        "termination": np.stack([model.stay, model.stop], -1),
    }


def check_steps(
    observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None, num_states: int, num_actions: int
) -> None:
    """Raise an `InputError` unless these are states and actions of tables of this size."""
    check_integers("observations", observations, num_states, "states", None)
    check_integers("actions", actions, num_actions, "actions", mask)
