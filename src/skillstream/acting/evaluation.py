"""How well a policy does in a world: returns, lengths, and which option ran for how long."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from skillstream.acting.agent import Agent
from skillstream.policies.checks import check_whole

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy


class Predictor(Protocol):
    """What acts: an `Agent`, an expert, or a Stable-Baselines3 model."""

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> Any:
        """Actions, and the state to be handed in next time."""
        ...


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What became of some episodes."""

    returns: Float[np.ndarray, "episodes"]
    lengths: Int[np.ndarray, "episodes"]
    usage: Float[np.ndarray, "K"] | None  # share of steps each option ran
    durations: Float[np.ndarray, "K"] | None  # mean steps of an uninterrupted run of each option

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the return from episode to episode."""
        return float(self.returns.std())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean return, by resampling episodes 10,000 times."""
        rng = np.random.default_rng(0)
        rows = rng.integers(0, len(self.returns), (10_000, len(self.returns)))
        low, high = np.quantile(self.returns[rows].mean(1), [0.025, 0.975])
        return float(low), float(high)

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Evaluation({len(self.returns)} episodes, return {self.mean:.2f} ± {self.std:.2f}, "
            f"95 % interval of the mean {low:.2f} to {high:.2f})"
        )


class _Step(NamedTuple):
    counts: Bool[np.ndarray, "n"]  # False where a world was only reset
    rewards: Float[np.ndarray, "n"]
    ended: Bool[np.ndarray, "n"]
    options: Int[np.ndarray, "n"] | None


def evaluate(
    policy: "OptionPolicy | Predictor",
    env: Any,
    episodes: int = 100,
    seed: int = 0,
    *,
    deterministic: bool = False,
    parallel: int | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Evaluation:
    """Let a policy act in a world for some episodes.

    Parameters
    ----------
    policy
        A policy with options, an `Agent`, an expert, or anything with Stable-Baselines3's `predict`.
    env
        A task's short name (`grid-world`, `cart-pole`, ..), any Gymnasium id, or a function that makes
        the environment.
    episodes, seed
        How many, and what gives the same ones twice.
    deterministic
        Whether to take the most probable option and action instead of drawing them.
    parallel
        Worlds to run side by side. Default: up to 100. Each runs its share of the episodes, so that short
        ones do not count more than long ones.
    progress
        Called after every step with the number of episodes that are over.
    settings
        For the environment, such as `observation="index"`.
    """
    from skillstream.environments.catalogue import make_vector

    check_whole("episodes", episodes, 1)
    check_whole("seed", seed, 0)
    side_by_side = 100 if parallel is None else parallel
    check_whole("parallel", side_by_side, 1)
    worlds = make_vector(env, min(side_by_side, episodes), **settings)
    try:
        actor = actor_for(policy, seed, worlds)
        count = worlds.num_envs
        quota = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        tally = _Tally(quota, getattr(actor, "num_options", None))
        for step in _run(actor, worlds, seed, deterministic):
            over = tally.add(step)
            if progress is not None:
                progress(len(tally.finished))
            if over:
                break
    finally:
        worlds.close()
    return tally.result()


def actor_for(policy: Any, seed: int, env: Any) -> Any:
    """Who acts: an agent of the policy, or `policy` itself, its draws begun anew if it draws."""
    if not hasattr(policy, "predict"):
        return Agent(policy, seed, env)
    if hasattr(policy, "num_options") and hasattr(policy, "reset"):
        policy.reset(seed)
    return policy


def _run(actor: Any, worlds: Any, seed: int, deterministic: bool) -> Iterator[_Step]:
    """Steps of all worlds, without end; the step after an episode's last only resets its world."""
    observations, _ = worlds.reset(seed=seed)
    state, ended = None, np.zeros(worlds.num_envs, bool)
    starts = ~ended
    knows = hasattr(actor, "num_options")
    while True:
        actions, state = actor.predict(observations, state, starts, deterministic)
        observations, rewards, terminated, truncated, _ = worlds.step(actions)
        starts, ended = ended, terminated | truncated
        yield _Step(~starts, np.asarray(rewards, float), ended, state if knows else None)


class _Tally:
    """Returns, lengths and options of the episodes that count."""

    def __init__(self, quota: Int[np.ndarray, "n"], num_options: int | None):
        self.left = quota.copy()
        self.sums, self.steps = np.zeros(len(quota)), np.zeros(len(quota), int)
        self.finished: list[tuple[int, int, float, int]] = []  # world, place in it, return, length
        self.running = np.full(len(quota), -1)
        self.used, self.runs = (np.zeros(num_options or 1, int) for _ in range(2))
        self.knows_options = num_options is not None

    def add(self, step: _Step) -> bool:
        """Count a step; whether all episodes are over."""
        counted = step.counts & (self.left > 0)
        self.sums += np.where(counted, step.rewards, 0.0)
        self.steps += counted
        if step.options is not None:
            np.add.at(self.used, step.options[counted], 1)
            np.add.at(self.runs, step.options[counted & (step.options != self.running)], 1)
            self.running = np.where(step.ended | ~step.counts, -1, step.options)
        for world in np.flatnonzero(counted & step.ended):
            self.finished.append((int(world), -self.left[world], self.sums[world], self.steps[world]))
            self.left[world] -= 1
            self.sums[world], self.steps[world] = 0.0, 0
        return not self.left.any()

    def result(self) -> Evaluation:
        """What was counted, world by world."""
        rows = sorted(self.finished)
        usage = self.used / self.used.sum() if self.knows_options else None
        durations = self.used / np.maximum(self.runs, 1) if self.knows_options else None
        return Evaluation(
            np.array([row[2] for row in rows]), np.array([row[3] for row in rows]), usage, durations
        )
