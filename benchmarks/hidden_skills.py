"""Hierarchies that are known, and demonstrations sampled from them, to be found again."""

import equinox as eqx
import numpy as np

import skillstream as ss

OBSERVATION_SIZE, ACTIONS, OPTIONS = 3, 4, 2
LENGTH = 200


def tables(seed: int, states: int = 20) -> ss.OptionPolicy:
    """Options that last 10 to 50 steps and do rather different things."""
    rng = np.random.default_rng(seed)
    action = 0.98 * rng.dirichlet(np.full(ACTIONS, 0.3), (states, OPTIONS)) + 0.02 / ACTIONS
    stop = rng.uniform(0.02, 0.1, (states, OPTIONS))
    selection = rng.dirichlet(np.ones(OPTIONS), states)
    return ss.OptionPolicy.from_tables(selection, action, np.stack([1 - stop, stop], -1))


def networks(seed: int) -> ss.OptionPolicy:
    """The paper's triplet with larger weights, and options that last about 20 steps."""
    policy = ss.OptionPolicy.neural(
        OPTIONS, OBSERVATION_SIZE, ACTIONS, seed, weight_range=0.8, dtype="float64"
    )
    ends = policy.model.termination  # pyright: ignore[reportAttributeAccessIssue]
    bias = np.zeros_like(ends.biases[-1])
    bias[:, 0] = 3.0
    model = eqx.tree_at(
        lambda model: (model.termination.biases[-1], model.termination.weights[-1]),
        policy.model,
        (bias, 0.2 * ends.weights[-1]),
    )
    return ss.OptionPolicy(model)


def demonstrations(policy: ss.OptionPolicy, episodes: int, seed: int, states: int = 20) -> ss.Demonstrations:
    """Episodes of 200 steps whose observations are drawn anew at every step."""
    rng, agent = np.random.default_rng(seed), ss.Agent(policy, seed)
    tabular = policy.model.__class__.__name__ == "TabularModel"
    shape = (LENGTH, episodes)
    seen = rng.integers(0, states, shape) if tabular else rng.normal(size=(*shape, OBSERVATION_SIZE))
    done, ran, state = np.zeros(shape, int), np.zeros(shape, int), None
    for step in range(LENGTH):
        done[step], state = agent.predict(seen[step], state)
        ran[step] = state

    def column(values):
        return np.swapaxes(values, 0, 1).reshape(-1, *values.shape[2:])

    return ss.Demonstrations(column(seen), column(done), [LENGTH] * episodes, true_options=column(ran))
