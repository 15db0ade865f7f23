"""Experts by the short names of their tasks, and how well they do."""

import difflib

import numpy as np
from rich.console import Console

from skillstream.acting.evaluation import Evaluation, evaluate
from skillstream.environments.catalogue import SHORT_NAMES
from skillstream.environments.grid_world import grid_world_rules
from skillstream.environments.hidden_goal import hidden_goal_rules
from skillstream.errors import InputError
from skillstream.experts.acting import FlatExpert, HierarchicalExpert
from skillstream.experts.hierarchies import expected_return, grid_world_hierarchy, hidden_goal_hierarchy
from skillstream.experts.lunar_lander import land
from skillstream.experts.trained import TRAININGS, trained
from skillstream.policies.checks import check_whole

NAMES = tuple(SHORT_NAMES)
# Pendulum-v1 is not among them: its actions are torques, the expert's are numbers of levels.
_BY_ID = {known: name for name, (known, _) in SHORT_NAMES.items() if name != "pendulum"}
_LANDER_RETURN = 239.3  # measured over 1000 episodes

Expert = FlatExpert | HierarchicalExpert


def make_expert(name: str, seed: int = 0) -> Expert:
    """An expert for a task, which reads the observations that `make(name)` gives by default.

    Parameters
    ----------
    name
        `grid-world`, `hidden-goal` (both with options), `cart-pole`, `pendulum`, `mountain-car`,
        `acrobot` (trained by Q-learning) or `lunar-lander` (a heuristic); or the Gymnasium id of one.
    seed
        Of the draws, where options and actions are drawn; of the training, where the expert is trained: the
        expert of seed 0 comes with the package, another is trained in seconds and cached.

    Examples
    --------
    >>> make_expert("hidden-goal")
    HierarchicalExpert(hidden-goal, 2 options, return 12.39)
    """
    check_whole("seed", seed, 0)
    name = _BY_ID.get(name, name)
    if name == "grid-world":
        policy, rules = grid_world_hierarchy(), grid_world_rules()
        return HierarchicalExpert(name, policy, rules, expected_return(policy, rules, 100), seed)
    if name == "hidden-goal":
        policy, rules = hidden_goal_hierarchy(), hidden_goal_rules()
        return HierarchicalExpert(name, policy, rules, expected_return(policy, rules, 200), seed)
    if name == "lunar-lander":
        return FlatExpert(name, land, 8, _LANDER_RETURN)
    if name in TRAININGS:
        return _greedy(name, seed)
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there is one for each of {', '.join(NAMES)}"
    raise InputError(f"name: there is no expert for {name!r}; {hint}")


def describe(
    expert: str | Expert, episodes: int = 100, seed: int = 0, console: Console | None = None
) -> Evaluation:
    """Print an expert's mean return over some episodes of its task, and give it back."""
    actor = make_expert(expert, seed) if isinstance(expert, str) else expert
    result = evaluate(actor, actor.name, episodes, seed)
    low, high = result.interval
    shares = [] if result.usage is None else [f"{share:.0%}" for share in result.usage]
    options = f", options used {' / '.join(shares)}" if shares else ""
    (console or Console()).print(
        f"{actor.name}: mean return {result.mean:.2f} (95 % interval {low:.2f} to {high:.2f}) "
        f"over {episodes} episodes{options}",
        highlight=False,
    )
    return result


def _greedy(name: str, seed: int) -> FlatExpert:
    bins, learnt = TRAININGS[name].bins, trained(name, seed)
    return FlatExpert(name, lambda seen: learnt.actions[bins.encode(seen)], _width(name), learnt.score)


def _width(name: str) -> int:
    """How many numbers an observation has."""
    world = TRAININGS[name].world
    return world.observe(world.start(np.random.default_rng(0), 1)).shape[1]
