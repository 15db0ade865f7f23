"""Forward-backward recursions for options (the paper's appendix), in O(K) a step.

The step from one option to the next is diagonal plus rank one,
`A_t[o', o] = stay_t[o'] 1[o = o'] + stop_t[o'] h_t[o]`, and is never built.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from skillstream.inference.potentials import Potentials


class Posteriors(NamedTuple):
    """What the data say of the hidden option and termination at each step."""

    options: Float[Array, "T K *E"]  # P(o_t)
    switches: Float[Array, "T K *E"]  # P(o_t, b_t = 1)
    continues: Float[Array, "T K *E"]  # P(o_{t-1}, b_t = 0), which is P(o_t, b_t = 0)
    departs: Float[Array, "T K *E"]  # P(o_{t-1}, b_t = 1)


class _Links(NamedTuple):
    """A step's action term folded into its transition: alpha_t = go alpha + enter sum(stop alpha)."""

    go: Array
    enter: Array
    stop: Array


def along(mu: Float[Array, "K"], like: Array) -> Array:
    """`mu` [K] laid along the option axis of one step of `like`."""
    return jnp.broadcast_to(mu.reshape((-1,) + (1,) * (like.ndim - 2)), like.shape[1:])


def _links(p: Potentials, mu: Array, starts: Bool[Array, "T *E"], restarts: bool) -> _Links:
    """The links of a chain; inside it, an episode's start forgets what came before.

    At a start every option 'stops' and the next is drawn from what `mu` leads to, so that the loops
    need no case of their own. Without `restarts` (one episode a chain) this work is left out.
    """
    if not restarts:
        return _Links(p.action * p.stay, p.action * p.selection, p.stop)
    at, first = jnp.expand_dims(starts, 1), along(mu, p.stop)
    entry = p.stay * first + p.selection * _total(p.stop * first)
    return _Links(
        jnp.where(at, 0.0, p.action * p.stay),
        p.action * jnp.where(at, entry, p.selection),
        jnp.where(at, 1.0, p.stop),
    )


def _forward(links: _Links, first: Array) -> tuple[Array, Array]:
    """The filter chi_t [T, K, *E] and 1 / c_t, the inverse of each step's predictive probability."""

    def step(chi, link):
        alpha = link.go * chi + link.enter * jnp.sum(link.stop * chi, 0)
        inverse = 1.0 / jnp.sum(alpha, 0)
        chi = alpha * inverse
        return chi, (chi, inverse)

    return lax.scan(step, first, links)[1]


def _backward(links: _Links, inverse: Array) -> Array:
    """Messages from the future, scaled by 1 / c_t: the smoothed posterior is (filter x links) x message."""

    def step(message, x):
        link, inverse = x
        message = message * inverse
        earlier = link.go * message + link.stop * jnp.sum(link.enter * message, 0)
        return earlier, message

    ones = jnp.ones_like(links.stop[0])
    return lax.scan(step, ones, (links, inverse), reverse=True)[1]


# Up to this many options the loop that runs both ways at once is one kernel for XLA; measured.
_BOTH_WAYS = 4


def _both_ways(links: _Links, first: Array) -> tuple[Array, Array, Array]:
    """What `_forward` and `_backward` give, in one loop from both ends of a single chain.

    Neither recursion waits for the other, so that a processor works on both at a time. The messages
    are scaled by their own sums: the posteriors they lead to are to be normalised.
    """
    steps = len(links.stop)

    def step(t, carry):
        chi, message, filtered, inverses, messages = carry
        go, enter, stop = (lax.dynamic_index_in_dim(link, t, keepdims=False) for link in links)
        alpha = go * chi + enter * jnp.sum(stop * chi)
        inverse = 1.0 / jnp.sum(alpha)
        chi = alpha * inverse
        filtered = lax.dynamic_update_index_in_dim(filtered, chi, t, 0)
        inverses = lax.dynamic_update_index_in_dim(inverses, inverse, t, 0)

        late = steps - 1 - t
        go, enter, stop = (lax.dynamic_index_in_dim(link, late, keepdims=False) for link in links)
        messages = lax.dynamic_update_index_in_dim(messages, message, late, 0)
        earlier = go * message + stop * jnp.sum(enter * message)
        return chi, earlier / jnp.sum(message), filtered, inverses, messages

    empty, last = jnp.zeros_like(links.stop), jnp.ones_like(first)
    begin = (first, last, empty, jnp.zeros_like(empty[:, 0]), empty)
    _, _, chi, inverse, message = lax.fori_loop(0, steps, step, begin)
    return chi, inverse, message


def before_step(chi: Array, mu: Array, starts: Array | None) -> Array:
    """P(o_{t-1} | data to t-1): the filter one step earlier, `mu` at an episode's start.

    Without `starts` only the first step is one.
    """
    first = along(mu, chi)[None]
    before = jnp.concatenate([first, chi[:-1]])
    return before if starts is None else jnp.where(jnp.expand_dims(starts, 1), first, before)


def _total(values: Array) -> Array:
    """The sum over options, kept as an axis; few options are added one by one, which XLA does faster."""
    if values.shape[1] > 8:
        return jnp.sum(values, 1, keepdims=True)
    return sum((values[:, k : k + 1] for k in range(1, values.shape[1])), values[:, :1])


def _joint(p: Potentials, previous: Array, message: Array) -> Posteriors:
    """The posterior of each step from what precedes it and the message that follows it."""
    continues = p.action * p.stay * previous * message
    leaving, entering = p.stop * previous, p.action * p.selection * message
    switches = entering * _total(leaving)
    departs = leaving * _total(entering)
    return Posteriors(continues + switches, switches, continues, departs)


def _normalise(raw: Posteriors) -> Posteriors:
    inverse = 1.0 / _total(raw.options)
    return Posteriors(*(x * inverse for x in raw))


def smooth(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"], restarts: bool = True):
    """Posteriors given all the data, and the log-likelihood.

    `starts` marks episodes' first steps, the first step of each chain among them. Where the data have
    probability zero the log-likelihood is not finite: callers look at it before they use the rest.
    """
    links, first = _links(p, mu, starts, restarts), along(mu, p.stop)
    both_ways = p.stop.ndim == 2 and p.stop.shape[1] <= _BOTH_WAYS
    if both_ways:
        chi, inverse, message = _both_ways(links, first)
    else:
        chi, inverse = _forward(links, first)
        message = _backward(links, inverse)
    joint = _joint(p, before_step(chi, mu, starts if restarts else None), message)
    return _normalise(joint) if both_ways else joint, jnp.sum(p.offset) - jnp.sum(jnp.log(inverse))


def step_log_probabilities(
    p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"]
) -> Float[Array, "T *E"]:
    """log P(a_t | s_t, past) of every step: -inf at an impossible one, NaN after it."""
    inverse = _forward(_links(p, mu, starts, True), along(mu, p.stop))[1]
    return p.offset - jnp.log(inverse)


def smooth_with_lag(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"], lag: Array):
    """Posteriors of each step given the data up to `lag` steps later; 0 is the causal filter.

    All steps move backwards together, so the cost is O(T K lag) and the memory that of the data.
    """
    links = _links(p, mu, starts, True)
    chi, inverse = _forward(links, along(mu, p.stop))

    def earlier(_, message):
        future = links.go * message + links.stop * _total(links.enter * message)
        future = future / jnp.max(future, 1, keepdims=True)
        return jnp.concatenate([future[1:], jnp.ones_like(message[:1])])

    message = lax.fori_loop(0, lag, earlier, jnp.ones_like(p.stop))
    posteriors = _normalise(_joint(p, before_step(chi, mu, starts), message))
    return posteriors, jnp.sum(p.offset) - jnp.sum(jnp.log(inverse))


def predict(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"]):
    """P(o_t | s_t, data to t-1), the option before its action is seen, and the log-likelihood."""
    chi, inverse = _forward(_links(p, mu, starts, True), along(mu, p.stop))
    previous = before_step(chi, mu, starts)
    options = p.stay * previous + p.selection * _total(p.stop * previous)
    return options, jnp.sum(p.offset) - jnp.sum(jnp.log(inverse))


def filtered(p: Potentials, mu: Float[Array, "K"], starts: Bool[Array, "T *E"]):
    """The filter chi_t = P(o_t | data to t), what came before each step, and the log-likelihood."""
    chi, inverse = _forward(_links(p, mu, starts, True), along(mu, p.stop))
    return chi, before_step(chi, mu, starts), jnp.sum(p.offset) - jnp.sum(jnp.log(inverse))
