"""Fetch and deliver: a world that does not tell which of two sites is wanted next.

Two rooms are joined by a corridor one cell wide. The sites lie in the far corners of the rooms and are wanted
in turn; reaching the wanted one is paid 1, and the other becomes wanted. The agent sees its position only, so
in the corridor a policy without memory walks at random. Two options, each of which goes to its site
and hands over there, need no more than what is seen: whichever site was wanted first, from the
second visit on they go where they should. Over 200 steps they are paid 12.4 on average; the best policy
without options that gradient ascent on the exact return found, from eight starts, 1.9.
"""

from functools import lru_cache

import numpy as np

from skillstream.environments.grid_environment import GridEnvironment
from skillstream.environments.layout import Layout
from skillstream.environments.rules import GridRules
from skillstream.errors import InputError

LAYOUT = Layout("""
    ...#####..2
    ...#####...
    .....B.....
    ...#####...
    1..#####...
""")


@lru_cache(maxsize=8)
def hidden_goal_rules(slip: float = 0.1) -> GridRules:
    """The rules of the hidden-goal world, with their tables; the mode is the wanted site."""
    if not 0 <= slip <= 1:
        raise InputError(f"slip: is a probability, found {slip!r}")
    cells = len(LAYOUT.cells)
    rewards = np.zeros((2, cells))
    modes = np.repeat(np.eye(2)[:, None], cells, 1)
    for goal, site in enumerate(LAYOUT.sites):
        rewards[goal, site] = 1
        modes[goal, site] = np.eye(2)[1 - goal]
    return GridRules(
        layout=LAYOUT,
        moves=LAYOUT.slippery_moves(slip),
        modes=modes,
        rewards=rewards,
        first_modes=np.full(2, 0.5),
        lit=np.eye(2, dtype=bool),
        captions=("site 1 is wanted (hidden)", "site 2 is wanted (hidden)"),
        visible=False,
    )


class HiddenGoal(GridEnvironment):
    """Two sites that are wanted in turn, which the observation does not tell.

    Actions: north, south, east, west; with probability `slip` a random one is made instead. Observations: the
    cell's number, or its row and column (`observation="coordinates"`). The wanted site is in
    `info["mode"]`. Registered as `skillstream/HiddenGoal-v0`, 200 steps an episode.

    Examples
    --------
    >>> world = HiddenGoal()
    >>> world.reset(seed=0)[0] == world.encode([2, 5])
    np.True_
    """

    def __init__(self, observation: str = "index", slip: float = 0.1, render_mode: str | None = None) -> None:
        super().__init__(hidden_goal_rules(slip), observation, render_mode)
