"""Value iteration: the best way to act in a world whose transitions are known."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from skillstream.errors import InputError
from skillstream.policies.checks import check_distribution

_TIE = 1e-7


@dataclass(frozen=True, eq=False)
class Solution:
    """What value iteration found.

    Attributes
    ----------
    values
        The best expected return from each state, `[S]`.
    action_values
        The same after taking each action first, `[S, A]`.
    sweeps
        How many times all states were updated.
    """

    values: np.ndarray
    action_values: np.ndarray
    sweeps: int

    def policy(self) -> np.ndarray:
        """A best policy, `[S, A]`, that shares its probability among actions that are equally good."""
        return share_among_best(self.action_values)


def share_among_best(action_values: Float[np.ndarray, "... A"]) -> Float[np.ndarray, "... A"]:
    """Probability one, shared by the best actions, those within rounding of the best included."""
    best = action_values >= action_values.max(-1, keepdims=True) - _TIE
    return best / best.sum(-1, keepdims=True)


def value_iteration(
    transitions: Float[np.ndarray, "S A S"],
    rewards: Float[np.ndarray, "S A"],
    discount: float = 0.99,
    tolerance: float = 1e-9,
    max_sweeps: int = 100_000,
) -> Solution:
    """Solve a Markov decision process for ever after.

    Parameters
    ----------
    transitions
        P(s' | s, a).
    rewards
        The expected reward of taking `a` in `s`.
    discount
        What a reward one step later is worth; 1 where every good policy reaches states that stay and pay 0.
    tolerance
        Stop when no value changes by more than this in a sweep.
    max_sweeps
        Give up with an error after so many sweeps.

    Examples
    --------
    >>> walk = np.zeros((2, 2, 2))
    >>> walk[0, 0, 0] = walk[0, 1, 1] = walk[1, :, 1] = 1
    >>> value_iteration(walk, np.array([[-1.0, -3.0], [0.0, 0.0]]), discount=1.0).values
    array([-3.,  0.])
    """
    transitions, rewards = _checked(transitions, rewards, discount)
    values, change = np.zeros(len(rewards)), np.inf
    for sweep in range(1, max_sweeps + 1):
        action_values = rewards + discount * (transitions @ values)
        before, values = values, action_values.max(1)
        change = np.abs(values - before).max()
        if change <= tolerance:
            return Solution(values, action_values, sweep)
    raise InputError(
        f"discount: with {discount} the values still changed by {change:.2g} after "
        f"{max_sweeps} sweeps; lower it, or allow a larger tolerance"
    )


def _checked(transitions: np.ndarray, rewards: np.ndarray, discount: float) -> tuple[np.ndarray, np.ndarray]:
    rewards = np.asarray(rewards, float)
    if rewards.ndim != 2 or not np.isfinite(rewards).all():
        raise InputError(f"rewards: must be finite numbers [S, A], found the shape {rewards.shape}")
    if not 0 <= discount <= 1:
        raise InputError(f"discount: must be from 0 to 1, found {discount}")
    states, actions = rewards.shape
    return check_distribution("transitions", transitions, (states, actions, states)), rewards
