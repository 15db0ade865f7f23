"""What a kind of policy must provide; everything else in the library works through this."""

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Shaped

from skillstream.errors import InputError
from skillstream.inference.potentials import Potentials, from_logs
from skillstream.policies.distributions import Categorical

# Steps a network looks at in one go: enough to be fast, few enough that its hidden layers stay small.
_BLOCK = 512


@runtime_checkable
class ActionDistribution(Protocol):
    """pi_lo(. | s, o) for `N` observations and `K` options, as a pytree."""

    def log_probability(self, actions: Shaped[Array, "N ..."]) -> Float[Array, "N K"]:
        """log pi_lo(a | s, o) of the actions taken (a log-density if they are continuous)."""
        ...

    def divergences(self, form: str) -> Float[Array, "N K K"]:
        """How far each option's distribution is from each other's: `full` or `bounded`."""
        ...


class Conditionals(NamedTuple):
    """What a hierarchy says at `N` observations; `selection` and `termination` are logarithms."""

    selection: Float[Array, "N K"]  # log pi_hi(o | s)
    termination: Float[Array, "N K 2"]  # log pi_b(b | s, o'): going on first, stopping second
    action: ActionDistribution  # pi_lo(. | s, o)


@runtime_checkable
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


class WeightedSamples(NamedTuple):
    """What an M-step learns from: samples and how much each counts, with no order among them."""

    observations: Shaped[Array, "N ..."]
    actions: Shaped[Array, "N ..."]
    switches: Float[Array, "N K"]  # P(o_t, b_t = 1), for pi_hi
    stay: Float[Array, "N K"]  # P(o_{t-1}, b_t = 0), for pi_b
    stop: Float[Array, "N K"]  # P(o_{t-1}, b_t = 1), for pi_b
    options: Float[Array, "N K"]  # P(o_t), for pi_lo; 0 where the action was not recorded
    states: Float[Array, "N"]  # weights of the means in L_b and L_v; they add to 1
    pairs: Float[Array, "N"]  # weights of the mean in L_KL; they add to 1


class ConditionalModel(eqx.Module):
    """Base of policies that are not plain tables; your own policies start here.

    A subclass is an Equinox module. Its floating-point arrays are its parameters, which both
    algorithms learn by gradient steps; its `conditionals` are called inside compiled functions. One
    that can maximise in closed form has a method `maximise(samples, pseudo_count)` that returns the
    new model. `examples/linear_gaussian.py` is one from start to end.
    """

    num_options: eqx.AbstractVar[int]

    @abstractmethod
    def conditionals(self, observations: Shaped[Array, "N ..."]) -> Conditionals:
        """The three distributions at each of these observations."""

    def check_steps(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` for steps this policy cannot be asked about. Default: none."""

    def structure(self) -> dict[str, Any]:
        """What a file needs beside the arrays to build the model anew. Default: nothing."""
        return {}

    def trainable(self) -> Any:
        """Which leaves the optimiser may move: a pytree of booleans like this one. Default: all floats."""
        return jax.tree.map(_is_float, self)

    def potentials(
        self, observations: Shaped[Array, "N ..."], actions: Shaped[Array, "N ..."], missing: Bool[Array, "N"]
    ) -> Potentials:
        """The potentials `[N, K]` of these steps; a missing action is explained equally by all options."""

        def block(rows):
            observations, actions, missing = rows
            said = self.conditionals(observations)
            _check_shapes(type(self).__name__, said, len(observations), self.num_options)
            taken = jnp.where(missing[:, None], 0.0, said.action.log_probability(actions))
            selection, ends, taken = (
                x.astype(jnp.float64) for x in (said.selection, said.termination, taken)
            )
            # Normalised once more, in float64: a network's float32 sums to one only to seven digits.
            ends = jax.nn.log_softmax(ends, -1)
            return from_logs(jax.nn.log_softmax(selection, -1), ends[..., 1], ends[..., 0], taken)

        return _in_blocks(block, (observations, actions, missing))

    def action_probabilities(self, observations: Shaped[Array, "N ..."]) -> Float[Array, "N K A"]:
        """pi_lo(a | s, o) of every action; only where actions are finitely many."""

        def block(observations):
            action = self.conditionals(observations).action
            if not isinstance(action, Categorical):
                raise InputError(
                    f"policy: its actions are not one of finitely many ({type(action).__name__})"
                )
            return action.probabilities().astype(jnp.float64)

        return _in_blocks(block, observations)


def _check_shapes(name: str, said: Conditionals, rows: int, options: int) -> None:
    """Refuse distributions of other shapes than a policy of a user's own must give."""
    for part, wanted in (("selection", (rows, options)), ("termination", (rows, options, 2))):
        found = jnp.shape(getattr(said, part))
        if found != wanted:
            raise InputError(
                f"{name}.conditionals: {part} must have the shape {wanted} for {rows} observations and "
                f"{options} options, found {found}"
            )


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _in_blocks(function, columns):
    """`function` of all rows, a block at a time if they are many."""
    rows = len(jax.tree.leaves(columns)[0])
    if rows <= _BLOCK or rows % _BLOCK:
        return function(columns)
    blocks = jax.tree.map(lambda x: x.reshape(-1, _BLOCK, *x.shape[1:]), columns)
    return jax.tree.map(lambda x: x.reshape(rows, *x.shape[2:]), lax.map(function, blocks))
