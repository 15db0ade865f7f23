"""Slow, literal answers to compare with: enumeration, plain recursions, the paper's rho."""

import itertools
from dataclasses import dataclass, field

import numpy as np

import skillstream as ss


@dataclass
class Truth:
    """Posteriors by summing over every hidden path."""

    likelihood: float = 0.0
    options: np.ndarray = field(default_factory=lambda: np.zeros(0))
    switches: np.ndarray = field(default_factory=lambda: np.zeros(0))
    departures: np.ndarray = field(default_factory=lambda: np.zeros(0))
    best: float = -1.0
    paths: dict = field(default_factory=dict)


def enumerate_paths(policy: ss.OptionPolicy, episode: ss.Demonstrations) -> Truth:
    """Sum over all o_0, o_1..T, b_1..T of one episode."""
    tables, options, steps = policy.tables(), policy.num_options, episode.num_steps
    shape = (steps, options)
    truth = Truth(options=np.zeros(shape), switches=np.zeros(shape), departures=np.zeros((*shape, 2)))
    for first in range(options):
        for path in itertools.product(range(options), repeat=steps):
            for stops in itertools.product((0, 1), repeat=steps):
                p = tables["initial"][first] * path_probability(tables, episode, first, path, stops)
                if p == 0:
                    continue
                truth.likelihood += p
                truth.best = max(truth.best, p)
                truth.paths[path, stops] = truth.paths.get((path, stops), 0) + p
                before = (first, *path)
                for t in range(steps):
                    truth.options[t, path[t]] += p
                    truth.switches[t, path[t]] += p * stops[t]
                    truth.departures[t, before[t], stops[t]] += p
    for name in ("options", "switches", "departures"):
        setattr(truth, name, getattr(truth, name) / truth.likelihood)
    return truth


def path_probability(tables, episode, first, path, stops) -> float:
    p, before = 1.0, first
    for t, (option, stop) in enumerate(zip(path, stops, strict=True)):
        state = episode.observations[t]
        p *= tables["termination"][state, before, stop]
        p *= tables["selection"][state, option] if stop else float(option == before)
        if episode.action_mask is None or episode.action_mask[t]:
            p *= tables["action"][state, option, episode.actions[t]]
        before = option
    return p


def forward_backward(policy: ss.OptionPolicy, demos: ss.Demonstrations):
    """The textbook recursion for tables."""
    tables, states = policy.tables(), demos.observations
    acts = tables["action"][states, :, demos.actions]
    return forward_backward_of(
        tables["selection"][states], tables["termination"][states], acts, tables["initial"], demos
    )


def forward_backward_of(selection, ends, acts, initial, demos: ss.Demonstrations):
    """The textbook recursion with full K x K transitions, one step after another."""
    steps, starts = demos.num_steps, demos.episode_starts
    chi, prior, message = (np.empty(acts.shape) for _ in range(3))
    log_likelihood = 0.0
    for t in range(steps):
        prior[t] = initial if starts[t] else chi[t - 1]
        alpha = prior[t] @ transition(ends[t], selection[t]) * acts[t]
        log_likelihood += np.log(alpha.sum())
        chi[t] = alpha / alpha.sum()
    back = np.ones(acts.shape[1])
    for t in reversed(range(steps)):
        message[t] = back
        back = transition(ends[t], selection[t]) @ (acts[t] * back)
        back = np.ones(acts.shape[1]) if starts[t] else back / back.sum()
    stay, stop = ends[..., 0], ends[..., 1]
    weight = acts * message
    continues = stay * prior * weight
    switches = (stop * prior).sum(1, keepdims=True) * selection * weight
    departs = stop * prior * (selection * weight).sum(1, keepdims=True)
    total = (continues + switches).sum(1, keepdims=True)
    departures = np.stack([continues, departs], -1) / total[..., None]
    return log_likelihood, (continues + switches) / total, switches / total, departures


def transition(ends: np.ndarray, selection: np.ndarray) -> np.ndarray:
    return np.diag(ends[:, 0]) + ends[:, 1:] * selection


class LiteralOnline:
    """Algorithm 2 as the paper writes it: rho over all options, states and actions at every sample.

    `gamma(t)` stands for 1 / t. An episode's start averages rho by the filter, because nothing later
    tells more about what came before.
    """

    def __init__(self, policy: ss.OptionPolicy, min_samples: int, gamma=lambda t: 1 / t):
        self.tables = policy.tables()
        self.min_samples, self.gamma = min_samples, gamma
        states, options, actions = self.tables["action"].shape
        self.rho = np.zeros((options, 2, options, states, actions, options))
        self.chi = self.tables["initial"].copy()
        self.time, self.log_likelihood = 0, 0.0

    def step(self, state: int, action: int, start: bool) -> None:
        if start:
            self.rho[:] = (self.rho @ self.chi)[..., None]
            self.chi = self.tables["initial"].copy()
        self.time += 1
        options = len(self.chi)
        ends, selection = self.tables["termination"][state], self.tables["selection"][state]
        joint = np.zeros((options, 2, options))  # o''', b', o''
        for before in range(options):
            joint[before, 1] = ends[before, 1] * selection * self.chi[before]
            joint[before, 0, before] = ends[before, 0] * self.chi[before]
        predicted = joint.sum((0, 1))
        kernel = joint / predicted
        gamma = self.gamma(self.time)
        self.rho = (1 - gamma) * self.rho @ kernel.sum(1)
        for option in range(options):
            self.rho[:, :, option, state, action, option] += gamma * kernel[:, :, option]
        alpha = self.tables["action"][state, :, action] * predicted
        if alpha.sum() > 0:
            self.log_likelihood += np.log(alpha.sum())
            self.chi = alpha / alpha.sum()
        else:
            self.chi = predicted / predicted.sum()
        if self.time > self.min_samples:
            self.maximise()

    @property
    def phi(self) -> np.ndarray:
        return self.rho @ self.chi

    def counts(self) -> dict[str, np.ndarray]:
        phi = self.phi  # o', b, o, s, a
        return {
            "selection": phi[:, 1].sum((0, 3)).T,
            "termination": phi.sum((2, 4)).transpose(2, 0, 1),
            "action": phi.sum((0, 1)).transpose(1, 0, 2),
        }

    def maximise(self) -> None:
        for name, count in self.counts().items():
            mass = count.sum(-1, keepdims=True)
            self.tables[name] = np.where(mass > 0, count / np.where(mass > 0, mass, 1), self.tables[name])


def random_demos(seed: int, states: int, actions: int, lengths) -> ss.Demonstrations:
    rng = np.random.default_rng(seed)
    steps = int(np.sum(lengths))
    return ss.Demonstrations(rng.integers(0, states, steps), rng.integers(0, actions, steps), lengths)


def sample_demos(policy: ss.OptionPolicy, lengths, seed: int = 0) -> ss.Demonstrations:
    """States uniform at random; options, terminations and actions from the policy."""
    rng = np.random.default_rng(seed)
    tables, steps = policy.tables(), int(np.sum(lengths))
    states = rng.integers(0, len(tables["selection"]), steps)
    starts = np.zeros(steps, bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    options, actions = np.empty(steps, int), np.empty(steps, int)
    option = 0
    for t, state in enumerate(states):
        if starts[t]:
            option = rng.choice(policy.num_options, p=tables["initial"])
        if rng.random() < tables["termination"][state, option, 1]:
            option = rng.choice(policy.num_options, p=tables["selection"][state])
        options[t] = option
        actions[t] = rng.choice(tables["action"].shape[2], p=tables["action"][state, option])
    return ss.Demonstrations(states, actions, lengths, true_options=options)
