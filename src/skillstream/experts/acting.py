"""Experts that act: greedy tables, rules of thumb, and hierarchies whose options are known."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skillstream.acting.agent import Agent
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.environments.rules import GridRules
from skillstream.errors import InputError
from skillstream.policies.policy import OptionPolicy


class FlatExpert:
    """An expert without options, the same action for the same observation.

    Attributes
    ----------
    name
        The task it knows.
    expected_return
        Its mean return, over 1000 episodes.
    """

    def __init__(
        self, name: str, choose: Callable[[np.ndarray], np.ndarray], size: int, expected_return: float
    ):
        self.name, self.expected_return = name, expected_return
        self._choose, self._size = choose, size

    def predict(
        self,
        observation: Any,
        state: None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, None]:
        """Actions for one observation or one a world along a first axis; there is no state."""
        batch = np.asarray(observation)
        if batch.ndim not in (1, 2) or batch.shape[-1] != self._size:
            raise InputError(
                f"observation: the {self.name} expert reads {self._size} numbers a world, found the shape "
                f"{batch.shape}"
            )
        actions = self._choose(np.atleast_2d(batch))
        return (actions if batch.ndim == 2 else actions[0]), None

    def __repr__(self) -> str:
        return f"FlatExpert({self.name}, mean return {self.expected_return:.2f})"


class HierarchicalExpert:
    """An expert whose options are known: `predict` gives back the options that act.

    Attributes
    ----------
    name
        The task it knows.
    policy
        The hierarchy, on the numbers of observations.
    num_options
        How many options it has.
    expected_return
        Its exact mean return.
    """

    def __init__(self, name: str, policy: OptionPolicy, rules: GridRules, expected_return: float, seed: int):
        self.name, self.policy, self.expected_return = name, policy, expected_return
        self.num_options = policy.num_options
        self._rules, self._agent = rules, Agent(policy, seed)

    def encode(self, observations: Any) -> np.ndarray:
        """Floats are coordinates and become the numbers that the policy reads; integers stay as they are."""
        values = np.asarray(observations)
        return values if values.dtype.kind in "iu" else self._rules.encode(values)

    def predict(
        self,
        observation: Any,
        state: np.ndarray | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions, and the options that take them, to be handed in next time."""
        return self._agent.predict(self.encode(observation), state, episode_start, deterministic)

    def numbered(self, demos: Demonstrations) -> Demonstrations:
        """The same demonstrations with the numbers of observations, as the policy reads them."""
        return Demonstrations(
            self.encode(demos.observations),
            demos.actions,
            demos.episode_lengths,
            demos.rewards,
            demos.action_mask,
            demos.true_options,
        )

    def reset(self, seed: int) -> None:
        """Begin the random numbers anew."""
        self._agent.reset(seed)

    def __repr__(self) -> str:
        return (
            f"HierarchicalExpert({self.name}, {self.num_options} options, return {self.expected_return:.2f})"
        )
