"""The compiled loop of online learning: a smoother, a store of counts, and tables made on demand.

An M-step after every sample changes only the rows its pending samples touch, and the next sample
reads a single row. So no table is ever rebuilt: the row about to be used is read from the settled
counts plus what the pending samples would add to it. The loop is nested: inside, samples are pushed
and the big arrays are only read; outside, half a window at a time is settled into them.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from skillstream.inference.potentials import Potentials
from skillstream.inference.streaming import Window, forget, forget_column, new_window, pending, push, spread

# The newest sample counts about 1 or far more; beside it, so small a count is nothing.
_FADED = 2.0**-500


class Tables(NamedTuple):
    """A policy for the loop; its rows hold until the data say something about them."""

    base: Float[Array, "S K3"]  # selection, stop, stay
    cells: Float[Array, "SA K"]  # pi_lo(a | s, o)
    mu: Float[Array, "K"]


class Samples(NamedTuple):
    """What is known of each pending sample beside its posteriors."""

    tags: Int[Array, "3 W"]  # state, state and action as one number, whether an episode's first
    weight: Float[Array, "W"]  # 0 where there is no sample


class Counts(NamedTuple):
    """Settled expected counts, as weighted sums."""

    base: Float[Array, "S K4"]  # selection, stop, stay, and options where the action was recorded
    cells: Float[Array, "SA K"]
    initial: Float[Array, "K"]


class StreamState(NamedTuple):
    """All that an online learner keeps, of a size that does not depend on the number of samples."""

    window: Window
    samples: Samples
    counts: Counts
    totals: Float[Array, "3"]  # the newest sample's weight, the log-likelihood, the certificate


class Chunk(NamedTuple):
    """Samples to take in, and how far to go; few arrays, because each costs microseconds to hand over."""

    tags: Int[np.ndarray, "3 N"]  # as in Samples
    weight: Float[np.ndarray, "N"]
    limits: Int[np.ndarray, "2"]  # samples that count, and the first of them that uses learnt tables
    settings: Float[Array, "2"]  # tolerance and pseudo-count


def new_stream(num_options: int, num_states: int, num_actions: int, window: int) -> StreamState:
    """A stream that has seen nothing."""

    def nothing(*shape):
        return jnp.zeros(shape, jnp.float64)

    cells = num_states * num_actions
    samples = Samples(jnp.zeros((3, window), jnp.int32), nothing(window))
    counts = Counts(nothing(num_states, 4 * num_options), nothing(cells, num_options), nothing(num_options))
    return StreamState(new_window(num_options, window), samples, counts, nothing(3))


@partial(jax.jit, donate_argnums=0)
def advance(state: StreamState, tables: Tables, chunk: Chunk):
    """Take in the chunk, or as much of it as fits before a sample would have to be settled too soon.

    Returns the state and a report: how many samples were taken in, whether the window must grow,
    and how many of the samples were impossible.
    """
    size, (steps, _) = state.samples.weight.size, chunk.limits

    def more(carry):
        return (carry[0] < steps) & (carry[1].filled < size)

    def half_window(carry):
        state, (taken, _, impossible) = carry
        newest, log_likelihood, certificate = state.totals
        take = partial(_take, counts=state.counts, tables=tables, chunk=chunk)
        filling = (taken, state.window, state.samples, newest, log_likelihood, impossible)
        taken, window, samples, newest, log_likelihood, impossible = lax.while_loop(more, take, filling)
        window, samples, counts, certificate, grow = _settle(
            window, samples, state.counts, certificate, chunk.settings[0]
        )
        totals = jnp.stack([newest, log_likelihood, certificate])
        report = jnp.stack([taken, grow.astype(taken.dtype), impossible])
        return StreamState(window, samples, counts, totals), report

    def unfinished(carry):
        return (carry[1][0] < steps) & (carry[1][1] == 0)

    return lax.while_loop(unfinished, half_window, (state, jnp.zeros(3, steps.dtype)))


def _take(carry, counts: Counts, tables: Tables, chunk: Chunk):
    """One sample: tables for its state, its push through the smoother, its place among the pending."""
    index, window, samples, newest, log_likelihood, impossible = carry
    tags, weight = chunk.tags[:, index], chunk.weight[index]
    live = index >= chunk.limits[1]
    potentials = _potentials(tags, window, samples, counts, tables, live, chunk.settings[1] * newest)
    here = jnp.arange(samples.weight.size, dtype=window.filled.dtype) == window.filled
    samples = Samples(jnp.where(here, tags[:, None], samples.tags), jnp.where(here, weight, samples.weight))
    window, log_probability, possible = push(window, potentials, tags[2] > 0, tables.mu)
    impossible += (~possible).astype(impossible.dtype)
    return index + 1, window, samples, weight, log_likelihood + log_probability, impossible


def _potentials(tags, window, samples, counts, tables, live, pseudo_count) -> Potentials:
    """The potentials of one step under the tables that an M-step now would give."""
    state, cell, _ = tags
    options, size = len(window.chi), len(tables.cells)
    of_state = jnp.where(samples.tags[0] == state, samples.weight, 0.0)
    acted = jnp.where(samples.tags[1] < size, of_state, 0.0)
    of_cell = jnp.where(samples.tags[1] == cell, samples.weight, 0.0)
    now = pending(window)
    shares = (
        now.switches * of_state,
        now.departs * of_state,
        now.continues * of_state,
        now.options * acted,
        now.options * of_cell,
    )
    *sums, chosen = _sum_pending(shares)
    selection, stop, stay, occupied = counts.base[state].reshape(4, options) + jnp.stack(sums)
    chosen = counts.cells[cell] + chosen
    old = tables.base[state]

    def share(count, mass, outcomes, old):
        seen = live & (mass > 0)
        return jnp.where(
            seen, (count + pseudo_count) / jnp.where(seen, mass + outcomes * pseudo_count, 1.0), old
        )

    actions = size // len(tables.base)
    ends = stop + stay
    return Potentials(
        selection=share(selection, jnp.sum(selection), options, old[:options]),
        stop=share(stop, ends, 2, old[options : 2 * options]),
        stay=share(stay, ends, 2, old[2 * options :]),
        action=jnp.where(cell < size, share(chosen, occupied, actions, tables.cells[cell]), 1.0),
        offset=jnp.zeros(()),
    )


def _sum_pending(columns: tuple[Float[Array, "K W"], ...]) -> tuple[Float[Array, "K"], ...]:
    """The sum of each column over pending samples, as one operation, which is what a small loop pays for."""
    zeros = (np.zeros((), columns[0].dtype),) * len(columns)
    return tuple(lax.reduce(columns, zeros, lambda x, y: tuple(map(lax.add, x, y)), (1,)))


def _settle(window: Window, samples: Samples, counts: Counts, certificate, tolerance):
    """If the window is full, move its older half into the counts, or ask for a larger window.

    The move is a loop of no or one turn: unlike a branch, a loop updates the big arrays in place.
    """
    size = samples.weight.size
    half = size // 2
    full = window.filled == size
    unsettled = spread(window, half)
    grow = full & (unsettled > tolerance)

    def move(carry):
        window, samples, counts, certificate, _ = carry
        counts = _add(counts, window, Samples(samples.tags[:, :half], samples.weight[:half]))
        samples = Samples(*(forget_column(column, half) for column in samples))
        return forget(window, half), samples, counts, jnp.maximum(certificate, unsettled), jnp.array(False)

    settled = lax.while_loop(
        lambda carry: carry[-1], move, (window, samples, counts, certificate, full & ~grow)
    )
    return *settled[:-1], grow


def _add(counts: Counts, window: Window, samples: Samples) -> Counts:
    """The counts with the window's first samples in them."""
    now, (state, cell, start) = pending(window), samples.tags
    acted = jnp.where(cell < len(counts.cells), samples.weight, 0.0)
    switches, departs, continues, options = (
        column[:, : len(acted)] * weight
        for column, weight in zip(
            (now.switches, now.departs, now.continues, now.options),
            3 * [samples.weight] + [acted],
            strict=True,
        )
    )
    return Counts(
        counts.base.at[state].add(jnp.concatenate([switches, departs, continues, options]).T, mode="drop"),
        counts.cells.at[cell].add(options.T, mode="drop"),
        counts.initial + jnp.sum(jnp.where(start > 0, departs + continues, 0.0), 1),
    )


@jax.jit
def all_counts(state: StreamState) -> Counts:
    """The expected counts of every sample so far, pending ones included as they stand."""
    return _add(state.counts, state.window, state.samples)


@jax.jit
def rescale(state: StreamState, factor: Float[Array, ""]) -> StreamState:
    """The same state with all weights times `factor`; counts that have faded to nothing become nothing.

    Left alone they would lose their digits, one by one, before they reached zero.
    """
    counts = jax.tree.map(lambda count: jnp.where(count * factor < _FADED, 0.0, count * factor), state.counts)
    samples = state.samples._replace(weight=state.samples.weight * factor)
    return state._replace(counts=counts, samples=samples, totals=state.totals.at[0].multiply(factor))


def grow(state: StreamState) -> StreamState:
    """The same state with room for twice as many pending samples."""
    window, samples = state.window, state.samples

    def widen(column):
        return jnp.concatenate([column, jnp.zeros_like(column)], -1)

    window = window._replace(reach=widen(window.reach), links=widen(window.links))
    return state._replace(window=window, samples=Samples(*(widen(column) for column in samples)))
