"""The E-step and M-step of policies learnt from weighted samples, for data at rest."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from skillstream.inference.smoothing import smooth
from skillstream.learning.ascent import (
    Moving,
    all_finite,
    apply,
    batch_gradient,
    full_gradient,
    keep_if,
    rows_for,
    split,
)
from skillstream.learning.config import BatchConfig, Penalties
from skillstream.learning.objective import Objective, objective
from skillstream.policies.chains import Chain
from skillstream.policies.protocol import ConditionalModel, WeightedSamples


class Expected(NamedTuple):
    """An E-step's result."""

    samples: WeightedSamples
    initial: Float[Array, "K"]  # sum of P(o_0) over episodes
    log_likelihood: Float[Array, ""]


@eqx.filter_jit
def expected_samples(
    model: ConditionalModel, mu: Float[Any, "K"], steps: Chain, count: Int[Any, ""], restarts: bool
) -> Expected:
    """The posterior of every step as weights that add to 1 over the `count` steps that are not padding.

    The columns end in rows that weigh nothing, so that they divide into blocks.
    """
    starts, padding = jnp.asarray(steps.starts), jnp.asarray(steps.padding)
    posteriors, log_likelihood = smooth(steps.potentials(model), jnp.asarray(mu), starts, restarts)
    dtype = jnp.result_type(*jax.tree.leaves(eqx.filter(model, model.trainable())))
    share = jnp.where(padding, 0.0, 1.0 / count.astype(jnp.float64))
    recorded = jnp.where(jnp.asarray(steps.missing), 0.0, share)

    def column(values):
        values = jnp.asarray(values)
        extra = rows_for(len(values)) - len(values)
        return jnp.concatenate([values, jnp.zeros((extra, *values.shape[1:]), values.dtype)])

    def weigh(values, weights):
        return column((values * weights[:, None]).astype(dtype))

    samples = WeightedSamples(
        column(steps.observations),
        column(steps.actions),
        weigh(posteriors.switches, share),
        weigh(posteriors.continues, share),
        weigh(posteriors.departs, share),
        weigh(posteriors.options, recorded),
        column(share.astype(dtype)),
        column(recorded.astype(dtype)),
    )
    before = jnp.where(starts[:, None], posteriors.continues + posteriors.departs, 0.0)
    return Expected(samples, jnp.sum(before, 0), log_likelihood)


def climb(
    model: ConditionalModel,
    optimiser_state: Any,
    samples: WeightedSamples,
    count: int,
    key: Array,
    optimiser: optax.GradientTransformation,
    config: BatchConfig,
) -> tuple[ConditionalModel, Any, bool]:
    """One M-step by gradient steps; False, and everything as it was, if a number became non-finite."""
    moved, state, ok = _climb(
        model,
        optimiser_state,
        samples,
        np.array(count, np.int32),
        key,
        optimiser,
        config.epochs,
        config.batch_size,
        config.penalties,
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, moved), state, bool(ok)


@eqx.filter_jit
def _climb(model, optimiser_state, samples, count, key, optimiser, epochs, batch_size, penalties):
    parts = split(model)
    before = Moving(parts.parameters, optimiser_state)
    gradient = full_gradient(parts, samples, count, penalties)
    passes = partial(_mini_batches, parts, samples, count, optimiser, batch_size, penalties)

    def epoch(i, moving):
        if batch_size is None:
            return apply(optimiser, moving, gradient(moving.parameters))
        return passes(jax.random.fold_in(key, i), moving)

    after = lax.fori_loop(0, epochs, epoch, before)
    ok = all_finite(after)
    moving = keep_if(ok, after, before)
    return parts.join(moving.parameters), moving.optimiser, ok


def _mini_batches(parts, samples, count, optimiser, size, penalties: Penalties, key, moving):
    """One pass: every sample in one batch, in a new order; the last batch may be smaller."""
    rows = len(samples.states)
    place = jax.random.uniform(key, (rows,), jnp.float32)
    order = jnp.argsort(jnp.where(jnp.arange(rows, dtype=count.dtype) < count, place, jnp.inf))
    extra = -rows % size
    shuffled = jax.tree.map(lambda x: jnp.pad(x[order], [(0, extra)] + [(0, 0)] * (x.ndim - 1)), samples)

    def step(i, moving):
        batch = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, i * size, size), shuffled)
        scale = count.astype(jnp.float32) / jnp.minimum(count - i * size, size).astype(jnp.float32)
        weighed = (jax.tree.map(lambda x: x * scale.astype(x.dtype), part) for part in batch[2:])
        batch = WeightedSamples(batch.observations, batch.actions, *weighed)
        return apply(optimiser, moving, batch_gradient(parts, batch, penalties, moving.parameters))

    return lax.fori_loop(jnp.zeros_like(count), (count + (size - 1)) // size, step, moving)


@eqx.filter_jit
def terms(model: ConditionalModel, samples: WeightedSamples, form: str) -> Objective:
    """Every term of the objective, to be looked at."""
    return objective(model, samples, form)


@eqx.filter_jit
def maximise_samples(model: Any, samples: WeightedSamples, pseudo_count: Float[Any, ""]) -> Any:
    """The M-step of a model that has one in closed form."""
    return model.maximise(samples, pseudo_count)


@eqx.filter_jit
def least_likely(model: ConditionalModel, samples: WeightedSamples) -> Int[Array, ""]:
    """The sample whose action a model explains worst; one it cannot put a number on before all others."""
    logs = jnp.max(model.conditionals(samples.observations).action.log_probability(samples.actions), 1)
    logs = jnp.where(jnp.isfinite(logs), logs, -jnp.inf)
    return jnp.argmin(jnp.where(samples.pairs > 0, logs, jnp.inf))
