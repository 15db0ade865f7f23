"""The compiled loop of online learning by samples: a smoother, a store of them, and M-steps when due.

A sample's posterior changes while it is pending and is added to its row of the store once it has
settled. An M-step sees every row, pending samples as they stand. Nothing here depends on the size of
the chunks that a stream comes in: one program, for one number of samples, runs them all.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from skillstream.inference.potentials import Potentials
from skillstream.inference.streaming import Window, forget, forget_column, new_window, pending, push, spread
from skillstream.learning.ascent import (
    Moving,
    Split,
    all_finite,
    apply,
    batch_gradient,
    full_gradient,
    keep_if,
    split,
)
from skillstream.learning.config import OnlineConfig
from skillstream.policies.protocol import ConditionalModel, WeightedSamples

# Samples handed over at a time.
CHUNK = 64


class Store(NamedTuple):
    """Distinct samples, a row each, and the settled weight of every one."""

    observations: Shaped[Array, "C ..."]
    actions: Shaped[Array, "C ..."]
    sums: Float[Array, "C K4"]  # switches, going on, stopping, and options where the action was recorded
    states: Float[Array, "C"]  # 1 in the first row of each distinct observation


class Queue(NamedTuple):
    """Beside the window of pending samples: where each belongs, and how much it counts."""

    row: Int[Array, "W"]
    weight: Float[Array, "W"]  # 0 where there is no sample
    recorded: Float[Array, "W"]


class SampleState(NamedTuple):
    """All that changes."""

    window: Window
    queue: Queue
    store: Store
    used: Int[Array, ""]  # rows of the store that hold a sample
    moving: Moving
    totals: Float[Array, "3"]  # the newest sample's weight, the log-likelihood, the certificate


class Samples(NamedTuple):
    """A chunk: `CHUNK` rows, of which the first few count."""

    observations: Shaped[Any, "N ..."]
    actions: Shaped[Any, "N ..."]
    row: Int[Any, "N"]  # of the store
    weight: Float[Any, "N"]
    recorded: Bool[Any, "N"]
    starts: Bool[Any, "N"]
    new_state: Bool[Any, "N"]
    due: Bool[Any, "N"]  # whether an M-step follows the sample
    time: Int[Any, "N"]  # samples seen, this one included


class _Progress(NamedTuple):
    taken: Int[Array, ""]
    impossible: Int[Array, ""]
    refused: Int[Array, ""]
    first_refused: Int[Array, ""]
    grow: Bool[Array, ""]


def new_state(
    model: ConditionalModel, optimiser_state: Any, example: Samples, capacity: int, window: int
) -> SampleState:
    """A stream that has seen nothing; `example` says what observations and actions look like."""
    options = model.num_options

    def rows(column):
        return jnp.zeros((capacity, *column.shape[1:]), column.dtype)

    def nothing(*shape):
        return jnp.zeros(shape, jnp.float64)

    store = Store(
        rows(example.observations), rows(example.actions), nothing(capacity, 4 * options), nothing(capacity)
    )
    queue = Queue(jnp.zeros(window, jnp.int32), nothing(window), nothing(window))
    moving = Moving(split(model).parameters, jax.tree.map(jnp.asarray, optimiser_state))
    return SampleState(new_window(options, window), queue, store, jnp.int32(0), moving, nothing(3))


class Fixed(NamedTuple):
    """What a call does not change."""

    model: ConditionalModel  # lends its structure; its parameters are those in the state
    mu: Float[np.ndarray, "K"]
    samples: Samples
    steps: Int[np.ndarray, ""]  # how many of the samples to take in
    tolerance: Float[np.ndarray, ""]
    seed: Int[np.ndarray, ""]
    optimiser: optax.GradientTransformation
    config: OnlineConfig  # as `compiled_for` gives it


def compiled_for(config: OnlineConfig) -> OnlineConfig:
    """What the loop is compiled for; settings that only differ in the rest share a program."""
    kept = ("pseudo_count", "steps", "batch_size", "penalties", "keep_optimiser")
    return OnlineConfig(**{name: getattr(config, name) for name in kept})


@eqx.filter_jit(donate="all-except-first")
def advance(fixed: Fixed, state: SampleState):
    """Take in samples, or as many as fit before one would be settled too soon.

    Returns the state; how many samples were taken, were impossible, had their M-step refused, and the
    first of these; and whether the window must grow.
    """
    model, mu, samples, steps, tolerance, seed, optimiser, config = fixed
    parts = split(model)
    inputs = Samples(*(jnp.asarray(column) for column in samples))
    size = state.queue.row.size
    state = state._replace(store=_written(state.store, inputs, steps))

    def potentials(moving):
        said = parts.join(moving.parameters)
        return said.potentials(inputs.observations, inputs.actions, ~inputs.recorded)

    def take(carry):
        state, said, progress = carry
        i = progress.taken
        state, possible = _push(state, jax.tree.map(lambda x: x[i], said), inputs, i, jnp.asarray(mu))
        moving, ok = lax.cond(
            inputs.due[i],
            lambda: _m_step(state, parts, inputs, i, seed, optimiser, config),
            lambda: (state.moving, jnp.array(True)),
        )
        said = lax.cond(inputs.due[i], lambda: potentials(moving), lambda: said)
        bad, first = (~ok).astype(i.dtype), progress.refused == 0
        progress = progress._replace(
            taken=i + 1,
            impossible=progress.impossible + (~possible).astype(i.dtype),
            refused=progress.refused + bad,
            first_refused=jnp.where(first & ~ok, i, progress.first_refused),
        )
        return state._replace(moving=moving), said, progress

    def half_window(carry):
        state, said, progress = lax.while_loop(
            lambda c: (c[2].taken < steps) & (c[0].window.filled < size), take, carry
        )
        state, grow = _settle(state, jnp.asarray(tolerance))
        return state, said, progress._replace(grow=grow)

    none = jnp.zeros_like(steps)
    progress = _Progress(none, none, none, none, jnp.array(False))
    state, _, progress = lax.while_loop(
        lambda c: (c[2].taken < steps) & ~c[2].grow, half_window, (state, potentials(state.moving), progress)
    )
    report = jnp.stack([progress.taken, progress.impossible, progress.refused, progress.first_refused])
    return state, report, progress.grow


def _written(store: Store, samples: Samples, steps) -> Store:
    """The store with all samples of a chunk in their rows; a row counts once it is `used`."""
    live = jnp.arange(samples.row.size, dtype=steps.dtype) < steps
    row = jnp.where(live, samples.row, len(store.states))
    return store._replace(
        observations=store.observations.at[row].set(samples.observations, mode="drop"),
        actions=store.actions.at[row].set(samples.actions, mode="drop"),
        states=store.states.at[row].max(samples.new_state.astype(store.states.dtype), mode="drop"),
    )


def _push(state: SampleState, said: Potentials, samples: Samples, i, mu):
    """One sample through the smoother, its place in the queue, and whether it was possible."""
    row, weight = samples.row[i], samples.weight[i]
    here = jnp.arange(state.queue.row.size, dtype=jnp.int32) == state.window.filled
    new = Queue(row, weight, samples.recorded[i].astype(weight.dtype))
    queue = Queue(*(jnp.where(here, value, column) for value, column in zip(new, state.queue, strict=True)))
    window, log_probability, possible = push(state.window, said, samples.starts[i], mu)
    _, log_likelihood, certificate = state.totals
    totals = jnp.stack([weight, log_likelihood + log_probability + said.offset, certificate])
    used = jnp.maximum(state.used, row + 1)
    return state._replace(window=window, queue=queue, used=used, totals=totals), possible


def _m_step(state: SampleState, parts: Split, inputs: Samples, i, seed, optimiser, config: OnlineConfig):
    """The paper's M-step over everything seen, in closed form or by gradient steps; whether it was kept."""
    samples, total = weighted(state, parts, inputs.row[i], inputs.recorded[i])
    before = state.moving
    model = parts.join(before.parameters)
    if hasattr(model, "maximise"):
        # Relative to the newest sample's weight, like the counts that are shown to a user.
        pseudo_count = config.pseudo_count * inputs.weight[i] / total
        better = model.maximise(samples, pseudo_count)  # pyright: ignore[reportAttributeAccessIssue]
        return Moving(split(better).parameters, before.optimiser), jnp.array(True)
    if not config.keep_optimiser:
        before = before._replace(optimiser=optimiser.init(before.parameters))
    gradient = full_gradient(parts, samples, state.used, config.penalties, inputs.row[i])
    size = config.batch_size
    key = jax.random.fold_in(jax.random.key(seed), inputs.time[i])

    def step(n, moving):
        if size is None:
            return apply(optimiser, moving, gradient(moving.parameters))
        batch = _draw(samples, state.used, size, jax.random.fold_in(key, n))
        return apply(optimiser, moving, batch_gradient(parts, batch, config.penalties, moving.parameters))

    after = lax.fori_loop(0, config.steps, step, before)
    ok = all_finite(after)
    return keep_if(ok, after, state.moving), ok


def weighted(state: SampleState, parts: Split, newest, recorded) -> tuple[WeightedSamples, Float[Array, ""]]:
    """The store with pending samples as they stand, as weights that add to 1, and what they added to.

    In the paper's online form L_b and L_v are means over the distinct states seen, L_KL stands at the
    newest sample.
    """
    dtype = jnp.result_type(*jax.tree.leaves(parts.parameters))
    sums = with_pending(state)
    options = sums.shape[1] // 4
    total = jnp.sum(sums[:, options : 3 * options])
    switches, stay, stop, options = jnp.split((sums / total).astype(dtype), 4, axis=1)
    rows = jnp.arange(len(sums), dtype=state.used.dtype)
    states = jnp.where(rows < state.used, state.store.states, 0.0)
    samples = WeightedSamples(
        state.store.observations,
        state.store.actions,
        switches,
        stay,
        stop,
        options,
        (states / jnp.sum(states)).astype(dtype),
        ((rows == newest) & recorded).astype(dtype),
    )
    return samples, total


def with_pending(state: SampleState) -> Float[Array, "C K4"]:
    """The weights of all rows, pending samples as they stand."""
    return state.store.sums.at[state.queue.row].add(_shares(state.window, state.queue))


def _shares(window: Window, queue: Queue) -> Float[Array, "W K4"]:
    now = pending(window)
    parts = (now.switches, now.continues, now.departs, now.options * queue.recorded)
    return (jnp.concatenate(parts) * queue.weight).T


def _draw(samples: WeightedSamples, used, size: int, key) -> WeightedSamples:
    """A mini-batch, with replacement, whose sums estimate those over all rows."""
    rows = jax.random.randint(key, (size,), 0, used)
    batch = jax.tree.map(lambda x: x[rows], samples)
    scale = used.astype(jnp.float32) / size
    weighed = (column * scale.astype(column.dtype) for column in batch[2:])
    return WeightedSamples(batch.observations, batch.actions, *weighed)


def _settle(state: SampleState, tolerance) -> tuple[SampleState, Bool[Array, ""]]:
    """If the window is full, move its older half into the store, or ask for a larger window."""
    size = state.queue.row.size
    half = size // 2
    unsettled = spread(state.window, half)
    full = state.window.filled == size
    grow = full & (unsettled > tolerance)

    def move():
        queue, store = state.queue, state.store
        shares = _shares(state.window, queue)[:half]
        newest, log_likelihood, certificate = state.totals
        return state._replace(
            window=forget(state.window, half),
            queue=Queue(*(forget_column(column, half) for column in queue)),
            store=store._replace(sums=store.sums.at[queue.row[:half]].add(shares)),
            totals=jnp.stack([newest, log_likelihood, jnp.maximum(certificate, unsettled)]),
        )

    return lax.cond(full & ~grow, move, lambda: state), grow


@jax.jit
def rescale(state: SampleState, factor: Float[Array, ""]) -> SampleState:
    """The same state with all weights times `factor`."""
    queue = state.queue._replace(weight=state.queue.weight * factor)
    store = state.store._replace(sums=state.store.sums * factor)
    return state._replace(queue=queue, store=store, totals=state.totals.at[0].multiply(factor))


def widen(state: SampleState) -> SampleState:
    """The same state with room for twice as many pending samples."""

    def longer(column):
        return jnp.concatenate([column, jnp.zeros_like(column)], -1)

    window = state.window._replace(reach=longer(state.window.reach), links=longer(state.window.links))
    return state._replace(window=window, queue=Queue(*(longer(column) for column in state.queue)))


def deepen(state: SampleState, capacity: int) -> SampleState:
    """The same state with room for more distinct samples."""

    def longer(column):
        return jnp.pad(column, [(0, capacity - len(column))] + [(0, 0)] * (column.ndim - 1))

    return state._replace(store=Store(*(longer(column) for column in state.store)))
