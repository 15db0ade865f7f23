"""The known two-option hierarchies of the grid worlds, built on value iteration towards each site."""

import numpy as np
from jaxtyping import Float

from skillstream.environments.grid_world import grid_world_rules
from skillstream.environments.hidden_goal import hidden_goal_rules
from skillstream.environments.layout import HOVER
from skillstream.environments.rules import GridRules
from skillstream.experts.value_iteration import value_iteration
from skillstream.policies.policy import OptionPolicy

CRASH_COST = 10


def grid_world_hierarchy(wind: float = 0.1) -> OptionPolicy:
    """Option 0 forages at the first site, option 1 at the second; on the numbers of (row, column, psi).

    Where one site pays, its option takes over; where both do, the nearer one's. Where none does, the running
    option goes on, and hands over to the other when it has arrived: that is what the state does not tell.
    """
    rules = grid_world_rules(wind)
    layout, cells = rules.layout, len(rules.layout.cells)
    costs = 1 + (CRASH_COST - 1) * layout.crash_chances(wind)
    ways, lengths = zip(*(_way_to(site, rules.moves, costs, HOVER) for site in layout.sites), strict=True)
    nearer = np.eye(2)[np.argmin(lengths, 0)]
    selection = np.stack(
        [np.tile([1.0, 0.0], (cells, 1)), np.tile([0.0, 1.0], (cells, 1)), nearer, nearer], 1
    )
    stop = 1 - selection
    stop[:, 3] = 0
    for option, site in enumerate(layout.sites):
        selection[site, 3] = np.eye(2)[1 - option]
        stop[site, 3, option] = 1
    action = np.repeat(np.stack(ways, 1), 4, 0)
    return _policy(selection.reshape(-1, 2), action, stop.reshape(-1, 2))


def hidden_goal_hierarchy(slip: float = 0.1) -> OptionPolicy:
    """Option 0 goes to the first site, option 1 to the second; each stops there and hands over."""
    rules = hidden_goal_rules(slip)
    cells, costs = len(rules.layout.cells), np.ones((len(rules.layout.cells), rules.num_actions))
    ways = [_way_to(site, rules.moves, costs)[0] for site in rules.layout.sites]
    selection, stop = np.full((cells, 2), 0.5), np.zeros((cells, 2))
    for option, site in enumerate(rules.layout.sites):
        selection[site] = np.eye(2)[1 - option]
        stop[site, option] = 1
    return _policy(selection, np.stack(ways, 1), stop)


def expected_return(policy: OptionPolicy, rules: GridRules, horizon: int) -> float:
    """The exact mean return of a tabular hierarchy over episodes of `horizon` steps in a grid task."""
    tables = policy.tables()
    dynamics, seen = rules.dynamics, _observed(rules)
    selection, stop, action = (
        tables["selection"][seen],
        tables["termination"][seen, :, 1],
        tables["action"][seen],
    )
    moves = np.einsum("soa,san->son", action, dynamics.transitions)
    paid = np.einsum("soa,sa->so", action, dynamics.rewards)
    weight, total = np.outer(dynamics.start, tables["initial"]), 0.0
    for _ in range(horizon):
        stopping = weight * stop
        weight = weight - stopping + stopping.sum(1, keepdims=True) * selection
        total += float((weight * paid).sum())
        weight = np.einsum("so,son->no", weight, moves)
    return total


def _observed(rules: GridRules) -> np.ndarray:
    """What the agent sees in each state of the tables, `[S]`."""
    cells, modes = np.divmod(np.arange(len(rules.layout.cells) * rules.num_modes), rules.num_modes)
    return cells * rules.num_modes + modes if rules.visible else cells


def _way_to(
    site: int, moves: Float[np.ndarray, "C A C"], costs: Float[np.ndarray, "C A"], rest: int | None = None
) -> tuple[Float[np.ndarray, "C A"], Float[np.ndarray, "C"]]:
    """The cheapest way to a site from every cell, and what it costs; there, `rest` or what does no harm."""
    moves, costs = moves.copy(), costs.copy()
    moves[site], costs[site] = np.eye(len(moves))[site], 0
    solution = value_iteration(moves, -costs, discount=1.0)
    way = solution.policy()
    if rest is not None:
        way[site] = np.eye(way.shape[1])[rest]
    return way, -solution.values


def _policy(selection: np.ndarray, action: np.ndarray, stop: np.ndarray) -> OptionPolicy:
    return OptionPolicy.from_tables(selection, action, np.stack([1 - stop, stop], -1))
