"""Policies of a user's own class at work: their distributions by JAX, the draws by NumPy like all others."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from skillstream.acting.rules import Choices, Gaussians
from skillstream.errors import InputError
from skillstream.policies.distributions import Categorical, DiagonalGaussian, ProductOfCategoricals
from skillstream.policies.protocol import ConditionalModel


@eqx.filter_jit
def _said(model: ConditionalModel, observations):
    said = model.conditionals(jnp.asarray(observations))
    return jnp.exp(said.selection), jnp.exp(said.termination[..., 1]), said.action


class CompiledRules:
    """A hierarchy whose three distributions one compiled call gives."""

    feature_shape: tuple[int, ...] | None = None
    num_actions: int | None = None

    def __init__(self, model: ConditionalModel):
        self.model, self.num_options = model, model.num_options

    def prepare(self, observations: np.ndarray) -> Any:
        """All that the model says at these observations."""
        with jax.enable_x64(True):
            selection, stop, action = jax.tree.map(np.asarray, _said(self.model, observations))
        if not np.isfinite(selection.sum()):
            raise InputError(f"observation: the policy gives no finite number at {observations.tolist()}")
        return selection, stop, action

    def stop(self, inputs: Any, options: np.ndarray) -> np.ndarray:
        """pi_b(1 | s, o) of the running options."""
        return inputs[1][np.arange(len(options)), options]

    def select(self, inputs: Any) -> np.ndarray:
        """pi_hi(o | s)."""
        return inputs[0]

    def act(self, inputs: Any, options: np.ndarray) -> Choices | Gaussians:
        """pi_lo(. | s, o) of the running options."""
        place, action = np.arange(len(options)), inputs[2]
        if isinstance(action, DiagonalGaussian):
            return Gaussians(*(np.asarray(x)[place, options] for x in (action.mean, action.scale)))
        parts = action.parts if isinstance(action, ProductOfCategoricals) else (action,)
        weights = tuple(np.exp(part.logs[place, options]) for part in parts)
        return Choices(weights, single=isinstance(action, Categorical))
