"""What a policy says of demonstrations: smoothing, decoding, sampling and prediction, NumPy in and out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import ImpossibleDataError, InputError
from skillstream.inference import decoding, sampling, smoothing
from skillstream.policies.chains import Chains, chain, lay_out, unlay, unlay_all
from skillstream.policies.policy import OptionPolicy


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
    chains, inputs = prepare(policy, demos)
    with jax.enable_x64(True):
        if lag is None:
            posteriors, log_likelihood = _smooth(*inputs, restarts=chains.restarts)
        else:
            posteriors, log_likelihood = _smooth_with_lag(*inputs, np.int32(min(lag, demos.num_steps)))
    total = _finite(log_likelihood, policy, demos)
    return Smoothing(total, *chains.flatten_all(posteriors))


def decode(policy: OptionPolicy, demos: Demonstrations) -> Path:
    """The most probable options and terminations of all demonstrations together (Viterbi).

    Examples
    --------
    >>> policy = OptionPolicy.tabular(num_options=2, num_states=3, num_actions=2)
    >>> decode(policy, Demonstrations([0, 1, 2, 0], [1, 0, 0, 1])).options
    array([1, 1, 1, 1])
    """
    chains, inputs = prepare(policy, demos)
    with jax.enable_x64(True):
        options, stops, log_probability = _decode(*inputs)
    total = _finite(log_probability, policy, demos)
    return Path(chains.flatten(options).astype(np.int64), chains.flatten(stops).astype(np.int64), total)


def sample_paths(
    policy: OptionPolicy, demos: Demonstrations, num_samples: int = 1, seed: int = 0
) -> PathSamples:
    """Draw paths of options and terminations from their posterior, given all the data."""
    if isinstance(num_samples, bool) or not isinstance(num_samples, int | np.integer) or num_samples < 1:
        raise InputError(f"num_samples: must be a whole number from 1, found {num_samples!r}")
    _, inputs = prepare(policy, demos, single=True)
    with jax.enable_x64(True):
        options, stops, log_likelihood = _sample(*inputs, jax.random.key(seed), num_samples=int(num_samples))
    _finite(log_likelihood, policy, demos)
    steps = slice(0, demos.num_steps)
    return PathSamples(*(np.asarray(x)[:, steps].astype(np.int64) for x in (options, stops)))


def predict_actions(policy: OptionPolicy, demos: Demonstrations) -> Float[np.ndarray, "T A"]:
    """P(a_t | s_t, all before t): what the hierarchy expects before it sees each action."""
    chains, inputs = prepare(policy, demos, single=True)
    with jax.enable_x64(True):
        probabilities, log_likelihood = _predict(*inputs)
    _finite(log_likelihood, policy, demos)
    return chains.flatten(probabilities)


def on_potentials(function: Callable, model, mu, observations, actions, missing, starts, padding, *rest):
    """Call an inference function on a policy's potentials of laid-out steps (while compiling)."""
    potentials = lay_out(model, observations, actions, missing, padding)
    return function(potentials, jnp.asarray(mu), starts, *rest)


@partial(jax.jit, static_argnames="restarts")
def _smooth(*inputs, restarts: bool):
    posteriors, log_likelihood = on_potentials(partial(smoothing.smooth, restarts=restarts), *inputs)
    return unlay_all(posteriors), log_likelihood


@jax.jit
def _smooth_with_lag(*inputs):
    posteriors, log_likelihood = on_potentials(smoothing.smooth_with_lag, *inputs)
    return unlay_all(posteriors), log_likelihood


@jax.jit
def _decode(*inputs):
    options, stops, log_probability = on_potentials(decoding.decode, *inputs)
    return *(unlay(jnp.expand_dims(x, 1))[:, 0] for x in (options, stops)), log_probability


@partial(jax.jit, static_argnames="num_samples")
def _sample(*inputs, num_samples: int):
    return on_potentials(partial(sampling.sample_paths, num_samples=num_samples), *inputs)


@jax.jit
def _predict(*inputs):
    options, log_likelihood = on_potentials(smoothing.predict, *inputs)
    model, observations = inputs[0], inputs[2]
    return jnp.sum(options[:, :, None] * model.action_probabilities(observations), 1), log_likelihood


@jax.jit
def _step_log_probabilities(*inputs):
    return on_potentials(smoothing.step_log_probabilities, *inputs)


def prepare(policy: OptionPolicy, demos: Demonstrations, single: bool = False) -> tuple[Chains, tuple]:
    """The checked data as inference wants them, and the arguments of every compiled function here."""
    policy.model.check_steps(demos.observations, demos.actions, demos.action_mask)
    chains = chain(demos, single)
    return chains, (policy.model, policy.initial, *chains.arrays())


def _finite(log_probability: jax.Array, policy: OptionPolicy, demos: Demonstrations) -> float:
    value = float(log_probability)
    if not np.isfinite(value):
        refuse_impossible(policy, demos)
    return value


def refuse_impossible(policy: OptionPolicy, demos: Demonstrations) -> NoReturn:
    """Raise an error that says which step has probability zero under the policy."""
    _, inputs = prepare(policy, demos, single=True)
    with jax.enable_x64(True):
        steps = np.asarray(_step_log_probabilities(*inputs))[: demos.num_steps]
    row = int(np.argmax(~np.isfinite(steps)))
    episode, step = demos.locate(row)
    raise ImpossibleDataError(
        f"demos: step {step} of episode {episode} (observation {demos.observations[row]}, action "
        f"{demos.actions[row]}) has probability 0 under the policy; leave the episode out, mask the action, "
        "or learn with a pseudo-count"
    )
