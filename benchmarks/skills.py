"""From demonstrations to skills and an agent: what is found, how well it acts, how long it takes."""

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from racing import publish, table

import skillstream as ss
from skillstream.experiments.learners import learn_online
from skillstream.experiments.matching import best_matching
from skillstream.experts.catalogue import HierarchicalExpert, make_expert

SEEDS, STEPS = 10, 2000
TABLES = ss.BatchConfig(iterations=100, tolerance=1e-6, pseudo_count=0.01, starts=4)
NETWORKS = ss.BatchConfig(iterations=20, epochs=10, starts=2)
ONLINE = ss.OnlineConfig(pseudo_count=0.01)


def agreement(policy: ss.OptionPolicy, demos: ss.Demonstrations) -> float:
    """The share of steps that smoothing gives the expert's own option."""
    return best_matching(ss.smooth(policy, demos).options.argmax(1), np.asarray(demos.true_options))[0]


def found(task: str, kind: str) -> list[list[str]]:
    """Learners beside the true hierarchy and flat cloning, over seeds."""
    shares: dict[str, list[float]] = {}
    returns: dict[str, list[float]] = {}
    settings: dict[str, Any] = {"observation": "index"} if kind == "tables" else {}
    for seed in range(SEEDS):
        expert = make_expert(task, seed)
        assert isinstance(expert, HierarchicalExpert)
        demos, test = (ss.collect(expert, task, STEPS, seed=s) for s in (seed, seed + 1000))
        known = expert.numbered(test)
        if kind == "tables":
            demos, test = expert.numbered(demos), known
        policies = _learn(kind, demos, seed, expert)
        for name, policy in policies.items():
            returns.setdefault(name, []).append(ss.evaluate(policy, task, 100, seed, **settings).mean)
            shares.setdefault(name, []).append(agreement(policy, test))
        shares.setdefault("the true hierarchy", []).append(agreement(expert.policy, known))
        returns.setdefault("the true hierarchy", []).append(ss.evaluate(expert, task, 100, seed).mean)
    best = np.mean(returns["the true hierarchy"])
    return [
        [
            task,
            kind,
            name,
            "-" if name == "flat cloning" else f"{np.mean(shares[name]):.1%} (least {min(shares[name]):.1%})",
            f"{np.mean(values):.2f} ± {np.std(values):.2f}",
            f"{np.mean(values) / best:.0%}",
        ]
        for name, values in returns.items()
    ]


def _learn(
    kind: str, demos: ss.Demonstrations, seed: int, expert: HierarchicalExpert
) -> dict[str, ss.OptionPolicy]:
    if kind == "networks":
        start = ss.OptionPolicy.neural(2, demos.observations.shape[1], 5, seed, standardise=demos)
        batch, online = replace(NETWORKS, seed=seed), replace(ONLINE, update_every=5)
    else:
        states, _, actions = expert.policy.tables()["action"].shape
        start = ss.OptionPolicy.tabular(2, states, actions, seed)
        batch, online = replace(TABLES, seed=seed), ONLINE
    starts = [start.redrawn(seed=seed + n) for n in range(batch.starts)]
    return {
        "batch": ss.fit(start, demos, batch).policy,
        "online": learn_online(starts, demos, online),
        "flat cloning": ss.clone(start, demos, batch).policy,
    }


def acting() -> list[list[str]]:
    """Microseconds an action, and seconds for 100 long episodes."""
    rows = []
    policies = {
        "tables, 416 states": (ss.OptionPolicy.tabular(2, 416, 5), np.zeros((), int)),
        "the paper's networks, D = 4": (ss.OptionPolicy.neural(2, 4, 2), np.zeros(4, np.float32)),
        "Gaussian networks, D = 4": (ss.OptionPolicy.neural(2, 4, ss.GaussianActions(2)), np.zeros(4)),
    }
    for name, (policy, observation) in policies.items():
        agent = ss.Agent(policy)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(500):
                agent.act(observation)
            times.append((time.perf_counter() - began) / 500)
        rows.append([f"one action, {name}", f"{np.median(times) * 1e6:.1f} µs"])
    expert = make_expert("cart-pole")
    demos = ss.collect(expert, "cart-pole", STEPS)
    policy = ss.fit(ss.OptionPolicy.neural(2, 4, 2, standardise=demos), demos, NETWORKS).policy
    began = time.perf_counter()
    result = ss.evaluate(policy, "cart-pole", 100)
    seconds = time.perf_counter() - began
    rows.append([f"100 episodes of cart pole ({result.lengths.sum()} steps)", f"{seconds:.1f} s"])
    return rows


def commands() -> list[list[str]]:
    """`collect`, `fit` and `evaluate` one after another, each a process of its own, with defaults."""
    rows = []
    program = Path(sys.executable).parent / "skillstream"
    for task in ("grid-world", "hidden-goal", "cart-pole", "pendulum", "lunar-lander"):
        with tempfile.TemporaryDirectory() as folder:
            seconds, said = [], ""
            for words in (
                ["collect", task],
                ["fit", f"runs/collect-{task}"],
                ["evaluate", f"runs/fit-{task}"],
            ):
                began = time.perf_counter()
                done = subprocess.run(
                    [program, *words], cwd=folder, capture_output=True, text=True, check=True
                )
                seconds.append(time.perf_counter() - began)
                said = done.stdout
            line = " ".join(said.split("In runs")[0].split("  option")[0].split())
            rows.append([task, *(f"{s:.0f}" for s in seconds), f"{sum(seconds):.0f}", line])
    return rows


def main() -> None:
    """Measure and publish."""
    header = [
        "task",
        "policies",
        "learner",
        "steps given the expert's option",
        "return",
        "of the expert's",
    ]
    worlds = (("hidden-goal", "tables"), ("grid-world", "tables"), ("grid-world", "networks"))
    publish(
        "skills",
        {
            "Acting": table(["", ""], acting()),
            "`collect`, `fit`, `evaluate` with defaults, s": table(
                ["task", "collect", "fit", "evaluate", "all", "evaluate says"], commands()
            ),
            f"Learnt from {STEPS} steps, tested on {STEPS} others and 100 episodes, {SEEDS} seeds": table(
                header, [row for task, kind in worlds for row in found(task, kind)]
            ),
        },
    )


if __name__ == "__main__":
    main()
