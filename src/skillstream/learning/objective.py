"""What the M-step maximises: Baum's auxiliary function Q and the paper's penalties.

The penalties are means over samples inside a norm or a square, so Q and they do not simply add up
over blocks of samples. Given the means of pi_hi, they do: `block_objective` has the gradient of
the whole, block by block.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillstream.learning.config import Penalties
from skillstream.policies.protocol import ConditionalModel, Conditionals, WeightedSamples


class Objective(NamedTuple):
    """The terms of the M-step; see `total` for their signs."""

    q: Float[Any, ""]  # Baum's auxiliary function, a sample (eq. Q_BW_opt_final, Q_online_BW_Final)
    balance: Float[Any, ""]  # L_b = sum_o | E[pi_hi(o|s)] - 1/K |
    variance: Float[Any, ""]  # L_v = sum_o var[pi_hi(o|s)]
    divergence: Float[Any, ""]  # L_KL, or what stands in its place

    def total(self, penalties: Penalties) -> Float[Array, ""]:
        """Q - lambda_b L_b + lambda_v L_v + lambda_KL L_KL: to be maximised."""
        return (
            self.q
            - penalties.balance * self.balance
            + penalties.variance * self.variance
            + penalties.divergence * self.divergence
        )


def objective(model: ConditionalModel, samples: WeightedSamples, form: str) -> Objective:
    """All terms over all samples at once, as the paper writes them."""
    said = model.conditionals(samples.observations)
    chosen = jnp.exp(said.selection)
    weights = samples.states[:, None]
    means = jnp.sum(weights * chosen, 0)
    return Objective(
        _auxiliary(said, samples),
        jnp.sum(jnp.abs(means - 1 / chosen.shape[1])),
        jnp.sum(weights * (chosen - means) ** 2),
        _divergence(said, samples, form),
    )


def selection_means(model: ConditionalModel, samples: WeightedSamples) -> Float[Array, "K"]:
    """The share of E[pi_hi(o|s)] that these samples make up."""
    chosen = jnp.exp(model.conditionals(samples.observations).selection)
    return jnp.sum(samples.states[:, None] * chosen, 0)


def block_objective(
    model: ConditionalModel,
    samples: WeightedSamples,
    penalties: Penalties,
    means: Float[Array, "K"] | None,
) -> Float[Array, ""]:
    """A block's share of a function with the gradient of the whole objective.

    With m = E[pi_hi], the gradient of -lambda_b |m - 1/K| is that of -lambda_b sign(m - 1/K) E[pi_hi],
    the one of lambda_v var[pi_hi] that of lambda_v E[pi_hi^2 - 2 m pi_hi], m held fixed.
    """
    said = model.conditionals(samples.observations)
    total = _auxiliary(said, samples)
    if means is not None:
        chosen = jnp.exp(said.selection)
        slope = -penalties.balance * jnp.sign(means - 1 / chosen.shape[1]) - 2 * penalties.variance * means
        total += jnp.sum(samples.states[:, None] * chosen * (slope + penalties.variance * chosen))
    if penalties.divergence:
        total += penalties.divergence * _divergence(said, samples, penalties.divergence_form)
    return total


def penalised_divergence(
    model: ConditionalModel, samples: WeightedSamples, penalties: Penalties
) -> Float[Array, ""]:
    """lambda_KL L_KL of these samples alone."""
    said = model.conditionals(samples.observations)
    return penalties.divergence * _divergence(said, samples, penalties.divergence_form)


def _auxiliary(said: Conditionals, samples: WeightedSamples) -> Float[Array, ""]:
    return (
        _cross(samples.switches, said.selection)
        + _cross(samples.stay, said.termination[..., 0])
        + _cross(samples.stop, said.termination[..., 1])
        + _cross(samples.options, said.action.log_probability(samples.actions))
    )


def _cross(weights: Float[Array, "N K"], logs: Float[Array, "N K"]) -> Float[Array, ""]:
    """Sum of weights times logs; what has no weight adds nothing, even if it is impossible."""
    return jnp.sum(jnp.where(weights > 0, weights * logs, 0.0))


def _divergence(said: Conditionals, samples: WeightedSamples, form: str) -> Float[Array, ""]:
    """Over ordered pairs of options: the taken action's term only, or all actions."""
    if form == "taken":
        logs = said.action.log_probability(samples.actions)
        gaps = logs.shape[1] * logs - jnp.sum(logs, 1, keepdims=True)
        return jnp.sum(samples.pairs[:, None] * jnp.exp(logs) * gaps)
    between = said.action.divergences(form)
    others = 1 - jnp.eye(between.shape[-1], dtype=between.dtype)
    return jnp.sum(jnp.sum(between * others, (1, 2)) * jax.lax.stop_gradient(samples.pairs))
