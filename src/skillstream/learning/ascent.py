"""Gradient steps on the objective, inside compiled functions: full, over all samples, or by mini-batches."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Int

from skillstream.learning.config import Penalties
from skillstream.learning.objective import block_objective, penalised_divergence, selection_means
from skillstream.policies.protocol import ConditionalModel, WeightedSamples

# Samples whose gradient is taken in one go: few, so that little is done in vain for the last ones; or,
# where there are many, enough of them that XLA spreads the work over the cores (a fifth faster on two; on
# one, where they no longer fit into its cache, they take half as long again).
BLOCK = 256
_LARGE = 2048


@lru_cache
def adamax(learning_rate: float) -> optax.GradientTransformation:
    """The paper's optimiser; the same object for the same rate, so that nothing is compiled twice."""
    return optax.adamax(learning_rate)


class Moving(NamedTuple):
    """What gradient steps change."""

    parameters: Any
    optimiser: Any


class Split(NamedTuple):
    """A model in two: what the optimiser moves, and how to make a model of it again."""

    parameters: Any
    join: Callable[[Any], ConditionalModel]


def split(model: ConditionalModel) -> Split:
    """Take a model apart for the optimiser."""
    parameters, rest = eqx.partition(model, model.trainable())
    parameters = jax.tree.map(jnp.asarray, parameters)
    return Split(parameters, lambda parameters: eqx.combine(parameters, rest))


def start(model: ConditionalModel, optimiser: optax.GradientTransformation) -> Any:
    """The optimiser's first state."""
    with jax.enable_x64(True):
        return jax.tree.map(jax.device_get, optimiser.init(split(model).parameters))


def rows_for(count: int) -> int:
    """How many rows to keep for so many samples, so that they divide into blocks."""
    size = BLOCK if count <= _LARGE - 2 * BLOCK else _LARGE
    return -(-count // size) * size


def _has_large_blocks(samples: WeightedSamples) -> bool:
    return len(samples.states) % _LARGE == 0 and _threads() > 1


@lru_cache
def _threads() -> int:
    """How many threads XLA has: as many as `NPROC` says, or one a core that this process may use."""
    told = os.environ.get("NPROC", "")
    return int(told) if told.isdecimal() else len(os.sched_getaffinity(0))


def full_gradient(
    parts: Split,
    samples: WeightedSamples,
    used: Int[Array, ""],
    penalties: Penalties,
    newest: Int[Array, ""] | None = None,
) -> Callable[[Any], Any]:
    """The gradient of minus the objective over the first `used` samples, as a function of parameters.

    There are `rows_for` as many rows; those past `used` weigh nothing, and their blocks are not visited.
    `newest` says that this row alone has a weight in L_KL, which is then computed there and nowhere else.
    """
    everywhere = penalties if newest is None else replace(penalties, divergence=0.0)
    # A large block takes as long as six or seven small ones.
    large = (used + 2 * BLOCK) // _LARGE if _has_large_blocks(samples) else jnp.zeros_like(used)
    small = large * (_LARGE // BLOCK), (used + (BLOCK - 1)) // BLOCK

    def sum_over_blocks(function, zero):
        def adder(size):
            blocks = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), samples)

            def add(i, total):
                block = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, i, keepdims=False), blocks)
                return jax.tree.map(jnp.add, total, function(block))

            return add

        if _has_large_blocks(samples):
            zero = lax.fori_loop(jnp.zeros_like(large), large, adder(_LARGE), zero)
        return lax.fori_loop(*small, adder(BLOCK), zero)

    def gradient(parameters):
        model = parts.join(parameters)
        means = None
        if penalties.balance or penalties.variance:
            zero = jnp.zeros(model.num_options, samples.states.dtype)
            means = sum_over_blocks(lambda block: selection_means(model, block), zero)
        total = sum_over_blocks(
            lambda block: jax.grad(lambda p: -block_objective(parts.join(p), block, everywhere, means))(
                parameters
            ),
            jax.tree.map(jnp.zeros_like, parameters),
        )
        if newest is None or not penalties.divergence:
            return total
        row = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, newest), samples)
        apart = jax.grad(lambda p: -penalised_divergence(parts.join(p), row, penalties))(parameters)
        return jax.tree.map(jnp.add, total, apart)

    return gradient


def batch_gradient(parts: Split, batch: WeightedSamples, penalties: Penalties, parameters: Any) -> Any:
    """The gradient of minus the objective over one mini-batch, means taken within it."""
    means = None
    if penalties.balance or penalties.variance:
        means = selection_means(parts.join(parameters), batch)
    return jax.grad(lambda p: -block_objective(parts.join(p), batch, penalties, means))(parameters)


def apply(optimiser: optax.GradientTransformation, moving: Moving, gradient: Any) -> Moving:
    """One step of the optimiser."""
    # Optax counts on promotion between its counters and the numbers it scales.
    with jax.numpy_dtype_promotion("standard"):
        updates, state = optimiser.update(gradient, moving.optimiser, moving.parameters)
        return Moving(optax.apply_updates(moving.parameters, updates), state)


def all_finite(moving: Moving) -> Bool[Array, ""]:
    """Whether nothing in the parameters has become infinite or NaN."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(moving.parameters)]))


def keep_if(condition: Bool[Array, ""], new: Moving, old: Moving) -> Moving:
    """The new state, or the old one."""
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
