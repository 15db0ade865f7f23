"""Demonstrations from an expert at work."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.acting.evaluation import Predictor, actor_for
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.spaces import flatten_actions, flatten_observations
from skillstream.errors import InputError
from skillstream.policies.checks import check_whole

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy


def collect(
    expert: "OptionPolicy | Predictor",
    env: Any,
    steps: int | None = None,
    episodes: int | None = None,
    seed: int = 0,
    *,
    deterministic: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Demonstrations:
    """Record what an expert sees and does, episode after episode.

    Parameters
    ----------
    expert
        A policy with options, an expert of `skillstream.experts`, or anything with Stable-Baselines3's
        `predict`. One that knows its options has them recorded as `true_options`.
    env
        A task's short name, any Gymnasium id, or an environment.
    steps, episodes
        How much to record: one of the two. The last episode is cut where the steps run out.
    seed
        Gives the same demonstrations twice.
    deterministic
        Whether the expert takes its most probable actions instead of drawing them.
    progress
        Called after every step with the number of steps or episodes recorded so far.
    """
    from skillstream.environments.catalogue import make_env

    if (steps is None) == (episodes is None):
        raise InputError(f"steps, episodes: give one of the two, found {steps!r} and {episodes!r}")
    name, amount = ("steps", steps) if episodes is None else ("episodes", episodes)
    check_whole(name, amount, 1)
    check_whole("seed", seed, 0)
    world = make_env(env)
    actor = actor_for(expert, seed, world)
    knows = hasattr(actor, "num_options")
    seen, done, rewards, options, lengths = [], [], [], [], [0]
    observation, _ = world.reset(seed=seed)
    state, start = None, np.ones(1, bool)
    while True:
        batch = _batch_of_one(observation)
        actions, state = actor.predict(batch, state, start, deterministic)
        seen.append(observation)
        done.append(actions[0])
        observation, reward, terminated, truncated, _ = world.step(actions[0])
        rewards.append(reward)
        options.append(state[0] if knows else 0)
        lengths[-1] += 1
        start = np.array([terminated or truncated])
        finished = len(seen) if episodes is None else len(lengths) - 1 + int(start[0])
        if progress is not None:
            progress(finished)
        if finished >= int(amount or 0):
            break
        if start[0]:
            observation, _ = world.reset()
            lengths.append(0)
    return Demonstrations(
        flatten_observations(world.observation_space, seen),
        flatten_actions(world.action_space, done),
        lengths,
        rewards=rewards,
        true_options=options if knows else None,
    )


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: _batch_of_one(part) for key, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]
