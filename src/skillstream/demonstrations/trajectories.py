"""Trajectories as the `imitation` library holds them: one observation more than actions."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import Columns, Piece, in_steps_of, join, numbers, one_episode
from skillstream.errors import InputError


def from_trajectories(trajectories: Iterable[Any]) -> Demonstrations:
    """The data set of objects with `obs`, `acts` and perhaps `rews`."""
    return join("trajectories", _pieces(trajectories))


def without_last(place: str, obs: np.ndarray, acts: np.ndarray, rews: np.ndarray | None) -> Columns:
    """The columns of a trajectory: each action beside the observation that came before it."""
    if len(obs) != len(acts) + 1:
        raise InputError(
            f"{place}: obs must hold one observation more than acts; found {len(obs)} and {len(acts)}"
        )
    columns = {"observations": obs[:-1], "actions": acts}
    if rews is not None:
        if len(rews) != len(acts):
            raise InputError(f"{place}: rews must hold one number an action; found {len(rews)}")
        columns["rewards"] = rews
    return columns


def _pieces(trajectories: Iterable[Any]) -> Iterator[Piece]:
    for index, trajectory in enumerate(trajectories):
        place = f"trajectory {index}"
        absent = [name for name in ("obs", "acts") if not hasattr(trajectory, name)]
        if absent:
            raise InputError(
                f"{place}: a {type(trajectory).__name__} without {absent[0]!r}; give obs and acts"
            )
        rews = getattr(trajectory, "rews", None)
        steps = in_steps_of(place)
        obs, acts = (numbers(name, steps, getattr(trajectory, name)) for name in ("obs", "acts"))
        rews = None if rews is None else numbers("rews", steps, rews)
        yield one_episode(without_last(place, obs, acts, rews), place)
