"""Ways to learn from the same demonstrations, and how well what they learn does."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skillstream.acting.evaluation import Evaluation, evaluate
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.experiments.matching import best_matching
from skillstream.learning.online import OnlineConfig, OnlineLearner
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import smooth


@dataclass(frozen=True, eq=False)
class Result:
    """A policy, how long it took to learn, and how good it is."""

    name: str
    policy: OptionPolicy
    seconds: float
    log_likelihood: float  # a step, held out
    agreement: float  # share of held-out steps given the expert's own option
    numbers: np.ndarray  # the expert's number for each of its options
    evaluation: Evaluation


def measure(
    name: str, learn: Callable[[], OptionPolicy], held_out: Demonstrations, task: str, **settings: Any
) -> Result:
    """Learn, with a clock, and look at what came of it; `settings` are the task's."""
    began = time.perf_counter()
    policy = learn()
    seconds = time.perf_counter() - began
    posterior = smooth(policy, held_out)
    agreement, numbers = best_matching(posterior.options.argmax(1), np.asarray(held_out.true_options))
    evaluation = evaluate(policy, task, 100, **settings)
    return Result(
        name, policy, seconds, posterior.log_likelihood / held_out.num_steps, agreement, numbers, evaluation
    )


def learn_online(starts: list[OptionPolicy], demos: Demonstrations, config: OnlineConfig) -> OptionPolicy:
    """One pass from each start; the one that predicted the stream best."""
    learners = [
        OnlineLearner(start, config).partial_fit(demos.observations, demos.actions, demos.episode_starts)
        for start in starts
    ]
    return max(learners, key=lambda learner: learner.log_likelihood).policy
