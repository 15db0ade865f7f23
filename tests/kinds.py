"""Every kind of policy, small, with demonstrations of two skills that it can learn.

A new kind of policy is one line here; the contract tests do the rest.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import skillstream as ss

_EXAMPLE = Path(__file__).parent.parent / "examples" / "linear_gaussian.py"


def _load_example():
    spec = importlib.util.spec_from_file_location("linear_gaussian", _EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LinearGaussian = _load_example().LinearGaussian


@dataclass(frozen=True)
class Kind:
    """How to make a policy, and what its data look like."""

    make: Callable[[int, int], ss.OptionPolicy]  # options, seed
    actions: str  # categories, pairs, or numbers
    states: int | None = None  # finitely many, or points in the plane

    def policy(self, options: int = 2, seed: int = 0) -> ss.OptionPolicy:
        return self.make(options, seed)

    def demos(self, lengths=(60, 1, 40), seed: int = 0) -> ss.Demonstrations:
        """Two skills that take turns, about ten steps each, and do the opposite of one another."""
        rng = np.random.default_rng(seed)
        steps = sum(lengths)
        option = np.cumsum(rng.random(steps) < 0.1) % 2
        place = rng.normal(size=(steps, 2))
        if self.states:
            cells = rng.integers(0, self.states, steps)
            place = np.stack([cells % 2, cells % 3], 1) - 0.5
        heading = np.where(option, 1.0, -1.0)[:, None] * place + 0.3 * rng.normal(size=(steps, 2))
        actions = {
            "categories": (heading[:, 0] > 0) + 0 * option,
            "pairs": np.stack([heading[:, 0] > 0, (heading[:, 1] > 0) + (heading[:, 1] > 1)], 1),
            "numbers": heading,
        }[self.actions]
        actions = actions if self.actions == "numbers" else actions.astype(int)
        observations = cells if self.states else place
        return ss.Demonstrations(observations, actions, lengths, true_options=option)


def _networks(num_actions, **settings):
    def make(options, seed):
        return ss.OptionPolicy.neural(
            options, 2, num_actions, seed, selection_hidden=(8,), action_hidden=(6,), **settings
        )

    return make


KINDS = {
    "tables": Kind(lambda k, seed: ss.OptionPolicy.tabular(k, 6, 2, seed), "categories", states=6),
    "Gaussian tables": Kind(
        lambda k, seed: ss.OptionPolicy.tabular(k, 6, ss.GaussianActions(2), seed), "numbers", states=6
    ),
    "networks": Kind(_networks(2), "categories"),
    "deep networks": Kind(_networks(2, termination_hidden=(5, 4), activation="tanh"), "categories"),
    "networks, float64": Kind(_networks(2, dtype="float64"), "categories"),
    "networks, several choices": Kind(_networks((2, 3)), "pairs"),
    "networks, Gaussian": Kind(_networks(ss.GaussianActions(2)), "numbers"),
    "networks, Gaussian by state": Kind(_networks(ss.GaussianActions(2, scale="state")), "numbers"),
    "own class": Kind(lambda k, seed: ss.OptionPolicy(LinearGaussian(k, 2, 2, seed)), "numbers"),
}
