"""A policy to start from that suits demonstrations, and the world they came from if it is known."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skillstream.errors import InputError

if TYPE_CHECKING:
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.policies.policy import OptionPolicy

_MANY_STATES = 10_000
Kind = Literal["auto", "tabular", "neural"]


def first_policy(
    demos: "Demonstrations",
    options: int,
    kind: Kind,
    standardise: bool,
    seed: int,
    world: Any = None,
    least_states: int = 0,
    least_actions: int = 0,
) -> "OptionPolicy":
    """Tables for discrete observations, networks for continuous ones; sizes from the world, or the data."""
    if options < 1:
        raise InputError(f"--options: must be at least 1, found {options}")
    from skillstream.policies.policy import OptionPolicy

    discrete = demos.observations.ndim == 1
    if kind == "auto":
        kind = "tabular" if discrete else "neural"
    if kind == "tabular" and not discrete:
        raise InputError(
            "--policy: tables need discrete observations, and these are continuous; use --policy neural, or "
            "collect with a discretised observation"
        )
    if kind == "neural" and discrete:
        raise InputError(
            "--policy: networks need continuous observations, and these are discrete; use tabular"
        )
    actions = _actions(demos, None if world is None else world.action_space, least_actions)
    if kind == "tabular":
        known = 0 if world is None else int(getattr(world.observation_space, "n", 0))
        states = max(int(demos.observations.max()) + 1, known, least_states)
        if states > max(_MANY_STATES, 10 * demos.num_steps):
            raise InputError(
                f"--policy: observations go up to {states - 1} in {demos.num_steps} steps; tables need "
                "states that are numbered without gaps, so number them anew"
            )
        if isinstance(actions, tuple):
            raise InputError("--policy: tables take one action a step, and these have several; use neural")
        return OptionPolicy.tabular(options, states, actions, seed, standardise=demos)
    return OptionPolicy.neural(
        options, demos.observations.shape[1], actions, seed, standardise=demos if standardise else None
    )


def _actions(demos: "Demonstrations", space: Any, least: int) -> Any:
    from skillstream.policies.shape import GaussianActions

    if demos.actions.dtype.kind == "f":
        return GaussianActions(demos.actions.shape[1])
    if demos.actions.ndim == 1:
        return max(int(demos.actions.max()) + 1, int(getattr(space, "n", 0)), least)
    sizes = demos.actions.max(0) + 1
    known = np.ravel(getattr(space, "nvec", sizes))
    return tuple(int(size) for size in np.maximum(sizes, known))
