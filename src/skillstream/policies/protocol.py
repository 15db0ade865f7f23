"""What a kind of policy must provide; everything else in the library works through this."""

from typing import Protocol

import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from skillstream.inference.potentials import Potentials


class PolicyModel(Protocol):
    """The three conditional distributions of a hierarchy, as a pytree of arrays."""

    @property
    def num_options(self) -> int:
        """How many options there are, `K`."""
        ...

    def potentials(
        self, observations: Shaped[Array, "N ..."], actions: Shaped[Array, "N ..."], missing: Bool[Array, "N"]
    ) -> Potentials:
        """The potentials `[N, K]` of these steps; a missing action is explained equally by all options."""
        ...

    def action_probabilities(self, observations: Shaped[Array, "N ..."]) -> Float[Array, "N K A"]:
        """pi_lo(a | s, o) of every action."""
        ...

    def check_steps(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` for steps this policy cannot be asked about."""
        ...
