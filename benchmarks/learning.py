"""Learning by gradient steps, and from random starts: speed beside PyTorch, memory, quality."""

import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import hidden_skills
import jax
import numpy as np
import torch
from racing import publish, race, table

import skillstream as ss
from skillstream.experts.catalogue import make_expert
from skillstream.learning.ascent import adamax, start
from skillstream.learning.samples import climb, expected_samples
from skillstream.policies.posteriors import prepare

OPTIONS, SIZE, ACTIONS = 2, 4, 2
GOOD = 1.01  # a held-out log-likelihood within 1 % of the truth's


def cart_pole(steps: int) -> ss.Demonstrations:
    """The expert's demonstrations, in float32 as the environment gives them."""
    return ss.collect(make_expert("cart-pole"), "cart-pole", steps=steps, seed=0)


def our_step(demos: ss.Demonstrations, steps: int) -> Callable[[], object]:
    """Full-gradient steps of Adamax in one compiled loop."""
    policy, optimiser = ss.OptionPolicy.neural(OPTIONS, SIZE, ACTIONS), adamax(1e-2)
    _, mu, laid_out = prepare(policy, demos)
    model = policy.model
    assert isinstance(model, ss.ConditionalModel)
    state, key = start(model, optimiser), jax.random.key(0)
    config = ss.BatchConfig(epochs=steps, batch_size=None)
    count = np.array(demos.num_steps, np.int32)
    with jax.enable_x64(True):
        samples = expected_samples(model, mu, laid_out, count, restarts=False).samples

    def run():
        with jax.enable_x64(True):
            return climb(model, state, samples, demos.num_steps, key, optimiser, config)

    return run


def torch_step(demos: ss.Demonstrations, steps: int) -> Callable[[], object]:
    """The same steps in PyTorch, eager: 2 K + 1 networks, the weighted log-likelihood, Adamax."""

    def network(hidden: int, outputs: int) -> torch.nn.Module:
        layers = torch.nn.Linear(SIZE, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, outputs)
        return torch.nn.Sequential(*layers, torch.nn.LogSoftmax(-1))

    select = network(100, OPTIONS)
    act, stop = ([network(30, outputs) for _ in range(OPTIONS)] for outputs in (ACTIONS, 2))
    parameters = [p for net in (select, *act, *stop) for p in net.parameters()]
    optimiser = torch.optim.Adamax(parameters, lr=1e-2)
    posterior = ss.smooth(ss.OptionPolicy.neural(OPTIONS, SIZE, ACTIONS), demos)
    switches, departures, options = (
        torch.tensor(x / demos.num_steps, dtype=torch.float32)
        for x in (posterior.switches, posterior.departures, posterior.options)
    )
    seen = torch.tensor(demos.observations.astype(np.float32))
    done = torch.tensor(demos.actions)[:, None]

    def run():
        for _ in range(steps):
            q = (switches * select(seen)).sum()
            for o in range(OPTIONS):
                q = q + (departures[:, o] * stop[o](seen)).sum()
                q = q + (options[:, o] * act[o](seen).gather(1, done)[:, 0]).sum()
            optimiser.zero_grad()
            (-q).backward()
            optimiser.step()
        return parameters[0].sum().item()

    return run


def full_gradient(samples: int) -> list[str]:
    """Microseconds a step, ours beside PyTorch's."""
    demos, steps = cart_pole(samples), 100
    seconds = race({"ours": our_step(demos, steps), "torch": torch_step(demos, steps)}, rounds=7)
    ours, theirs = (seconds[name] / steps * 1e6 for name in ("ours", "torch"))
    return [str(samples), f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.1f}"]


def whole_runs(steps: int = 500) -> list[list[str]]:
    """Cart pole: an online run, its last sample, a batch iteration; the authors' code beside."""
    demos, config = cart_pole(steps), ss.OnlineConfig(min_samples=0, weights="uniform")

    def online():
        learner = ss.OnlineLearner(ss.OptionPolicy.neural(OPTIONS, SIZE, ACTIONS), config)
        began = time.perf_counter()
        learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
        return learner, time.perf_counter() - began

    online()
    learner, run = online()
    last = []
    for row in range(20):
        began = time.perf_counter()
        learner.partial_fit(demos.observations[row : row + 1] + 0.01, demos.actions[row : row + 1])
        last.append(time.perf_counter() - began)
    policy = ss.OptionPolicy.neural(OPTIONS, SIZE, ACTIONS)
    ss.fit(policy, demos, ss.BatchConfig(iterations=1))
    began = time.perf_counter()
    ss.fit(policy, demos, ss.BatchConfig(iterations=20))
    iteration = (time.perf_counter() - began) / 20
    return [
        ["one online sample, 30 gradient steps, ms", f"{np.median(last) * 1e3:.1f}", "2400"],
        ["an online run of 500 samples after compilation, s", f"{run:.1f}", "-"],
        ["a batch iteration, 50 passes in mini-batches of 32, s", f"{iteration:.3f}", "107"],
    ]


def endless(samples: int = 1_000_000) -> list[str]:
    """Resident memory over a long stream of states that never repeat."""
    config = ss.OnlineConfig(memory=2000, update_every=200, steps=5, batch_size=256)
    learner = ss.OnlineLearner(ss.OptionPolicy.neural(OPTIONS, SIZE, ACTIONS), config)
    rng, memory = np.random.default_rng(0), {}
    began = time.perf_counter()
    for chunk in range(samples // 10_000):
        seen = rng.normal(size=(10_000, SIZE))
        learner.partial_fit(seen, (seen[:, 0] > 0).astype(int))
        memory[chunk] = _resident()
    seconds = time.perf_counter() - began
    rows = len(learner.statistics["observations"])
    grown = max(memory.values()) - memory[0]
    return [f"{samples:.0e}", str(rows), f"{seconds / samples * 1e6:.0f}", f"{memory[0]:.0f}", f"{grown:.0f}"]


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def in_sequence(begin: ss.OptionPolicy, demos: ss.Demonstrations, config: ss.OnlineConfig) -> ss.OptionPolicy:
    """A batch fit of the first tenth, and the rest as a stream."""
    first, rest = demos[: len(demos) // 10], demos[len(demos) // 10 :]
    fitted = ss.fit(begin, first, ss.BatchConfig(iterations=40, epochs=5, batch_size=256)).policy
    learner = ss.OnlineLearner(fitted, config).absorb(first)
    return learner.partial_fit(rest.observations, rest.actions, rest.episode_starts).policy


def recovered(truth: ss.OptionPolicy, make: Callable[[int], ss.OptionPolicy], learn: dict, seed: int):
    """For each way to learn: held-out log-likelihoods over the truth's, from ten random starts."""
    tabular = truth.model.__class__.__name__ == "TabularModel"
    demos = hidden_skills.demonstrations(truth, 100, seed)
    held_out = hidden_skills.demonstrations(truth, 25, seed + 1000)
    best = ss.smooth(truth, held_out).log_likelihood
    flat = ss.clone(make(0), demos, learn["batch"])
    ratios = {"flat": [ss.smooth(flat.policy, held_out).log_likelihood / best]}
    for name, config in learn.items():
        found = []
        for start_seed in range(10):
            begin = make(100 + start_seed)
            if isinstance(config, ss.BatchConfig):
                policy = ss.fit(begin, demos, config).policy
            elif name.startswith("batch, then"):
                policy = in_sequence(begin, demos, config)
            else:
                learner = ss.OnlineLearner(begin, config)
                learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
                policy = learner.policy
            found.append(ss.smooth(policy, held_out).log_likelihood / best)
        ratios[name] = found
    kind = "tables" if tabular else "networks"
    return [
        [
            kind,
            str(seed),
            name,
            f"{np.median(r):.4f}",
            f"{max(r):.4f}",
            f"{np.sum(np.array(r) < GOOD)} of {len(r)}",
        ]
        for name, r in ratios.items()
    ]


def from_random_starts() -> list[list[str]]:
    """Known hierarchies, found again from 20,000 steps."""
    by_counts = {
        "batch": ss.BatchConfig(iterations=200, tolerance=1e-7, pseudo_count=0.1),
        "online, uniform weights": ss.OnlineConfig(weights="uniform", pseudo_count=0.1),
        "online, growing weights (default)": ss.OnlineConfig(pseudo_count=0.1),
    }
    less_work = ss.OnlineConfig(
        min_samples=300, update_every=20, steps=20, batch_size=512, learning_rate=3e-3
    )
    by_steps = {
        "batch": ss.BatchConfig(iterations=40, epochs=5, batch_size=1024),
        "online, uniform weights": replace(less_work, weights="uniform"),
        "online, growing weights": less_work,
        "online, growing weights, 1/5 kept": replace(less_work, memory=4000),
        "batch, then online": less_work,
    }
    rows = []
    for seed in range(3):
        truth = hidden_skills.tables(seed)
        rows += recovered(truth, lambda s: ss.OptionPolicy.tabular(2, 20, 4, s), by_counts, seed)
    for seed in range(2):
        truth = hidden_skills.networks(seed)
        rows += recovered(truth, lambda s: ss.OptionPolicy.neural(2, 3, 4, s), by_steps, seed)
    return rows


def penalties(seeds: int = 5, steps: int = 1000) -> list[list[str]]:
    """Grid world, the paper's networks: what each form of the divergence and Adamax's state do."""
    expert = make_expert("grid-world")
    forms = {
        "none": (ss.Penalties(), True),
        "none, Adamax anew at every M-step": (ss.Penalties(), False),
        "L_b = 1, L_v = 0.1": (ss.Penalties(1.0, 0.1), True),
        "Table 1, bounded": (ss.Penalties(1.0, 0.1, 0.01, "bounded"), True),
        "Table 1, full": (ss.Penalties(1.0, 0.1, 0.01, "full"), True),
        "Table 1, taken (as written)": (ss.Penalties(1.0, 0.1, 0.01, "taken"), True),
    }
    best = ss.evaluate(expert, "grid-world", 400).mean
    rows = []
    for name, (weights, keep) in forms.items():
        returns: dict[str, list[float]] = {"batch": [], "online": []}
        for seed in range(seeds):
            demos = ss.collect(expert, "grid-world", steps=steps, seed=seed)
            begin = ss.OptionPolicy.neural(2, 3, 5, seed)
            batch = ss.fit(begin, demos, ss.BatchConfig(penalties=weights, keep_optimiser=keep, seed=seed))
            config = ss.OnlineConfig(
                min_samples=steps // 3 - 20, weights="uniform", penalties=weights, keep_optimiser=keep
            )
            learner = ss.OnlineLearner(begin, config)
            learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
            for key, policy in (("batch", batch.policy), ("online", learner.policy)):
                returns[key].append(ss.evaluate(policy, "grid-world", 100, seed).mean / best)
        rows.append([name, *(f"{np.mean(r):.3f} ± {np.std(r):.3f}" for r in returns.values())])
    return rows


def main() -> None:
    """Measure and publish."""
    warnings.simplefilter("ignore", ss.ImpossibleSampleWarning)
    warnings.simplefilter("ignore", ss.RefusedStepWarning)
    sections = {
        "A full-gradient Adamax step of the paper's networks, µs (D = 4, A = 2, K = 2, float32)": table(
            ["samples", "skillstream", "PyTorch eager", "PyTorch / ours"],
            [full_gradient(samples) for samples in (500, 2000)],
        ),
        "Cart pole, T = 500": table(["", "skillstream", "the authors' code"], whole_runs()),
        "A long stream of continuous states, `memory=2000`": table(
            ["samples", "rows at the end", "µs a sample", "MiB after 10,000", "MiB more at the most"],
            [endless()],
        ),
        "Held-out log-likelihood over the truth's (more is worse), T = 20,000, ten random starts": table(
            ["kind", "world", "learner", "median", "worst", "within 1 %"], from_random_starts()
        ),
        "Penalties on the grid world, T = 1000: return over the expert's, 5 seeds": table(
            ["penalties", "batch", "online"], penalties()
        ),
    }
    publish("learning", sections)


if __name__ == "__main__":
    main()
