"""What a policy says of demonstrations: smoothing, decoding, sampling and prediction, NumPy in and out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import ImpossibleDataError, InputError
from skillstream.inference import decoding, sampling, smoothing
from skillstream.policies.chains import Chain, chain
from skillstream.policies.checks import check_whole
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.protocol import PolicyModel


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Posteriors over the hidden options, one row a demonstration step."""

    log_likelihood: float
    options: Float[np.ndarray, "T K"]  # P(o_t | data)
    switches: Float[np.ndarray, "T K"]  # P(o_t, b_t = 1 | data)
    _continues: Float[np.ndarray, "T K"]
    _departs: Float[np.ndarray, "T K"]

    @cached_property
    def departures(self) -> Float[np.ndarray, "T K 2"]:
        """P(o_{t-1}, b_t | data): the option before the step, going on (0) or stopping (1)."""
        return np.stack([self._continues, self._departs], -1)


@dataclass(frozen=True, eq=False)
class Path:
    """The most probable path of options and terminations."""

    options: Int[np.ndarray, "T"]
    terminations: Int[np.ndarray, "T"]
    log_probability: float


@dataclass(frozen=True, eq=False)
class PathSamples:
    """Paths drawn from the posterior."""

    options: Int[np.ndarray, "N T"]
    terminations: Int[np.ndarray, "N T"]


def smooth(policy: OptionPolicy, demos: Demonstrations, lag: int | None = None) -> Smoothing:
    """The posterior of every step's option and switch (the paper's forward-backward smoothing).

    Parameters
    ----------
    policy
        The hierarchy to read the demonstrations with.
    demos
        The demonstrations.
    lag
        How far each step may look ahead: None is the whole episode, 0 the causal filter, `n` the
        data up to `n` steps later.

    Examples
    --------
    >>> policy = OptionPolicy.tabular(num_options=2, num_states=3, num_actions=2)
    >>> smooth(policy, Demonstrations([0, 1, 2, 0], [1, 0, 0, 1])).options.sum(axis=1).round(6)
    array([1., 1., 1., 1.])
    """
    if lag is not None and (isinstance(lag, bool) or not isinstance(lag, int | np.integer) or lag < 0):
        raise InputError(f"lag: must be None or a whole number from 0, found {lag!r}")
    model, mu, steps = prepare(policy, demos)
    with jax.enable_x64(True):
        if lag is None:
            posteriors, log_likelihood = _smooth(model, mu, steps, restarts=demos.num_episodes > 1)
        else:
            posteriors, log_likelihood = _smooth_with_lag(
                model, mu, steps, np.array(min(lag, demos.num_steps), np.int32)
            )
    total = finite_log_likelihood(log_likelihood, policy, demos)
    return Smoothing(total, *(np.asarray(x)[: demos.num_steps] for x in posteriors))


def decode(policy: OptionPolicy, demos: Demonstrations) -> Path:
    """The most probable options and terminations of all demonstrations together (Viterbi).

    Examples
    --------
    >>> policy = OptionPolicy.tabular(num_options=2, num_states=3, num_actions=2)
    >>> decode(policy, Demonstrations([0, 1, 2, 0], [1, 0, 0, 1])).options
    array([1, 1, 1, 1])
    """
    with jax.enable_x64(True):
        options, stops, log_probability = _decode(*prepare(policy, demos))
    total = finite_log_likelihood(log_probability, policy, demos)
    options, stops = (np.asarray(x)[: demos.num_steps].astype(np.int64) for x in (options, stops))
    return Path(options, stops, total)


def sample_paths(
    policy: OptionPolicy, demos: Demonstrations, num_samples: int = 1, seed: int = 0
) -> PathSamples:
    """Draw paths of options and terminations from their posterior, given all the data."""
    if isinstance(num_samples, bool) or not isinstance(num_samples, int | np.integer) or num_samples < 1:
        raise InputError(f"num_samples: must be a whole number from 1, found {num_samples!r}")
    check_whole("seed", seed, 0)
    inputs = prepare(policy, demos)
    with jax.enable_x64(True):
        options, stops, log_likelihood = _sample(*inputs, jax.random.key(seed), num_samples=int(num_samples))
    finite_log_likelihood(log_likelihood, policy, demos)
    return PathSamples(*(np.asarray(x)[:, : demos.num_steps].astype(np.int64) for x in (options, stops)))


def predict_actions(policy: OptionPolicy, demos: Demonstrations) -> Float[np.ndarray, "T A"]:
    """P(a_t | s_t, all before t): what the hierarchy expects before it sees each action.

    For policies with one of finitely many actions a step.
    """
    with jax.enable_x64(True):
        probabilities, log_likelihood = _predict(*prepare(policy, demos))
    finite_log_likelihood(log_likelihood, policy, demos)
    return np.asarray(probabilities)[: demos.num_steps]


def prepare(policy: OptionPolicy, demos: Demonstrations) -> tuple[PolicyModel, np.ndarray, Chain]:
    """The arguments of every compiled function here, after a look at whether the data fit the policy."""
    if not isinstance(policy, OptionPolicy):
        raise InputError(f"policy: must be an OptionPolicy, found {type(policy).__name__}")
    if not isinstance(demos, Demonstrations):
        raise InputError(f"demos: must be Demonstrations, found {type(demos).__name__}")
    policy.model.check_steps(demos.observations, demos.actions, demos.action_mask)
    return policy.model, policy.initial, chain(demos)


def refuse_impossible(policy: OptionPolicy, demos: Demonstrations) -> NoReturn:
    """Raise an error that says which step has probability zero under the policy."""
    with jax.enable_x64(True):
        steps = np.asarray(_step_log_probabilities(*prepare(policy, demos)))[: demos.num_steps]
    row = int(np.argmax(~np.isfinite(steps)))
    episode, step = demos.locate(row)
    raise ImpossibleDataError(
        f"demos: step {step} of episode {episode} (observation {demos.observations[row]}, action "
        f"{demos.actions[row]}) has probability 0 under the policy; "
        + (
            "leave the episode out, mask the action, or learn with a pseudo-count"
            if demos.observations.ndim == 1
            else "if observations are large, scale them (OptionPolicy.neural(..., standardise=demos)); else "
            "leave the episode out or mask the action"
        )
    )


def finite_log_likelihood(
    log_probability: jax.Array | float, policy: OptionPolicy, demos: Demonstrations
) -> float:
    """The number itself, or the error that says which step has probability zero."""
    value = float(log_probability)
    if not np.isfinite(value):
        refuse_impossible(policy, demos)
    return value


def _on_potentials(function: Callable) -> Callable:
    """An inference function made to take a policy's model, mu and laid-out steps, and compiled."""

    def run(model: PolicyModel, mu: Float[Any, "K"], steps: Chain, *rest, **static):
        return function(steps.potentials(model), jnp.asarray(mu), jnp.asarray(steps.starts), *rest, **static)

    return eqx.filter_jit(run)


_smooth = _on_potentials(smoothing.smooth)
_smooth_with_lag = _on_potentials(smoothing.smooth_with_lag)
_decode = _on_potentials(decoding.decode)
_sample = _on_potentials(sampling.sample_paths)
_step_log_probabilities = _on_potentials(smoothing.step_log_probabilities)


@eqx.filter_jit
def _predict(model: PolicyModel, mu: Float[Any, "K"], steps: Chain):
    options, log_likelihood = smoothing.predict(
        steps.potentials(model), jnp.asarray(mu), jnp.asarray(steps.starts)
    )
    actions = model.action_probabilities(jnp.asarray(steps.observations))
    return jnp.sum(options[:, :, None] * actions, 1), log_likelihood
