"""Smoothing a stream: posteriors are settled once no later sample can change them.

Pending samples carry `reach[y, z] = P(o_i = y | o_T = z, data to T)`, a product of backward kernels
`R_t = diag(stay_t) + depart_t enter_t'` that each average, so that its columns only come together.
Once they agree to a tolerance, sample i's smoothed posterior is final to that tolerance. This is the
paper's recursion for rho (Prop. 2) at O(K^2) a pending sample, whatever the number of states.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import Posteriors

# A predicted probability below this counts as zero: its option's backward kernel could overflow.
_NEGLIGIBLE = 1e-290


class Window(NamedTuple):
    """The filter and the samples not yet settled, oldest first; places from `filled` on are empty."""

    chi: Float[Array, "K"]  # P(o_T | data to T)
    reach: Float[Array, "K K W"]  # P(o_i = y | o_T = z, data to T)
    links: Float[Array, "3 K W"]  # each sample's own kernel: stay, depart, enter
    filled: Int[Array, ""]


def new_window(num_options: int, size: int) -> Window:
    """An empty window for `size` pending samples."""
    chi = jnp.full(num_options, 1 / num_options, jnp.float64)
    reach, links = (jnp.zeros((n, num_options, size), jnp.float64) for n in (num_options, 3))
    return Window(chi, reach, links, jnp.int32(0))


def push(window: Window, p: Potentials, start: Bool[Array, ""], mu: Float[Array, "K"]):
    """Take one sample in (the paper's eq. propOBW_chi and propOBW_rho).

    `p` holds one step, `[K]`. Returns the window, log P(a | s, past) without the offset, and whether
    the sample was possible; if it was not, its action is treated as missing.
    """
    prior = jnp.where(start, mu, window.chi)
    depart = p.stop * prior
    stopping = jnp.sum(depart)
    predicted = p.stay * prior + p.selection * stopping
    alpha = p.action * predicted
    total = jnp.sum(alpha)
    possible = total > 0
    chi = jnp.where(possible, alpha, predicted) / jnp.where(possible, total, jnp.sum(predicted))

    # Where an option cannot be, any distribution over its past will do: these keep reach stochastic.
    can_be, can_stop = predicted > _NEGLIGIBLE, stopping > _NEGLIGIBLE
    safe = jnp.where(can_be, predicted, 1.0)
    otherwise = jnp.where(can_stop, 1.0 / jnp.where(can_stop, stopping, 1.0), 0.0)
    stay = jnp.where(can_be, p.stay * prior / safe, jnp.where(can_stop, 0.0, 1.0))
    enter = jnp.where(can_be, p.selection / safe, otherwise)

    # An episode's start settles the one before: its pasts are averaged by the filter at its end.
    keep = jnp.where(start, 0.0, stay)
    source, target = jnp.where(start, window.chi, depart), jnp.where(start, 1.0, enter)
    mixed = jnp.sum(window.reach * source[:, None], 1)
    reach = window.reach * keep[:, None] + mixed[:, None] * target[:, None]

    here = jnp.arange(reach.shape[-1], dtype=window.filled.dtype) == window.filled
    identity = jnp.eye(len(mu), dtype=reach.dtype)[:, :, None]
    link = jnp.stack([stay, depart, enter])[:, :, None]
    pushed = Window(
        chi, jnp.where(here, identity, reach), jnp.where(here, link, window.links), window.filled + 1
    )
    return pushed, jnp.log(jnp.where(possible, total, 1.0)), possible


def pending(window: Window) -> Posteriors:
    """The smoothed posteriors `[K, W]` of the pending samples given all the data so far."""
    options = jnp.sum(window.reach * window.chi[:, None], 1)
    stay, depart, enter = window.links
    entering = enter * options
    return Posteriors(options, entering * jnp.sum(depart, 0), stay * options, depart * jnp.sum(entering, 0))


def spread(window: Window, oldest: int) -> Float[Array, ""]:
    """The most that the posteriors of the `oldest` samples can still change."""
    reach = window.reach[:, :, :oldest]
    return jnp.max(jnp.max(reach, 1) - jnp.min(reach, 1))


def forget(window: Window, oldest: int) -> Window:
    """The window without its `oldest` samples."""
    reach, links = forget_column(window.reach, oldest), forget_column(window.links, oldest)
    return Window(window.chi, reach, links, window.filled - oldest)


def forget_column(column: Array, oldest: int) -> Array:
    """Shift what a caller keeps beside the window, `[*, W]`, as `forget` shifts the window."""
    return jnp.concatenate([column[..., oldest:], jnp.zeros_like(column[..., :oldest])], -1)
