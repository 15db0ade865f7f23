"""The paper's grid world: foraging in the wind between two sites that pay now and then.

What the paper leaves open is decided so. The map has row 0 in the north, with the base in the north
west, the first site in the north east and the second in the south east, a wall with two gaps
between them. An action moves the agent; then, with probability `wind`, a gust pushes it one cell on.
A move into a tree or over the edge, or being blown there, is a crash and leads to the base. If the cell
where the step ends pays in the reward state psi that the agent saw, it is paid 1 and psi changes by
collecting; otherwise psi changes by itself. From psi = 3 the first site lights up with probability
0.1, and if it did not, the second does with 0.2, that is with 0.18 in all. A site does not light up
while the agent stands on it, so that one must forage: if it did, the best would be to stay at the second
site for ever. (In the authors' program a site that lights up under the agent goes out unpaid, which
comes to the same.)
"""

from functools import lru_cache

import numpy as np

from skillstream.environments.grid_environment import GridEnvironment
from skillstream.environments.layout import Layout
from skillstream.environments.rules import GridRules
from skillstream.errors import InputError

LAYOUT = Layout("""
    ..........
    .B......1.
    ..........
    ..........
    ..........
    #..####..#
    ..........
    ..........
    ..........
    ........2.
    ..........
""")
_FIRST, _SECOND, _BOTH, _NONE = range(4)
_CAPTIONS = (
    "psi = 0: site 1 pays",
    "psi = 1: site 2 pays",
    "psi = 2: both sites pay",
    "psi = 3: no site pays",
)


@lru_cache(maxsize=8)
def grid_world_rules(wind: float = 0.1) -> GridRules:
    """The rules of the grid world, with their tables."""
    if not 0 <= wind <= 1:
        raise InputError(f"wind: is a probability, found {wind!r}")
    rewards = np.zeros((4, len(LAYOUT.cells)))
    rewards[_FIRST, LAYOUT.sites[0]] = rewards[_SECOND, LAYOUT.sites[1]] = 1
    rewards[_BOTH, LAYOUT.sites] = 1
    return GridRules(
        layout=LAYOUT,
        moves=LAYOUT.windy_moves(wind),
        modes=_reward_states(),
        rewards=rewards,
        first_modes=np.eye(4)[_NONE],
        lit=np.array([[True, False], [False, True], [True, True], [False, False]]),
        captions=_CAPTIONS,
        visible=True,
    )


class GridWorld(GridEnvironment):
    """The windy foraging grid world.

    Actions: north, south, east, west, hover. Observations: row, column and reward state psi, or
    their number (`observation="index"`). Registered as `skillstream/GridWorld-v0`, 100 steps an episode.

    Examples
    --------
    >>> world = GridWorld(render_mode="ansi")
    >>> world.reset(seed=0)[0]
    array([1., 1., 3.], dtype=float32)
    >>> world.encode(world.reset()[0])
    np.int64(47)
    """

    def __init__(
        self, observation: str = "coordinates", wind: float = 0.1, render_mode: str | None = None
    ) -> None:
        super().__init__(grid_world_rules(wind), observation, render_mode)


def _reward_states() -> np.ndarray:
    """P(psi' | psi, the cell where the step ends), `[4, C, 4]`."""
    alone = np.array(
        [
            [0.8, 0.0, 0.2, 0.0],
            [0.0, 0.9, 0.1, 0.0],
            [0.0, 0.0, 1.0, 0.0],
            [0.1, 0.9 * 0.2, 0.0, 0.9 * 0.8],
        ]
    )
    changes = np.repeat(alone[:, None], len(LAYOUT.cells), 1)
    first, second = LAYOUT.sites
    without_first, without_second = [_NONE, _SECOND, _SECOND, _NONE], [_FIRST, _NONE, _FIRST, _NONE]
    for site, without in ((first, without_first), (second, without_second)):
        changes[:, site] = alone @ np.eye(4)[without]
    collected = np.eye(4)
    changes[_FIRST, first] = changes[_SECOND, second] = collected[_NONE]
    changes[_BOTH, first], changes[_BOTH, second] = collected[_SECOND], collected[_FIRST]
    return changes
