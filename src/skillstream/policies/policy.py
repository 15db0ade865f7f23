"""The hierarchical policy a user holds."""

import os
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from skillstream.errors import FileFormatError, InputError
from skillstream.files import load_arrays, save_arrays
from skillstream.policies.tabular import TabularModel, check_distribution, from_tables

_VERSION = 1
_TABLES = ("selection", "action", "termination", "initial")


class OptionPolicy(eqx.Module):
    """A policy with options: what selects them, what each does, when each stops; immutable.

    Build one with `OptionPolicy.tabular` or `OptionPolicy.from_tables`.
    """

    model: TabularModel
    initial: Float[np.ndarray, "K"]

    @staticmethod
    def tabular(num_options: int, num_states: int, num_actions: int, seed: int = 0) -> "OptionPolicy":
        """A random tabular policy to start learning from.

        Every row is drawn from a flat Dirichlet distribution, the probabilities to stop uniformly
        between 0.02 and 0.2: options must differ, or learning cannot tell them apart, and last a while,
        or nothing ties one step to the next.

        Examples
        --------
        >>> OptionPolicy.tabular(num_options=2, num_states=5, num_actions=3, seed=1)
        OptionPolicy(2 options, tabular: 5 states, 3 actions)
        """
        for name, size in (
            ("num_options", num_options),
            ("num_states", num_states),
            ("num_actions", num_actions),
        ):
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise InputError(f"{name}: must be a whole number from 1, found {size!r}")
        rng = np.random.default_rng(seed)
        stop = rng.uniform(0.02, 0.2, (num_states, num_options))
        return OptionPolicy.from_tables(
            rng.dirichlet(np.ones(num_options), num_states),
            rng.dirichlet(np.ones(num_actions), (num_states, num_options)),
            np.stack([1 - stop, stop], -1),
        )

    @staticmethod
    def from_tables(
        selection: ArrayLike, action: ArrayLike, termination: ArrayLike, initial: ArrayLike | None = None
    ) -> "OptionPolicy":
        """A policy from its probabilities.

        Parameters
        ----------
        selection
            `[S, K]`, pi_hi(o | s).
        action
            `[S, K, A]`, pi_lo(a | s, o).
        termination
            `[S, K, 2]`, pi_b(b | s, o): going on first, stopping second.
        initial
            `[K]`, mu(o), the option before an episode's first step. Default: uniform.
        """
        model = from_tables(selection, action, termination)
        options = model.num_options
        mu = np.full(options, 1 / options) if initial is None else initial
        return OptionPolicy(model, check_distribution("initial", mu, (options,)))

    @property
    def num_options(self) -> int:
        """How many options there are, `K`."""
        return self.model.num_options

    def tables(self) -> dict[str, np.ndarray]:
        """Copies of `selection`, `action`, `termination` and `initial`, as `from_tables` takes them."""
        return {
            "selection": self.model.selection.copy(),
            "action": np.ascontiguousarray(self.model.by_action.transpose(0, 2, 1)),
            "termination": np.stack([self.model.stay, self.model.stop], -1),
            "initial": self.initial.copy(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, whole or not at all (safetensors with a JSON header)."""
        save_arrays(path, "policy", _VERSION, self.tables(), {"model": "tabular"})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "OptionPolicy":
        """Read a policy that `save` wrote; anything else is refused with a `FileFormatError`."""
        arrays, header = load_arrays(path, "policy", _VERSION, set(_TABLES))
        return policy_from_arrays(str(path), arrays, header)

    def __repr__(self) -> str:
        model = self.model
        return (
            f"OptionPolicy({self.num_options} options, tabular: {model.num_states} states, "
            f"{model.num_actions} actions)"
        )


def policy_from_arrays(where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> OptionPolicy:
    """A policy from what a file holds, checked as if a user had given it."""
    if header.get("model") != "tabular":
        raise FileFormatError(
            f"{where}: holds a policy of the kind {header.get('model')!r}, which is not known here"
        )
    wrong = [name for name in _TABLES if arrays[name].dtype != np.float64]
    if wrong:
        raise FileFormatError(f"{where}: the array {wrong[0]} holds {arrays[wrong[0]].dtype}, not float64")
    try:
        return OptionPolicy.from_tables(*(arrays[name] for name in _TABLES))
    except InputError as error:
        raise FileFormatError(f"{where}: damaged: {error}") from error
