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
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from skillstream.inference.potentials import Potentials
from skillstream.inference.streaming import Window, forget, forget_column, new_window, pending, push, spread


class Tables(NamedTuple):
    """A policy for the loop; its rows hold until the data say something about them."""

    base: Float[Array, "S 3K"]  # selection, stop, stay
    cells: Float[Array, "SA K"]  # pi_lo(a | s, o)
    mu: Float[Array, "K"]


class Samples(NamedTuple):
    """What is known of each pending sample beside its posteriors."""

    state: Int[Array, "W"]  # S where there is none
    cell: Int[Array, "W"]  # state and action as one number; S A where there is none
    start: Bool[Array, "W"]
    weight: Float[Array, "W"]


class Counts(NamedTuple):
    """Settled expected counts, as weighted sums."""

    base: Float[Array, "S 4K"]  # selection, stop, stay, and options where the action was recorded
    cells: Float[Array, "SA K"]
    initial: Float[Array, "K"]


class StreamState(NamedTuple):
    """All that an online learner keeps, of a size that does not depend on the number of samples."""

    window: Window
    samples: Samples
    counts: Counts
    newest: Float[Array, ""]  # the weight of the newest sample
    log_likelihood: Float[Array, ""]
    certificate: Float[Array, ""]
    impossible: Int[Array, ""]


class Chunk(NamedTuple):
    """Samples to take in; only the first few of the arrays' rows may count."""

    state: Int[Array, "N"]
    cell: Int[Array, "N"]
    start: Bool[Array, "N"]
    weight: Float[Array, "N"]


class Limits(NamedTuple):
    """How far a call may go."""

    steps: Int[Array, ""]  # samples of the chunk that count
    live_from: Int[Array, ""]  # the first of them that uses learnt tables
    tolerance: Float[Array, ""]
    pseudo_count: Float[Array, ""]


def new_stream(num_options: int, num_states: int, num_actions: int, window: int) -> StreamState:
    """A stream that has seen nothing."""

    def nothing(*shape):
        return jnp.zeros(shape, jnp.float64)

    cells = num_states * num_actions
    samples = Samples(
        jnp.full(window, num_states, jnp.int32), jnp.full(window, cells, jnp.int32), jnp.zeros(window, bool), nothing(window)
    )
    counts = Counts(nothing(num_states, 4 * num_options), nothing(cells, num_options), nothing(num_options))
    return StreamState(
        new_window(num_options, window), samples, counts, nothing(), nothing(), nothing(), jnp.int64(0)
    )


@partial(jax.jit, donate_argnums=0)
def advance(state: StreamState, tables: Tables, chunk: Chunk, limits: Limits):
    """Take in the chunk, or as much of it as fits before a sample would have to be settled too soon.

    Returns the state, how many samples were taken in, and whether the window must grow.
    """
    size = state.window.reach.shape[-1]

    def fill(carry):
        taken, window, samples, tallies = carry
        window, samples, tallies = _take(taken, window, samples, state_counts, tallies, tables, chunk, limits)
        return taken + 1, window, samples, tallies

    def more(carry):
        return (carry[0] < limits.steps) & (carry[1].count < size)

    state_counts = state.counts

    def half_window(carry):
        nonlocal state_counts
        taken, window, samples, counts, tallies, certificate, _ = carry
        state_counts = counts
        taken, window, samples, tallies = lax.while_loop(more, fill, (taken, window, samples, tallies))
        window, samples, counts, certificate, grow = _settle(
            window, samples, counts, certificate, limits.tolerance
        )
        return taken, window, samples, counts, tallies, certificate, grow

    start = (
        jnp.int32(0),
        state.window,
        state.samples,
        state.counts,
        (state.newest, state.log_likelihood, state.impossible),
        state.certificate,
        jnp.array(False),
    )
    taken, window, samples, counts, tallies, certificate, grow = lax.while_loop(
        lambda carry: (carry[0] < limits.steps) & ~carry[-1], half_window, start
    )
    newest, log_likelihood, impossible = tallies
    state = StreamState(window, samples, counts, newest, log_likelihood, certificate, impossible)
    return state, jnp.stack([taken, grow.astype(taken.dtype), impossible.astype(taken.dtype)])


def _take(index, window, samples, counts, tallies, tables, chunk, limits):
    """One sample: tables for its state, its push through the smoother, its place among the pending."""
    newest, log_likelihood, impossible = tallies
    state, cell, weight = chunk.state[index], chunk.cell[index], chunk.weight[index]
    live = index >= limits.live_from
    potentials = _potentials(state, cell, window, samples, counts, tables, live, limits.pseudo_count * newest)
    here = jnp.arange(len(samples.state)) == window.count
    samples = Samples(
        jnp.where(here, state, samples.state),
        jnp.where(here, cell, samples.cell),
        jnp.where(here, chunk.start[index], samples.start),
        jnp.where(here, weight, samples.weight),
    )
    window, log_probability, possible = push(window, potentials, chunk.start[index], tables.mu)
    return window, samples, (weight, log_likelihood + log_probability, impossible + ~possible)


def _potentials(state, cell, window, samples, counts, tables, live, pseudo_count) -> Potentials:
    """The potentials of one step under the tables that an M-step now would give."""
    options, size = window.stay.shape[0], len(tables.cells)
    of_state = jnp.where(samples.state == state, samples.weight, 0.0)
    acted = jnp.where(samples.cell < size, of_state, 0.0)
    of_cell = jnp.where(samples.cell == cell, samples.weight, 0.0)
    now = pending(window)
    settled = counts.base[state]
    selection, stop, stay, occupied = (
        settled[k * options : (k + 1) * options] + jnp.sum(column * weight, 1)
        for k, (column, weight) in enumerate(
            ((now.switches, of_state), (now.departs, of_state), (now.continues, of_state), (now.options, acted))
        )
    )
    chosen = counts.cells[cell] + jnp.sum(now.options * of_cell, 1)
    old = tables.base[state]

    def share(count, mass, outcomes, old):
        seen = live & (mass > 0)
        return jnp.where(seen, (count + pseudo_count) / jnp.where(seen, mass + outcomes * pseudo_count, 1.0), old)

    actions = size // len(tables.base)
    ends = stop + stay
    return Potentials(
        selection=share(selection, jnp.sum(selection), options, old[:options]),
        stop=share(stop, ends, 2, old[options : 2 * options]),
        stay=share(stay, ends, 2, old[2 * options :]),
        action=jnp.where(cell < size, share(chosen, occupied, actions, tables.cells[cell]), 1.0),
        offset=jnp.zeros(()),
    )


def _settle(window: Window, samples: Samples, counts: Counts, certificate, tolerance):
    """If the window is full, move its older half into the counts, or ask for a larger window."""
    size = len(samples.state)
    half = size // 2
    full = window.count == size
    unsettled = spread(window, half)
    grow = full & (unsettled > tolerance)
    move = full & ~grow
    oldest = jax.tree.map(lambda column: column[:half], samples)
    counts = _add(counts, window, oldest._replace(weight=jnp.where(move, oldest.weight, 0.0)))
    samples = Samples(
        jnp.where(move, jnp.roll(samples.state, -half), samples.state),
        jnp.where(move, jnp.roll(samples.cell, -half), samples.cell),
        jnp.where(move, jnp.roll(samples.start, -half), samples.start),
        forget_column(samples.weight, half, move),
    )
    certificate = jnp.where(move, jnp.maximum(certificate, unsettled), certificate)
    return forget(window, half, move), samples, counts, certificate, grow


def _add(counts: Counts, window: Window, samples: Samples) -> Counts:
    """The counts with the window's first samples in them."""
    now = pending(window)
    columns = jnp.concatenate([now.switches, now.departs, now.continues, now.options])[:, : len(samples.weight)]
    options = window.stay.shape[0]
    acted = jnp.where(samples.cell < len(counts.cells), samples.weight, 0.0)
    weights = jnp.concatenate(
        [jnp.broadcast_to(samples.weight, (3 * options, len(acted))), jnp.broadcast_to(acted, (options, len(acted)))]
    )
    rows = columns * weights
    before = (rows[options : 2 * options] + rows[2 * options : 3 * options]) * samples.start
    return Counts(
        counts.base.at[samples.state].add(rows.T, mode="drop"),
        counts.cells.at[samples.cell].add(rows[3 * options :].T, mode="drop"),
        counts.initial + jnp.sum(before, 1),
    )


@jax.jit
def all_counts(state: StreamState) -> Counts:
    """The expected counts of every sample so far, pending ones included as they stand."""
    return _add(state.counts, state.window, state.samples)


@jax.jit
def rescale(state: StreamState, factor: Float[Array, ""]) -> StreamState:
    """The same state with all weights times `factor`."""
    counts = jax.tree.map(lambda count: count * factor, state.counts)
    samples = state.samples._replace(weight=state.samples.weight * factor)
    return state._replace(counts=counts, samples=samples, newest=state.newest * factor)


def grow(state: StreamState) -> StreamState:
    """The same state with room for twice as many pending samples."""
    size = len(state.samples.state)

    def widen(column, filling=0):
        width = [(0, 0)] * (column.ndim - 1) + [(0, size)]
        return jnp.pad(column, width, constant_values=filling)

    window, samples, counts = state.window, state.samples, state.counts
    window = window._replace(**{name: widen(getattr(window, name)) for name in ("reach", "stay", "depart", "enter")})
    samples = Samples(
        widen(samples.state, len(counts.base)),
        widen(samples.cell, len(counts.cells)),
        widen(samples.start),
        widen(samples.weight),
    )
    return state._replace(window=window, samples=samples)
