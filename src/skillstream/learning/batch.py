"""Batch Baum-Welch (the paper's Algorithm 1)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.inference.smoothing import smooth
from skillstream.learning.config import BatchConfig
from skillstream.learning.tables import TableStatistics, auxiliary_function, maximise
from skillstream.policies.chains import Chain
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import prepare, refuse_impossible
from skillstream.policies.tabular import TabularModel


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after an iteration."""

    iteration: int
    log_likelihood: float  # of the policy this iteration began with
    policy: OptionPolicy  # as it is now


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted policy and how it came about."""

    policy: OptionPolicy
    log_likelihoods: Float[np.ndarray, "N"]  # of the policy each iteration began with
    converged: bool  # whether the tolerance stopped the fit
    objectives: Float[np.ndarray, "N"] | None = field(default=None)  # Q after each M-step, if tracked


def fit(
    policy: OptionPolicy,
    demos: Demonstrations,
    config: BatchConfig | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
) -> FitResult:
    """Learn a hierarchy from demonstrations at rest by Baum-Welch.

    Parameters
    ----------
    policy
        Where learning starts.
    demos
        The demonstrations; `o_0` is drawn afresh at the start of each episode.
    config
        Iterations, convergence, pseudo-counts.
    callback
        Called after every iteration; the fit stops when it returns True.

    Examples
    --------
    >>> demos = Demonstrations([0, 1, 2, 0, 1, 2], [1, 0, 1, 1, 0, 1])
    >>> result = fit(OptionPolicy.tabular(2, 3, 2), demos, BatchConfig(iterations=10))
    >>> bool(result.log_likelihoods[-1] > result.log_likelihoods[0])
    True
    """
    config = config or BatchConfig()
    _, _, steps = prepare(policy, demos)
    history, objectives, converged = [], [], False
    for iteration in range(config.iterations):
        statistics, log_likelihood = expected_counts(policy, steps, restarts=demos.num_episodes > 1)
        if not np.isfinite(log_likelihood):
            refuse_impossible(policy, demos)
        policy = maximise(statistics, policy, config.pseudo_count, config.learn_initial)
        history.append(log_likelihood)
        if config.track_objective:
            objectives.append(auxiliary_function(statistics, policy, demos.num_steps))
        if callback is not None and callback(Progress(iteration, log_likelihood, policy)):
            break
        converged = config.tolerance > 0 and _has_converged(history, config.tolerance * demos.num_steps)
        if converged:
            break
    tracked = np.array(objectives) if config.track_objective else None
    return FitResult(policy, np.array(history), converged, tracked)


def _has_converged(history: list[float], least_gain: float) -> bool:
    return len(history) > 1 and history[-1] - history[-2] < least_gain


def expected_counts(policy: OptionPolicy, steps: Chain, restarts: bool) -> tuple[TableStatistics, float]:
    """The E-step of laid-out data: expected counts and the log-likelihood."""
    model = policy.model
    with jax.enable_x64(True):
        base, cells, initial, log_likelihood = _expected_counts(
            model, policy.initial, steps, restarts=restarts
        )
    selection, stop, stay = np.split(np.asarray(base), 3, axis=1)
    by_action = np.asarray(cells).reshape(model.by_action.shape)
    return TableStatistics(selection, stop, stay, by_action, np.asarray(initial)), float(log_likelihood)


@partial(jax.jit, static_argnames="restarts")
def _expected_counts(model: TabularModel, mu: np.ndarray, steps: Chain, *, restarts: bool):
    """Counts by state `[S, 3 K]` and by state and action `[S A, K]`."""
    starts, padding = jnp.asarray(steps.starts), jnp.asarray(steps.padding)
    posteriors, log_likelihood = smooth(steps.potentials(model), jnp.asarray(mu), starts, restarts)
    rows = jnp.concatenate([posteriors.switches, posteriors.departs, posteriors.continues], 1)
    initial = jnp.sum(jnp.where(starts[:, None], posteriors.continues + posteriors.departs, 0.0), 0)
    states = jnp.where(padding, model.num_states, steps.observations)
    size = model.num_states * model.num_actions
    cells = jnp.asarray(steps.observations) * model.num_actions + steps.actions
    cells = jnp.where(padding | steps.missing, size, cells)
    base = jnp.zeros((model.num_states, rows.shape[1])).at[states].add(rows, mode="drop")
    by_cell = jnp.zeros((size, model.num_options)).at[cells].add(posteriors.options, mode="drop")
    return base, by_cell, initial, log_likelihood
