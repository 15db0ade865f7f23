"""The tabular E-step and M-step in closed form: expected counts, normalised."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from skillstream.inference.smoothing import smooth
from skillstream.policies.chains import Chain
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.tabular import TabularModel


@dataclass(frozen=True, eq=False)
class TableStatistics:
    """Expected counts, the sums of phi that Q needs (the paper's eq. Q_online_BW_Final)."""

    selection: Float[np.ndarray, "S K"]  # sum of P(o_t, b_t = 1)
    stop: Float[np.ndarray, "S K"]  # sum of P(o_{t-1}, b_t = 1)
    stay: Float[np.ndarray, "S K"]  # sum of P(o_{t-1}, b_t = 0)
    by_action: Float[np.ndarray, "S A K"]  # sum of P(o_t), where a_t was recorded
    initial: Float[np.ndarray, "K"]  # sum of P(o_0) over episodes

    def counts(self) -> dict[str, np.ndarray]:
        """The counts in the layout of a policy's tables."""
        return {
            "selection": self.selection,
            "action": np.ascontiguousarray(self.by_action.transpose(0, 2, 1)),
            "termination": np.stack([self.stay, self.stop], -1),
            "initial": self.initial,
        }


def expected_counts(policy: OptionPolicy, steps: Chain, restarts: bool) -> tuple[TableStatistics, float]:
    """The E-step of laid-out data: expected counts and the log-likelihood."""
    model = policy.model
    assert isinstance(model, TabularModel)
    with jax.enable_x64(True):
        base, cells, initial, log_likelihood = _expected_counts(
            model, policy.initial, steps, restarts=restarts
        )
    selection, stop, stay = np.split(np.asarray(base), 3, axis=1)
    by_action = np.asarray(cells).reshape(model.by_action.shape)
    return TableStatistics(selection, stop, stay, by_action, np.asarray(initial)), float(log_likelihood)


@partial(jax.jit, static_argnames="restarts")
def _expected_counts(model: TabularModel, mu: Float[Array, "K"], steps: Chain, *, restarts: bool):
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


def maximise(
    statistics: TableStatistics, old: OptionPolicy, pseudo_count: float = 0.0, learn_initial: bool = False
) -> OptionPolicy:
    """The policy that maximises Q. A row that the data say nothing about keeps its old value."""
    model = old.model
    assert isinstance(model, TabularModel)
    ends = normalise(
        np.stack([statistics.stay, statistics.stop]), np.stack([model.stay, model.stop]), 0, pseudo_count
    )
    new = TabularModel(
        selection=normalise(statistics.selection, model.selection, 1, pseudo_count),
        by_action=normalise(statistics.by_action, model.by_action, 1, pseudo_count),
        stop=ends[1],
        stay=ends[0],
    )
    initial = normalise(statistics.initial, old.initial, 0, pseudo_count) if learn_initial else old.initial
    return OptionPolicy(new, initial)


def auxiliary_function(statistics: TableStatistics, policy: OptionPolicy, num_steps: int) -> float:
    """Baum's auxiliary function Q(policy | statistics), eq. Q_BW_opt_final with the first step included.

    It is -inf for a policy that rules out what the statistics hold.
    """
    model = policy.model
    assert isinstance(model, TabularModel)
    pairs = (
        (statistics.selection, model.selection),
        (statistics.stop, model.stop),
        (statistics.stay, model.stay),
        (statistics.by_action, model.by_action),
    )
    return sum(_cross(counts, probabilities) for counts, probabilities in pairs) / num_steps


def normalise(counts: np.ndarray, old: np.ndarray, axis: int, pseudo_count: float) -> np.ndarray:
    """Counts as distributions along `axis`; where there are none, the old ones."""
    mass = counts.sum(axis, keepdims=True)
    total = np.where(mass > 0, mass + pseudo_count * counts.shape[axis], 1.0)
    return np.where(mass > 0, (counts + pseudo_count) / total, old)


def _cross(counts: np.ndarray, probabilities: np.ndarray) -> float:
    held = counts > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(counts[held] * np.log(probabilities[held])))
