"""Wrappers that make continuous worlds finite: levels of actions, bins of observations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from skillstream.errors import InputError


class DiscreteActions(gymnasium.ActionWrapper, gymnasium.utils.RecordConstructorArgs):
    """A finite choice among actions of a continuous environment.

    Parameters
    ----------
    env
        An environment whose actions are a `Box`.
    actions
        The actions to choose from, `[A, ...]`, each of the shape of the `Box`.
    """

    def __init__(self, env: gymnasium.Env, actions: ArrayLike):
        gymnasium.utils.RecordConstructorArgs.__init__(self, actions=np.asarray(actions).tolist())
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, spaces.Box):
            raise InputError(f"env: its actions must be a Box to choose levels of, found {space}")
        self.actions = np.array(actions, space.dtype)
        if self.actions.shape[1:] != space.shape or len(self.actions) == 0:
            raise InputError(f"actions: must have the shape [A, {space.shape}], found {self.actions.shape}")
        outside = [action.tolist() for action in self.actions if not space.contains(action)]
        if outside:
            raise InputError(f"actions: {outside[0]} is not in the environment's {space}")
        self.action_space = spaces.Discrete(len(self.actions))

    def action(self, action: Any) -> np.ndarray:
        """The continuous action that a number stands for."""
        return self.actions[action]


class DiscreteTorques(DiscreteActions):
    """A single continuous action cut to levels, evenly spaced from its lowest to its highest value."""

    def __init__(self, env: gymnasium.Env, levels: int = 5):
        gymnasium.utils.RecordConstructorArgs.__init__(self, levels=levels)
        space = env.action_space
        if not isinstance(space, spaces.Box) or space.shape != (1,):
            raise InputError(f"env: needs a single continuous action, found {space}")
        if levels < 2:
            raise InputError(f"levels: must be at least 2, found {levels}")
        super().__init__(env, np.linspace(space.low, space.high, levels))


@dataclass(frozen=True, eq=False)
class Bins:
    """Numbers for the boxes into which thresholds cut a continuous space.

    `thresholds` holds one rising sequence a coordinate; `n` thresholds make `n + 1` bins, and a value
    on a threshold falls above it. `features` turns observations `[..., E]` into the coordinates that are
    cut, if they are not the observations themselves (angles instead of their sines, say).

    Examples
    --------
    >>> bins = Bins([[0.0], [-1.0, 1.0]])
    >>> bins.num_states, bins.encode([[-0.5, 0.0], [0.5, 2.0]]).tolist()
    (6, [1, 5])
    """

    thresholds: Sequence[ArrayLike]
    features: Callable[[np.ndarray], np.ndarray] | None = None

    def __post_init__(self) -> None:
        for coordinate, values in enumerate(self.thresholds):
            if np.ndim(values) != 1 or (np.diff(np.asarray(values)) <= 0).any():
                raise InputError(
                    f"thresholds: coordinate {coordinate} must have a rising list, found {values}"
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins a coordinate."""
        return tuple(np.size(values) + 1 for values in self.thresholds)

    @property
    def num_states(self) -> int:
        """How many boxes there are."""
        return int(np.prod(self.sizes))

    def encode(self, observations: ArrayLike) -> np.ndarray:
        """Observations `[..., D]` as whole numbers `[...]`."""
        values = np.asarray(observations)
        if self.features is not None:
            values = self.features(values)
        if values.ndim == 0 or values.shape[-1] != len(self.sizes):
            raise InputError(
                f"observations: must have {len(self.sizes)} numbers each, found the shape {values.shape}"
            )
        places = [
            np.searchsorted(np.asarray(thresholds), values[..., coordinate], side="right")
            for coordinate, thresholds in enumerate(self.thresholds)
        ]
        return np.ravel_multi_index(tuple(places), self.sizes)


class BinnedObservations(gymnasium.ObservationWrapper, gymnasium.utils.RecordConstructorArgs):
    """An environment with continuous observations, seen through `Bins`."""

    def __init__(self, env: gymnasium.Env, bins: Bins):
        gymnasium.utils.RecordConstructorArgs.__init__(self, bins=bins)
        super().__init__(env)
        if not isinstance(env.observation_space, spaces.Box):
            raise InputError(f"env: its observations must be a Box, found {env.observation_space}")
        if bins.features is None and env.observation_space.shape != (len(bins.sizes),):
            raise InputError(
                f"bins: are for {len(bins.sizes)} coordinates, the environment has the shape "
                f"{env.observation_space.shape}"
            )
        self.bins = bins
        self.observation_space = spaces.Discrete(bins.num_states)

    def observation(self, observation: Any) -> int:
        """The number of the box that the observation lies in."""
        return int(self.bins.encode(observation))
