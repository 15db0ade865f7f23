"""The only view inference has of a policy: a few numbers a step for each option."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Potentials(NamedTuple):
    """What a policy says of each step, as plain probabilities.

    Both `stop` and `stay` are kept, although they add to one, so that an option that stops with
    probability 1e-12, or goes on with it, is exact. `action` is scaled so that a likelihood of any
    size fits; `offset` is the logarithm of what was taken out, the same for all options of a step.
    """

    selection: Float[Array, "T K *E"]  # h_t[o] = pi_hi(o | s_t)
    stop: Float[Array, "T K *E"]  # beta_t[o'] = pi_b(1 | s_t, o')
    stay: Float[Array, "T K *E"]  # pi_b(0 | s_t, o')
    action: Float[Array, "T K *E"]  # l_t[o] = pi_lo(a_t | s_t, o) / exp(offset_t)
    offset: Float[Array, "T *E"]


def from_logs(
    selection: Float[Array, "T K *E"],
    stop: Float[Array, "T K *E"],
    stay: Float[Array, "T K *E"],
    action: Float[Array, "T K *E"],
) -> Potentials:
    """Potentials from logarithms, of densities too: the largest action term of a step becomes 1."""
    largest = jnp.max(action, axis=1)
    offset = jnp.where(jnp.isfinite(largest), largest, 0.0)
    return Potentials(
        jnp.exp(selection), jnp.exp(stop), jnp.exp(stay), jnp.exp(action - jnp.expand_dims(offset, 1)), offset
    )


def hide(potentials: Potentials, padding: Bool[Array, "T *E"]) -> Potentials:
    """Make the steps marked as padding change nothing: every option goes on and explains the action."""
    keep = jnp.expand_dims(~padding, 1)
    return Potentials(
        potentials.selection,
        jnp.where(keep, potentials.stop, 0.0),
        jnp.where(keep, potentials.stay, 1.0),
        jnp.where(keep, potentials.action, 1.0),
        jnp.where(padding, 0.0, potentials.offset),
    )
