"""The tabular M-step in closed form: expected counts, normalised."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

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


def maximise(
    statistics: TableStatistics, old: OptionPolicy, pseudo_count: float = 0.0, learn_initial: bool = False
) -> OptionPolicy:
    """The policy that maximises Q. A row that the data say nothing about keeps its old value."""
    model = old.model
    ends = _normalise(
        np.stack([statistics.stay, statistics.stop]), np.stack([model.stay, model.stop]), 0, pseudo_count
    )
    new = TabularModel(
        selection=_normalise(statistics.selection, model.selection, 1, pseudo_count),
        by_action=_normalise(statistics.by_action, model.by_action, 1, pseudo_count),
        stop=ends[1],
        stay=ends[0],
    )
    initial = _normalise(statistics.initial, old.initial, 0, pseudo_count) if learn_initial else old.initial
    return OptionPolicy(new, initial)


def auxiliary_function(statistics: TableStatistics, policy: OptionPolicy, num_steps: int) -> float:
    """Baum's auxiliary function Q(policy | statistics), eq. Q_BW_opt_final with the first step included.

    It is -inf for a policy that rules out what the statistics hold.
    """
    model = policy.model
    pairs = (
        (statistics.selection, model.selection),
        (statistics.stop, model.stop),
        (statistics.stay, model.stay),
        (statistics.by_action, model.by_action),
    )
    return sum(_cross(counts, probabilities) for counts, probabilities in pairs) / num_steps


def _normalise(counts: np.ndarray, old: np.ndarray, axis: int, pseudo_count: float) -> np.ndarray:
    mass = counts.sum(axis, keepdims=True)
    total = np.where(mass > 0, mass + pseudo_count * counts.shape[axis], 1.0)
    return np.where(mass > 0, (counts + pseudo_count) / total, old)


def _cross(counts: np.ndarray, probabilities: np.ndarray) -> float:
    held = counts > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(counts[held] * np.log(probabilities[held])))
