"""Draws from the posterior over whole paths of options and terminations."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import filtered


def sample_paths(
    p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T"], key: Array, num_samples: int
):
    """Independent paths from P(options, terminations | data): options and stops `[num_samples, T]`.

    Forward filtering, then backward sampling; the log-likelihood of the data comes along.
    """
    chi, previous, log_likelihood = filtered(p, mu, starts)
    leaving = p.stop * previous
    totals = jnp.sum(leaving, 1)
    last = jnp.concatenate([starts[1:], jnp.ones_like(starts[:1])])

    def backward(option, x):
        step, chi, previous, leaving, total, last, uniform = x
        option = jnp.where(last, _draw(chi, uniform[0]), option)
        going = step.stay[option] * previous[option]
        entering = step.selection[option] * total
        stop = uniform[1] * (going + entering) >= going
        return jnp.where(stop, _draw(leaving, uniform[2]), option), (option, stop)

    def one(key):
        uniforms = jax.random.uniform(key, (len(starts), 3), chi.dtype)
        inputs = (p, chi, previous, leaving, totals, last, uniforms)
        return lax.scan(backward, jnp.argmax(chi[-1]), inputs, reverse=True)[1]

    options, stops = jax.vmap(one)(jax.random.split(key, num_samples))
    return options, stops, log_likelihood


def _draw(weights: Float[Array, "K"], uniform: Array) -> Array:
    """An index drawn in proportion to `weights`; one of weight zero is never drawn."""
    cumulative = jnp.cumsum(weights)
    return jnp.argmax(cumulative > uniform * cumulative[-1])
