"""Small policies, ordinary and degenerate, with demonstrations that are possible under them."""

import numpy as np
import oracles

import skillstream as ss


def ordinary(options: int, seed: int) -> ss.OptionPolicy:
    return ss.OptionPolicy.tabular(options, num_states=3, num_actions=2, seed=seed)


def with_tables(policy: ss.OptionPolicy, **changed) -> ss.OptionPolicy:
    return ss.OptionPolicy.from_tables(**{**policy.tables(), **changed})


def stopping(policy: ss.OptionPolicy, probability) -> ss.OptionPolicy:
    stop = np.broadcast_to(probability, policy.tables()["termination"].shape[:2])
    return with_tables(policy, termination=np.stack([1 - stop, stop], -1))


def deterministic(seed: int) -> ss.OptionPolicy:
    """Every row certain: each option has its own action, stops in one state, and hands over there."""
    del seed
    action = np.zeros((3, 2, 2))
    action[:, 0, 0] = action[:, 1, 1] = 1
    stop = np.zeros((3, 2))
    stop[2] = 1
    return ss.OptionPolicy.from_tables(
        np.tile([0.0, 1.0], (3, 1)), action, np.stack([1 - stop, stop], -1), [1.0, 0.0]
    )


def unreachable(seed: int) -> ss.OptionPolicy:
    """The third option is never entered."""
    policy = ordinary(3, seed)
    selection = policy.tables()["selection"] * [1, 1, 0]
    return with_tables(policy, selection=selection / selection.sum(1, keepdims=True), initial=[0.5, 0.5, 0.0])


def zeros(seed: int) -> ss.OptionPolicy:
    """About a third of all entries are exactly zero."""
    rng = np.random.default_rng(seed)
    policy = ordinary(3, seed)
    changed = {}
    for name, table in policy.tables().items():
        kept = table * (rng.random(table.shape) > 0.35)
        kept[..., 0] += (kept.sum(-1) == 0) * 1.0
        changed[name] = kept / kept.sum(-1, keepdims=True)
    return ss.OptionPolicy.from_tables(**changed)


POLICIES = {
    "one option": lambda seed: ordinary(1, seed),
    "two options": lambda seed: ordinary(2, seed),
    "three options": lambda seed: ordinary(3, seed),
    "never stops": lambda seed: stopping(ordinary(2, seed), 0.0),
    "always stops": lambda seed: stopping(ordinary(3, seed), 1.0),
    "hardly stops": lambda seed: stopping(ordinary(2, seed), 1e-12),
    "hardly goes on": lambda seed: stopping(ordinary(2, seed), 1 - 1e-12),
    "deterministic": deterministic,
    "unreachable": unreachable,
    "zeros": zeros,
}


def possible_demos(policy: ss.OptionPolicy, lengths, seed: int) -> ss.Demonstrations:
    demos = oracles.sample_demos(policy, lengths, seed)
    return ss.Demonstrations(demos.observations, demos.actions, lengths)
