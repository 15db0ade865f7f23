"""Online learning, microseconds a sample: chunks, single samples, many states, the literal rho, memory."""

import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from racing import publish, race, table

import skillstream as ss

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from oracles import LiteralOnline

CHUNK, ACTIONS = 10_000, 5


def stream(options: int, states: int, config: ss.OnlineConfig):
    """A learner and a function that feeds it the next `size` random samples."""
    rng = np.random.default_rng(0)
    learner = ss.OnlineLearner(ss.OptionPolicy.tabular(options, states, ACTIONS), config)

    def feed(size: int = CHUNK):
        learner.partial_fit(rng.integers(0, states, size), rng.integers(0, ACTIONS, size))

    return learner, feed


def chunks(options: int, states: int) -> float:
    """Microseconds a sample in chunks, the window held at 64 so that only the sizes named differ."""
    _, feed = stream(options, states, ss.OnlineConfig(pseudo_count=0.1, max_window=64))
    for _ in range(5):
        feed()
    return race({"ours": feed}, rounds=15)["ours"] / CHUNK * 1e6


def single() -> float:
    """Microseconds for a call with one sample, which lies ready."""
    learner, feed = stream(2, 100, ss.OnlineConfig(pseudo_count=0.1))
    feed(300)
    rng = np.random.default_rng(1)
    samples = zip(rng.integers(0, 100, (5000, 1)), rng.integers(0, ACTIONS, (5000, 1)), strict=True)
    return race({"ours": lambda: learner.partial_fit(*next(samples))}, rounds=2000)["ours"] * 1e6


def literal(states: int) -> list[str]:
    """One sample of the paper's recursion with its M-step, in NumPy, beside ours."""
    rival = LiteralOnline(ss.OptionPolicy.tabular(2, states, ACTIONS), min_samples=0)
    rng = np.random.default_rng(0)
    seconds = race({"rho": lambda: rival.step(rng.integers(states), rng.integers(ACTIONS), False)}, rounds=51)
    theirs, ours = seconds["rho"] * 1e6, chunks(2, states)
    return [str(states), f"{theirs:.0f}", f"{ours:.2f}", f"{theirs / ours:.0f}"]


def endless(samples: int = 10_000_000) -> list[str]:
    """Memory and exactness of the counts over a long stream with frozen tables that know the option."""
    states = 50
    action = np.zeros((states, 2, 2))
    action[:, 0, 0] = action[:, 1, 1] = 1  # the action tells the option, so the counts are known exactly
    tables = ss.OptionPolicy.tabular(2, states, 2).tables()
    policy = ss.OptionPolicy.from_tables(tables["selection"], action, tables["termination"])
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(update_every=0))
    rng, exact, size = np.random.default_rng(0), np.zeros((states, 2)), 1_000_000
    began, memory = time.perf_counter(), []
    for _ in range(samples // size):
        seen, done = rng.integers(0, states, size), rng.integers(0, 2, size)
        learner.partial_fit(seen, done)
        np.add.at(exact, (seen, done), 1)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    seconds = time.perf_counter() - began
    counted = np.einsum("soo->so", learner.statistics["action"])
    error = np.abs(counted / exact - 1).max()
    return [
        f"{samples:.0e}",
        f"{seconds / samples * 1e6:.2f}",
        f"{memory[0]:.0f}",
        f"{memory[-1]:.0f}",
        f"{error:.0e}",
        f"{learner.certificate:.0e}",
    ]


def main() -> None:
    """Measure and publish."""
    warnings.simplefilter("ignore", ss.ImpossibleSampleWarning)
    small, large = chunks(2, 100), chunks(2, 100_000)
    publish(
        "online",
        {
            f"An M-step at every sample, a window of 64, chunks of {CHUNK}, µs a sample": table(
                ["K", "states", "µs"],
                [
                    ["2", "100", f"{small:.2f}"],
                    ["2", "100,000", f"{large:.2f} ({large / small:.2f} times 100 states)"],
                    ["4", "100", f"{chunks(4, 100):.2f}"],
                    ["8", "100", f"{chunks(8, 100):.2f}"],
                ],
            ),
            "One call with one sample": table(["µs"], [[f"{single():.0f}"]]),
            "The literal rho recursion with its M-step in NumPy, K = 2, µs a sample": table(
                ["states", "rho", "skillstream", "times"], [literal(states) for states in (10, 100, 416)]
            ),
            "A long stream": table(
                [
                    "samples",
                    "µs a sample",
                    "MiB after 10^6",
                    "MiB at the end",
                    "relative error of counts",
                    "certificate",
                ],
                [endless()],
            ),
        },
    )


if __name__ == "__main__":
    main()
