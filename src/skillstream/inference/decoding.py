"""The most probable path of options and terminations: Viterbi, in the linear domain."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import along, before_step


def decode(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"]):
    """The path that maximises the joint probability of options, terminations and actions.

    Returns options `[T, *E]`, terminations `[T, *E]` and the log of the path's joint probability, the
    option before each episode's first step included. A tie goes to the path that does not stop.
    """
    go, enter = p.action * p.stay, p.action * p.selection
    first = along(mu, p.stop)

    def forward(delta, x):
        go, enter, stop, start = x
        delta = jnp.where(start, first, delta)
        best = jnp.maximum(go * delta, enter * jnp.max(stop * delta, 0))
        scale = jnp.max(best, 0)
        best = best / scale
        return best, (best, scale)

    # What leads to each option is found after the loop, which is fast only while it is small.
    delta, scale = lax.scan(forward, first, (go, enter, p.stop, starts))[1]
    before = before_step(delta, mu, starts)
    stopping = p.stop * before
    stopped = go * before < enter * jnp.max(stopping, 1, keepdims=True)
    source, top = jnp.argmax(stopping, 1), jnp.argmax(delta, 1)

    def backward(option, x):
        stopped, source, top, last = x
        option = jnp.where(last, top, option)
        stop = jnp.take_along_axis(stopped, option[None], 0)[0]
        return jnp.where(stop, source, option), (option, stop)

    last = jnp.concatenate([starts[1:], jnp.ones_like(starts[:1])])
    _, (options, stops) = lax.scan(backward, top[-1], (stopped, source, top, last), reverse=True)
    return options, stops, jnp.sum(jnp.log(scale)) + jnp.sum(p.offset)
