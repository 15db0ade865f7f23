"""The first demonstration: an expert with two known skills, learnt from a stream and in batch."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from skillstream.acting.simulate import simulate
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.experiments.matching import best_matching
from skillstream.experiments.shuttle import Shuttle
from skillstream.learning.batch import fit
from skillstream.learning.config import BatchConfig, OnlineConfig
from skillstream.learning.online import OnlineLearner
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import smooth
from skillstream.reporting.timeline import plot_timeline

EPISODE = 200
ONLINE = OnlineConfig(min_samples=1000, weights="polynomial", forgetting=0.7, pseudo_count=0.01)
BATCH = BatchConfig(iterations=100, tolerance=1e-6, pseudo_count=0.01)


@dataclass(frozen=True)
class Learnt:
    """A policy, how long it took to learn, and how good it is on episodes it has not seen."""

    name: str
    policy: OptionPolicy
    seconds: float
    log_likelihood: float  # a step, held out
    agreement: float  # share of held-out steps given the expert's own option
    numbers: np.ndarray  # the expert's number for each of its options


def run_demo(steps: int, starts: int, seed: int, output: Path, console: Console) -> list[Learnt]:
    """Run the demonstration, print its table, write its picture, and return what the table shows."""
    world = Shuttle()
    expert = world.expert()
    episodes = [EPISODE] * max(steps // EPISODE, 1)
    demos = simulate(expert, world.transitions(), world.start(), episodes, seed)
    held_out = simulate(expert, world.transitions(), world.start(), [EPISODE] * 20, seed + 1)
    console.print(
        f"An expert shuttles between two corners of a {world.size} x {world.size} grid: option 0 goes to "
        f"one, option 1 to the other. Learning from {demos.num_steps} of its steps, from {starts} random "
        "starts; "
        "the best on the training data is kept."
    )
    start = [
        OptionPolicy.tabular(2, world.num_states, world.num_actions, seed=seed + n) for n in range(starts)
    ]
    flat = OptionPolicy.tabular(1, world.num_states, world.num_actions, seed=seed)
    learners = {
        "one option (flat cloning)": lambda: _in_batch([flat], demos),
        "online, one pass": lambda: _online(start, demos),
        "batch": lambda: _in_batch(start, demos),
        "the expert itself": lambda: expert,
    }
    results = [_measure(name, learn, held_out) for name, learn in learners.items()]
    console.print(_table(results))
    output.mkdir(parents=True)
    picture = output / "timeline.png"
    _plot(picture, results, held_out[:2])
    results[1].policy.save(output / "online.safetensors")
    results[2].policy.save(output / "batch.safetensors")
    console.print(f"Wrote the option timeline to {picture} and the learnt policies beside it.")
    return results


def _online(starts: list[OptionPolicy], demos: Demonstrations) -> OptionPolicy:
    learners = [
        OnlineLearner(start, ONLINE).partial_fit(demos.observations, demos.actions, demos.episode_starts)
        for start in starts
    ]
    return max(learners, key=lambda learner: learner.log_likelihood).policy


def _in_batch(starts: list[OptionPolicy], demos: Demonstrations) -> OptionPolicy:
    results = [fit(start, demos, BATCH) for start in starts]
    return max(results, key=lambda result: result.log_likelihoods[-1]).policy


def _measure(name: str, learn, held_out: Demonstrations) -> Learnt:
    began = time.perf_counter()
    policy = learn()
    seconds = time.perf_counter() - began
    posterior = smooth(policy, held_out)
    agreement, numbers = best_matching(posterior.options.argmax(1), np.asarray(held_out.true_options))
    return Learnt(name, policy, seconds, posterior.log_likelihood / held_out.num_steps, agreement, numbers)


def _table(results: list[Learnt]) -> Table:
    table = Table(title="On 20 episodes that were not learnt from")
    table.add_column("learner")
    for column in ("log-likelihood a step", "steps with the expert's option", "seconds"):
        table.add_column(column, justify="right")
    for result in results:
        seconds = f"{result.seconds:.2f}" if result.seconds > 0.001 else "-"
        table.add_row(result.name, f"{result.log_likelihood:.4f}", f"{result.agreement:.1%}", seconds)
    return table


def _plot(path: Path, results: list[Learnt], demos: Demonstrations) -> None:
    """The expert's options and each hierarchy's smoothed probabilities of them, in the expert's numbers."""
    readings = {"true": np.eye(2)[np.asarray(demos.true_options)]}
    for result in results:
        if result.policy.num_options == 2:
            readings[result.name] = smooth(result.policy, demos).options[:, np.argsort(result.numbers)]
    plot_timeline(path, readings, "Which option runs, two held-out episodes", demos.episode_starts)
