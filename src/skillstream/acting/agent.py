"""The learnt hierarchy at work: it keeps its option from step to step, and says which one runs."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from skillstream.acting.rules import Rules, rules_from, sample
from skillstream.demonstrations.spaces import flatten_observations, unflatten_actions
from skillstream.errors import FileFormatError, InputError
from skillstream.files import check_names, load_arrays
from skillstream.policies.checks import check_distribution, check_whole
from skillstream.policies.layout import VERSION, check_arrays, layout_of

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy

# Gymnasium draws from the generator of the seed itself; an agent of the same seed must not draw the same.
_STREAM = 0x0A6E27


class Agent:
    """Acts by a policy: stops an option, selects the next, lets it act.

    `act` is for one world, `predict` for one or many, as Stable-Baselines3 calls its recurrent
    policies. Both draw from the same generator. Everything is NumPy but policies of a class of your own.

    Parameters
    ----------
    policy
        The hierarchy.
    seed
        Gives the same actions twice.
    env
        A Gymnasium environment (or vector of them) whose spaces say how to read observations (nested
        ones are flattened) and what actions should look like. Default: observations and actions as
        the policy was taught them.

    Examples
    --------
    >>> import skillstream as ss
    >>> agent = Agent(ss.OptionPolicy.tabular(num_options=2, num_states=3, num_actions=2), seed=1)
    >>> [agent.act(state) for state in (0, 1, 2, 1)]
    [0, 0, 1, 0]
    >>> agent.option, agent.steps_in_option
    (0, 4)
    """

    def __init__(self, policy: "OptionPolicy", seed: int = 0, env: Any = None):
        self._begin(_rules_of(policy), np.asarray(policy.initial), seed, env)

    @classmethod
    def load(cls, path: str | os.PathLike[str], seed: int = 0, env: Any = None) -> "Agent":
        """An agent from a file that `OptionPolicy.save` wrote, on machines without JAX too."""
        where = str(path)
        arrays, header = load_arrays(path, "policy", VERSION)
        layout = layout_of(where, header)
        if layout is not None:
            check_names(where, "policy", arrays, layout)
            check_arrays(where, arrays, layout)
        try:
            rules = rules_from(where, arrays, header)
            initial = check_distribution("initial", arrays["initial"], (rules.num_options,))
        except InputError as error:
            raise FileFormatError(f"{where}: damaged: {error}") from error
        agent = cls.__new__(cls)
        agent._begin(rules, initial, seed, env)
        return agent

    def _begin(self, rules: Rules, initial: np.ndarray, seed: int, env: Any) -> None:
        self._rules, self._initial = rules, np.asarray(initial)[None]
        self._spaces = None if env is None else _spaces_of(env)
        check_whole("seed", seed, 0)
        most = getattr(self._spaces[1], "n", None) if self._spaces else None
        if rules.num_actions is not None and most is not None and rules.num_actions > most:
            raise InputError(f"policy: has {rules.num_actions} actions, but the world only {most}")
        self.reset(seed)

    @property
    def num_options(self) -> int:
        """How many options there are, `K`."""
        return self._rules.num_options

    def __repr__(self) -> str:
        return f"Agent({self.num_options} options, now {self.option} for {self.steps_in_option} steps)"

    @property
    def option(self) -> int | None:
        """The option that runs in the world of `act`; None before the first step of an episode."""
        return None if self._option is None else int(self._option[0])

    @property
    def steps_in_option(self) -> int:
        """Steps that option has run since it was last selected (or since the episode began)."""
        return self._steps

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode: the next step of `act` draws o_0 afresh. With a seed, begin anew entirely."""
        if seed is not None:
            check_whole("seed", seed, 0)
            self._rng = np.random.default_rng([_STREAM, seed])
        self._option: np.ndarray | None = None
        self._steps = 0

    def act(self, observation: Any, deterministic: bool = False) -> Any:
        """The next action in one world: a number or a row, as the policy was taught them."""
        batch = self._read(observation, many=False)
        actions, options, stopped = self._step(batch, self._option, None, deterministic)
        self._steps = 1 if stopped[0] else self._steps + 1
        self._option = options
        action = self._write(actions)[0]
        return action if np.ndim(action) else action.item()

    def predict(
        self,
        observation: Any,
        state: Int[np.ndarray, "n"] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
        """Actions for one or many worlds, and the options that take them, to be handed in next time.

        Parameters
        ----------
        observation
            One observation, or one a world along a first axis.
        state
            What the last call returned; None where all episodes begin.
        episode_start
            Booleans `[n]`: where an episode begins, so that the option before it does not count.
        deterministic
            Whether to take the most probable option and action instead of drawing them.
        """
        many = self._is_many(observation)
        batch = self._read(observation, many)
        self._check_rest(len(batch), state, episode_start)
        actions, options, _ = self._step(batch, state, episode_start, deterministic)
        actions = self._write(actions)
        return (actions if many else actions[0]), options

    def _check_rest(self, count: int, state: Any, episode_start: Any) -> None:
        if count == 0:
            raise InputError("observation: there is none in it")
        if state is not None:
            if np.shape(state) != (count,):
                raise InputError(f"state: must hold {count} options, found the shape {np.shape(state)}")
            if np.min(state) < 0 or np.max(state) >= self.num_options:
                raise InputError(f"state: options are 0 to {self.num_options - 1}, found {np.asarray(state)}")
        if episode_start is not None and np.shape(episode_start) != (count,):
            found = np.shape(episode_start)
            raise InputError(f"episode_start: must hold {count} booleans, found the shape {found}")

    def _step(self, observations, before, starts, deterministic):
        """One step of every world: actions, options, and where an option was selected anew."""
        rules, count = self._rules, len(observations)
        inputs = rules.prepare(observations)
        start, stop, select = self._rng.random((3, count))
        if before is None:
            before = sample(np.broadcast_to(self._initial, (count, self.num_options)), start)
        elif starts is not None and np.any(starts):
            fresh = sample(np.broadcast_to(self._initial, (count, self.num_options)), start)
            before = np.where(starts, fresh, before)
        ends = rules.stop(inputs, before)
        if deterministic:
            options = _most_probable(ends, rules.select(inputs), before)
            stopped = options != before
        else:
            stopped = stop < ends
            options = before
            if stopped.any():
                options = np.where(stopped, sample(rules.select(inputs), select), before)
        action = rules.act(inputs, options)
        return (action.best() if deterministic else action.draw(self._rng)), options, stopped

    def _is_many(self, observation: Any) -> bool:
        """Whether there is an axis of worlds."""
        if self._spaces is None:
            shape = self._rules.feature_shape
            if shape is None:  # a class of a user's own: numbers of states, or rows of floats
                shape = () if np.asarray(observation).dtype.kind in "iu" else (None,)
            return np.ndim(observation) > len(shape)
        shape, part = self._spaces[0].shape, observation
        if shape is None:  # of a Dict or a Tuple: look at its first part
            space = self._spaces[0]
            while space.shape is None:
                key = next(iter(space.spaces)) if hasattr(space.spaces, "keys") else 0
                space, part = space[key], part[key]
            shape = space.shape
        return np.ndim(part) > len(shape)

    def _read(self, observation: Any, many: bool) -> np.ndarray:
        """Observations as the policy was taught them, one a row."""
        if self._spaces is None:
            batch = np.asarray(observation) if many else np.asarray(observation)[None]
        else:
            space = self._spaces[0]
            batch = flatten_observations(space, observation if many else _alone(space, observation))
        wanted = self._rules.feature_shape
        if wanted is not None and batch.shape[1:] != wanted:
            raise InputError(f"observation: must have the shape {wanted}, found {batch.shape[1:]}")
        return batch

    def _write(self, actions: np.ndarray) -> np.ndarray:
        return actions if self._spaces is None else unflatten_actions(self._spaces[1], actions)


def _most_probable(
    ends: Float[np.ndarray, "n"], selection: Float[np.ndarray, "n K"], before: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """The most probable of (1 - beta) 1[o = o'] + beta pi_hi(o)."""
    chance = ends[:, None] * selection
    chance[np.arange(len(before)), before] += 1 - ends
    return chance.argmax(1)


def _rules_of(policy: "OptionPolicy") -> Rules:
    from skillstream.policies.policy import OptionPolicy
    from skillstream.policies.storage import KINDS, pack
    from skillstream.policies.tabular import TabularModel

    if not isinstance(policy, OptionPolicy):
        raise InputError(f"policy: must be an OptionPolicy, found {type(policy).__name__}")
    if isinstance(policy.model, TabularModel) or type(policy.model) in KINDS.values():
        return rules_from("policy", *pack(policy))
    from skillstream.acting.compiled import CompiledRules

    return CompiledRules(policy.model)


def _spaces_of(env: Any) -> tuple[Any, Any]:
    """Observation and action space of one world of `env`."""
    return (
        getattr(env, "single_observation_space", env.observation_space),
        getattr(env, "single_action_space", env.action_space),
    )


def _alone(space: Any, observation: Any) -> Any:
    """One observation as a batch of one, part by part."""
    if hasattr(space, "spaces") and hasattr(space.spaces, "items"):
        return {key: _alone(part, observation[key]) for key, part in space.spaces.items()}
    if hasattr(space, "spaces"):
        return tuple(_alone(part, value) for part, value in zip(space.spaces, observation, strict=True))
    return np.asarray(observation)[None]
