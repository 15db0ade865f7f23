"""Batch Baum-Welch (the paper's Algorithm 1)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import jax
import numpy as np
import optax
from jaxtyping import Float

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import (
    ImpossibleDataError,
    ImpossibleSampleWarning,
    InputError,
    RefusedStepWarning,
)
from skillstream.learning.ascent import adamax, start
from skillstream.learning.config import BatchConfig
from skillstream.learning.objective import Objective
from skillstream.learning.samples import climb, expected_samples, least_likely, maximise_samples, terms
from skillstream.learning.tables import auxiliary_function, expected_counts, maximise, normalise
from skillstream.policies.chains import Chain
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import finite_log_likelihood, prepare, smooth
from skillstream.policies.protocol import ConditionalModel
from skillstream.policies.tabular import TabularModel

_PENALTIES = ("balance", "variance", "divergence")


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after an iteration."""

    iteration: int
    log_likelihood: float  # of the policy this iteration began with
    policy: OptionPolicy  # as it is now
    start: int = 0  # which of `BatchConfig.starts` this is


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted policy and how it came about."""

    policy: OptionPolicy
    log_likelihoods: Float[np.ndarray, "N"]  # of the policy each iteration began with
    converged: bool  # whether the tolerance, or held-out data, stopped the fit
    objectives: Float[np.ndarray, "N"] | None = None  # Q after each M-step, if tracked
    penalties: dict[str, Float[np.ndarray, "N"]] | None = None  # L_b, L_v and L_KL, if tracked
    validation: Float[np.ndarray, "N"] | None = None  # held-out log-likelihood a step after each M-step
    interrupted: bool = False  # whether the callback stopped the fit

    @property
    def quality(self) -> float:
        """What several starts are compared by: the held-out log-likelihood, or the last one."""
        return float(self.log_likelihoods[-1] if self.validation is None else self.validation.max())


class _Learner(Protocol):
    """One way to make E-steps and M-steps."""

    def expect(self, policy: OptionPolicy) -> float:
        """The E-step; returns the log-likelihood."""
        ...

    def maximise(self, policy: OptionPolicy) -> OptionPolicy | None:
        """The M-step; None if it had to be refused."""
        ...

    def terms(self, policy: OptionPolicy) -> Objective:
        """Q and the penalties of a policy, given the last E-step."""
        ...


def fit(
    policy: OptionPolicy,
    demos: Demonstrations,
    config: BatchConfig | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
    validation: Demonstrations | None = None,
    optimiser: optax.GradientTransformation | None = None,
) -> FitResult:
    """Learn a hierarchy from demonstrations at rest by Baum-Welch.

    Parameters
    ----------
    policy
        Where learning starts.
    demos
        The demonstrations; `o_0` is drawn afresh at the start of each episode.
    config
        Iterations, convergence, pseudo-counts, gradient steps, penalties.
    callback
        Called after every iteration; the fit stops when it returns True, and tries no other start.
    validation
        Demonstrations to stop early by: the policy that explains them best is returned, once
        `config.patience` iterations have brought no better one.
    optimiser
        Any Optax optimiser for policies learnt by gradient steps. Default: Adamax with
        `config.learning_rate`.

    Examples
    --------
    >>> demos = Demonstrations([0, 1, 2, 0, 1, 2], [1, 0, 1, 1, 0, 1])
    >>> result = fit(OptionPolicy.tabular(2, 3, 2), demos, BatchConfig(iterations=10))
    >>> bool(result.log_likelihoods[-1] > result.log_likelihoods[0])
    True
    """
    config = BatchConfig() if config is None else config
    if not isinstance(config, BatchConfig):
        raise InputError(f"config: must be a BatchConfig, found {type(config).__name__}")
    fresh = [policy.redrawn(seed=config.seed + number) for number in range(1, config.starts)]
    results: list[FitResult] = []
    for begin in (policy, *fresh):
        results.append(_climb(begin, len(results), demos, config, callback, validation, optimiser))
        if results[-1].interrupted:
            break
    best = max(results, key=lambda result: result.quality)
    return replace(best, interrupted=results[-1].interrupted)


def _climb(
    policy: OptionPolicy,
    number: int,
    demos: Demonstrations,
    config: BatchConfig,
    callback: Callable[[Progress], bool | None] | None,
    validation: Demonstrations | None,
    optimiser: optax.GradientTransformation | None,
) -> FitResult:
    """Baum-Welch from one start."""
    learner = _learner(policy, demos, config, optimiser)
    history, tracked, held_out = [], [], _HeldOut(validation, config.patience, policy)
    converged = interrupted = False
    for iteration in range(config.iterations):
        history.append(learner.expect(policy))
        improved = learner.maximise(policy)
        if improved is None:
            break
        policy = improved
        if config.track_objective:
            tracked.append(learner.terms(policy))
        stop = held_out.look_at(policy)
        interrupted = callback is not None and bool(
            callback(Progress(iteration, history[-1], policy, number))
        )
        if interrupted:
            break
        converged = stop or (
            config.tolerance > 0 and _has_converged(history, config.tolerance * demos.num_steps)
        )
        if converged:
            break
    terms = Objective(*(np.array(column) for column in zip(*tracked, strict=True))) if tracked else None
    return FitResult(
        held_out.best(policy),
        np.array(history),
        converged,
        None if terms is None else np.asarray(terms.q),
        None if terms is None else {name: np.asarray(getattr(terms, name)) for name in _PENALTIES},
        held_out.history(),
        interrupted,
    )


def clone(
    policy: OptionPolicy,
    demos: Demonstrations,
    config: BatchConfig | None = None,
    validation: Demonstrations | None = None,
) -> FitResult:
    """Flat behavioural cloning, to compare with: one option, otherwise the same kind of policy.

    Takes what `fit` takes; `policy` says which network or table to use, not where to start.

    Examples
    --------
    >>> demos = Demonstrations([0, 1, 2, 0, 1, 2], [1, 0, 1, 1, 0, 1])
    >>> clone(OptionPolicy.tabular(2, 3, 2), demos).policy
    OptionPolicy(1 options, tabular: 3 states, 2 actions)
    """
    config = config or BatchConfig()
    return fit(policy.redrawn(num_options=1, seed=config.seed), demos, config, validation=validation)


def _learner(
    policy: OptionPolicy,
    demos: Demonstrations,
    config: BatchConfig,
    optimiser: optax.GradientTransformation | None,
) -> _Learner:
    _, _, steps = prepare(policy, demos)
    in_closed_form = isinstance(policy.model, TabularModel) or hasattr(policy.model, "maximise")
    if in_closed_form and config.penalties:
        raise InputError(
            f"penalties: {policy!r} learns in closed form, which has none; use OptionPolicy.neural"
        )
    if isinstance(policy.model, TabularModel):
        return _ByCounts(demos, steps, config)
    if in_closed_form:
        return _BySamples(demos, steps, config)
    return _ByGradients(demos, steps, config, policy, optimiser or adamax(config.learning_rate))


class _ByCounts:
    """Tables: expected counts, normalised."""

    def __init__(self, demos: Demonstrations, steps: Chain, config: BatchConfig):
        self.demos, self.steps, self.config = demos, steps, config

    def expect(self, policy: OptionPolicy) -> float:
        self.statistics, log_likelihood = expected_counts(policy, self.steps, self.demos.num_episodes > 1)
        return finite_log_likelihood(log_likelihood, policy, self.demos)

    def maximise(self, policy: OptionPolicy) -> OptionPolicy:
        return maximise(self.statistics, policy, self.config.pseudo_count, self.config.learn_initial)

    def terms(self, policy: OptionPolicy) -> Objective:
        q = auxiliary_function(self.statistics, policy, self.demos.num_steps)
        return Objective(q, *(np.nan for _ in _PENALTIES))


class _BySamples:
    """Other models that have a maximum in closed form."""

    def __init__(self, demos: Demonstrations, steps: Chain, config: BatchConfig):
        self.demos, self.steps, self.config = demos, steps, config

    def expect(self, policy: OptionPolicy) -> float:
        count = np.array(self.demos.num_steps, np.int32)
        with jax.enable_x64(True):
            self.expected = expected_samples(
                _conditional(policy), policy.initial, self.steps, count, self.demos.num_episodes > 1
            )
        return finite_log_likelihood(self.expected.log_likelihood, policy, self.demos)

    def maximise(self, policy: OptionPolicy) -> OptionPolicy | None:
        pseudo_count = np.float64(self.config.pseudo_count / self.demos.num_steps)
        with jax.enable_x64(True):
            model = maximise_samples(policy.model, self.expected.samples, np.array(pseudo_count))
        return self._with_initial(policy, jax.tree.map(np.asarray, model))

    def terms(self, policy: OptionPolicy) -> Objective:
        with jax.enable_x64(True):
            found = terms(_conditional(policy), self.expected.samples, self.config.penalties.divergence_form)
        return Objective(*(float(term) for term in found))

    def _with_initial(self, policy: OptionPolicy, model: ConditionalModel) -> OptionPolicy:
        initial = policy.initial
        if self.config.learn_initial:
            initial = normalise(np.asarray(self.expected.initial), initial, 0, self.config.pseudo_count)
        return OptionPolicy(model, initial)


def _conditional(policy: OptionPolicy) -> ConditionalModel:
    assert isinstance(policy.model, ConditionalModel)
    return policy.model


class _ByGradients(_BySamples):
    """Networks and users' own models: gradient steps on the objective."""

    def __init__(self, demos, steps, config, policy: OptionPolicy, optimiser: optax.GradientTransformation):
        super().__init__(demos, steps, config)
        self.optimiser, self.state = optimiser, start(_conditional(policy), optimiser)
        self.first_state, self.key = self.state, jax.random.key(config.seed)

    def maximise(self, policy: OptionPolicy) -> OptionPolicy | None:
        self.key, key = jax.random.split(self.key)
        before = self.state if self.config.keep_optimiser else self.first_state
        with jax.enable_x64(True):
            model, self.state, ok = climb(
                _conditional(policy),
                before,
                self.expected.samples,
                self.demos.num_steps,
                key,
                self.optimiser,
                self.config,
            )
            if ok:
                return self._with_initial(policy, model)
            row = int(least_likely(_conditional(policy), self.expected.samples))
        episode, step = self.demos.locate(row)
        warnings.warn(
            "a gradient step gave numbers that are not finite: the M-step was refused and the fit stops with "
            f"the last good policy; the least likely sample is step {step} of episode {episode} (observation "
            f"{self.demos.observations[row]}). A smaller learning_rate or standardise= may help",
            RefusedStepWarning,
            stacklevel=4,
        )
        return None


class _HeldOut:
    """Keeps the policy that explains held-out demonstrations best."""

    def __init__(self, demos: Demonstrations | None, patience: int, policy: OptionPolicy):
        self.demos, self.patience = demos, patience
        self.values: list[float] = []
        self.policies = {-np.inf: policy}

    def look_at(self, policy: OptionPolicy) -> bool:
        """Whether to stop."""
        if self.demos is None:
            return False
        try:
            self.values.append(smooth(policy, self.demos).log_likelihood / self.demos.num_steps)
        except ImpossibleDataError:  # tables that have not seen all that is held out
            self.values.append(-np.inf)
        if self.values[-1] > max(self.policies):
            self.policies = {self.values[-1]: policy}
        if max(self.policies) == -np.inf:
            return False
        return len(self.values) - 1 - int(np.argmax(self.values)) >= self.patience

    def best(self, last: OptionPolicy) -> OptionPolicy:
        if not self.values:
            return last
        if max(self.policies) == -np.inf:
            warnings.warn(
                "validation: has probability 0 under every policy on the way, so it could not choose one and "
                "the last is returned; a pseudo_count avoids this",
                ImpossibleSampleWarning,
                stacklevel=4,
            )
            return last
        return next(iter(self.policies.values()))

    def history(self) -> np.ndarray | None:
        return None if self.demos is None else np.array(self.values)


def _has_converged(history: list[float], least_gain: float) -> bool:
    return len(history) > 1 and history[-1] - history[-2] < least_gain
