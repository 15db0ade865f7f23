"""Ancestral sampling: a hierarchy acting in a world whose transitions are known."""

import numpy as np
from jaxtyping import Float

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import InputError
from skillstream.policies.checks import check_distribution
from skillstream.policies.policy import OptionPolicy


def simulate(
    policy: OptionPolicy,
    transitions: Float[np.ndarray, "S A S"],
    start: Float[np.ndarray, "S"],
    episode_lengths: list[int],
    seed: int = 0,
) -> Demonstrations:
    """Demonstrations of a tabular hierarchy, its options known.

    Parameters
    ----------
    policy
        The expert.
    transitions
        P(s' | s, a).
    start
        The distribution of each episode's first state.
    episode_lengths
        Steps of each episode.
    seed
        Gives the same demonstrations twice.
    """
    tables = policy.tables()
    states, _, actions = tables["action"].shape
    world = check_distribution("transitions", transitions, (states, actions, states))
    first = check_distribution("start", start, (states,))
    if not episode_lengths or min(episode_lengths) < 1:
        raise InputError(
            f"episode_lengths: give at least one length, each at least 1, found {episode_lengths}"
        )
    choose = {
        name: np.cumsum(table, -1) for name, table in {**tables, "world": world, "start": first}.items()
    }
    rng = np.random.default_rng(seed)
    rows = [
        row for length in episode_lengths for row in _episode(choose, rng.random((length, 4)), rng.random(2))
    ]
    observations, chosen, options = np.array(rows).T
    return Demonstrations(observations, chosen, episode_lengths, true_options=options)


def _episode(choose: dict[str, np.ndarray], uniforms: np.ndarray, first: np.ndarray):
    """States, actions and options of one episode, by inverting cumulative distributions."""

    def draw(cumulative, uniform):
        return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))

    state, option = draw(choose["start"], first[0]), draw(choose["initial"], first[1])
    for stop, select, act, move in uniforms:
        if draw(choose["termination"][state, option], stop):
            option = draw(choose["selection"][state], select)
        action = draw(choose["action"][state, option], act)
        yield state, action, option
        state = draw(choose["world"][state, action], move)
