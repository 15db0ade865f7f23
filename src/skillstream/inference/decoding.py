"""The most probable path of options and terminations: Viterbi, in the linear domain."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import _along


def decode(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"]):
    """The path that maximises the joint probability of options, terminations and actions.

    Returns options `[T, *E]`, terminations `[T, *E]` and the log of the path's joint probability, the
    option before each episode's first step included. A tie goes to the path that does not stop.
    """
    first = _along(mu, p.stop)

    def forward(delta, x):
        step, start = x
        delta = jnp.where(start, first, delta)
        stopping = step.stop * delta
        going = step.action * step.stay * delta
        entering = step.action * step.selection * jnp.max(stopping, 0)
        best = jnp.maximum(going, entering)
        scale = jnp.max(best, 0)
        best = best / scale
        return best, (going < entering, jnp.argmax(stopping, 0), jnp.argmax(best, 0), scale)

    _, (stopped, source, top, scale) = lax.scan(forward, first, (p, starts))

    def backward(option, x):
        stopped, source, top, last = x
        option = jnp.where(last, top, option)
        stop = jnp.take_along_axis(stopped, option[None], 0)[0]
        return jnp.where(stop, source, option), (option, stop)

    last = jnp.concatenate([starts[1:], jnp.ones_like(starts[:1])])
    _, (options, stops) = lax.scan(backward, top[-1], (stopped, source, top, last), reverse=True)
    return options, stops, jnp.sum(jnp.log(scale)) + jnp.sum(p.offset)
