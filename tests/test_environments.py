"""The worlds: their rules, their pictures, and how they are made."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from skillstream.environments import registration
from skillstream.environments.catalogue import SHORT_NAMES, make_env, make_vector
from skillstream.environments.discretising import BinnedObservations, Bins, DiscreteActions, DiscreteTorques
from skillstream.environments.grid_world import GridWorld, grid_world_rules
from skillstream.environments.hidden_goal import HiddenGoal, hidden_goal_rules
from skillstream.environments.layout import EAST, HOVER, NORTH, SOUTH, WEST
from skillstream.errors import InputError

WORLDS = {"grid-world": GridWorld, "hidden-goal": HiddenGoal}
RULES = {"grid-world": grid_world_rules(), "hidden-goal": hidden_goal_rules()}
SITES = ([1, 8], [9, 8])


def at(row: int, column: int) -> int:
    return int(RULES["grid-world"].layout.number(np.array([row, column])))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("observation", ["coordinates", "index"])
@pytest.mark.parametrize("render_mode", ["rgb_array", "ansi", None])
def test_worlds_pass_gymnasiums_own_checks(world, observation, render_mode):
    check_env(make_env(world, render_mode, observation=observation).unwrapped)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_tables_are_probabilities(rules):
    dynamics = rules.dynamics
    assert (dynamics.transitions >= 0).all()
    np.testing.assert_allclose(dynamics.transitions.sum(-1), 1, atol=1e-12)
    assert dynamics.start.sum() == pytest.approx(1)


def test_the_grid_world_is_of_the_papers_size():
    rules = RULES["grid-world"]
    assert rules.layout.grid.shape == (11, 10)
    assert len(rules.layout.cells) == 104
    assert rules.dynamics.transitions.shape == (416, 5, 416)
    trees = np.argwhere(rules.layout.numbers < 0)
    assert trees.tolist() == [[5, column] for column in (0, 3, 4, 5, 6, 9)]
    assert rules.layout.cells[rules.layout.base].tolist() == [1, 1]
    assert rules.layout.cells[list(rules.layout.sites)].tolist() == list(SITES)
    world = make_env("grid-world")
    assert world.reset(seed=0)[0].tolist() == [1, 1, 3]
    assert world.spec is not None
    assert world.spec.max_episode_steps == 100


def test_a_move_then_a_gust():
    moves = RULES["grid-world"].moves
    expected = {(3, 4): 0.9, (2, 4): 0.025, (4, 4): 0.025, (3, 3): 0.025, (3, 5): 0.025}
    for action, start in ((NORTH, (4, 4)), (SOUTH, (2, 4)), (EAST, (3, 3)), (WEST, (3, 5)), (HOVER, (3, 4))):
        row = np.zeros(104)
        for cell, probability in expected.items():
            row[at(*cell)] = probability
        np.testing.assert_allclose(moves[at(*start), action], row, atol=1e-15)


@pytest.mark.parametrize(
    ("start", "action"),
    [((0, 4), NORTH), ((10, 4), SOUTH), ((2, 9), EAST), ((2, 0), WEST), ((4, 3), SOUTH), ((5, 7), WEST)],
)
def test_an_invalid_move_leads_to_the_base_for_certain(start, action):
    rules = RULES["grid-world"]
    assert rules.moves[at(*start), action, rules.layout.base] == 1


def test_a_gust_into_a_tree_or_over_the_edge_leads_to_the_base():
    rules = RULES["grid-world"]
    corner = rules.moves[at(0, 9), HOVER]
    assert corner[rules.layout.base] == pytest.approx(0.05)
    assert corner[at(0, 9)] == pytest.approx(0.9)
    assert rules.moves[at(6, 4), HOVER, rules.layout.base] == pytest.approx(0.025)
    crashes = rules.layout.crash_chances(0.1)
    assert crashes[at(0, 9), [NORTH, HOVER, SOUTH]].tolist() == pytest.approx([1, 0.05, 0.025])
    assert crashes[at(3, 3), SOUTH] == pytest.approx(0.025)


def test_the_reward_state_changes_as_the_paper_says():
    rules = RULES["grid-world"]
    first, second = (at(*site) for site in SITES)
    elsewhere = at(3, 3)
    expected = [[0.8, 0, 0.2, 0], [0, 0.9, 0.1, 0], [0, 0, 1, 0], [0.1, 0.18, 0, 0.72]]
    np.testing.assert_allclose(rules.modes[:, elsewhere], expected)
    np.testing.assert_array_equal(
        rules.modes[[0, 1, 2, 2], [first, second, first, second]], np.eye(4)[[3, 3, 1, 0]]
    )
    # A site does not light up under the agent.
    np.testing.assert_allclose(rules.modes[[1, 3], first], [[0, 1, 0, 0], [0, 0.18, 0, 0.82]])
    np.testing.assert_allclose(rules.modes[[0, 3], second], [[1, 0, 0, 0], [0.1, 0, 0, 0.9]])
    paid = np.zeros((4, 104))
    paid[[0, 2], first] = paid[[1, 2], second] = 1
    np.testing.assert_array_equal(rules.rewards, paid)


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_step_by_their_tables(name):
    """Frequencies of next states and the mean reward, from states that matter."""
    world, dynamics, rules = WORLDS[name](), RULES[name].dynamics, RULES[name]
    world.reset(seed=1)
    draws = 3000
    cells = [rules.layout.base, *rules.layout.sites, *rules.layout.neighbours[list(rules.layout.sites), 3]]
    for cell, mode in ((cell, mode) for cell in cells for mode in range(rules.num_modes)):
        state, action = cell * rules.num_modes + mode, (cell + mode) % rules.num_actions
        counts, total = np.zeros(len(dynamics.transitions)), 0.0
        for _ in range(draws):
            world._cell, world._mode = cell, mode
            _, reward, _, _, _ = world.step(action)
            counts[world._cell * rules.num_modes + world._mode] += 1
            total += reward
        expected = dynamics.transitions[state, action]
        error = np.sqrt(expected * (1 - expected) / draws)
        assert (np.abs(counts / draws - expected) <= 5 * error).all()
        mean = dynamics.rewards[state, action]
        assert abs(total / draws - mean) <= 5 * np.sqrt(mean * (1 - mean) / draws) + 1e-12


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("observation", ["coordinates", "index"])
def test_a_seed_gives_the_same_episode_twice(name, observation):
    episodes = []
    for seed in (5, 5, 6):
        world = make_env(name, observation=observation)
        world.reset(seed=seed)
        steps = [world.step(action % 4) for action in range(90)]
        episodes.append(np.array([np.append(seen, reward) for seen, reward, *_ in steps]))
    np.testing.assert_array_equal(episodes[0], episodes[1])
    assert (episodes[0] != episodes[2]).any()


@pytest.mark.parametrize(("name", "count"), [("grid-world", 416), ("hidden-goal", 35)])
def test_coordinates_and_numbers_say_the_same(name, count):
    seen, numbered = make_env(name, observation="coordinates"), make_env(name, observation="index")
    rules = RULES[name]
    np.testing.assert_array_equal(rules.encode(rules.decode(np.arange(count))), np.arange(count))
    first, _ = seen.reset(seed=3)
    assert rules.encode(first) == numbered.reset(seed=3)[0]
    for action in range(60):
        assert rules.encode(seen.step(action % 4)[0]) == numbered.step(action % 4)[0]


def test_the_hidden_goal_is_hidden_and_alternates():
    rules = RULES["hidden-goal"]
    for goal, site in enumerate(rules.layout.sites):
        assert rules.rewards[goal].nonzero()[0].tolist() == [site]
        np.testing.assert_array_equal(rules.modes[goal, site], np.eye(2)[1 - goal])
        others = np.delete(np.arange(35), site)
        assert (rules.modes[goal, others] == np.eye(2)[goal]).all()
    firsts = [make_env("hidden-goal").reset(seed=seed) for seed in range(40)]
    assert {observation for observation, _ in firsts} == {rules.layout.base}
    assert {info["mode"] for _, info in firsts} == {0, 1}


def test_pictures_show_the_sites_and_the_agent():
    world = GridWorld(render_mode="rgb_array")
    world.reset(seed=0)
    frame = world.render()
    assert frame.shape == (11 * 32, 10 * 32, 3)
    assert frame.dtype == np.uint8
    middle = slice(32 + 10, 64 - 10)
    assert frame[middle, middle].reshape(-1, 3).mean(0) == pytest.approx([0, 114, 178], abs=30)
    site = frame[32:64, 8 * 32 : 9 * 32].copy()
    world._mode = 0
    lit = world.render()
    assert lit[32:64, 8 * 32 : 9 * 32, 2].mean() < site[..., 2].mean() - 50  # gold has little blue
    np.testing.assert_array_equal(frame[5 * 32 :], lit[5 * 32 :])
    world._cell = at(1, 2)
    moved = world.render()
    assert (moved != lit).any(2)[32:64, 32:96].sum() > 300
    assert not (moved != lit).any(2)[64:].any()


def test_text_shows_the_same():
    world = GridWorld(render_mode="ansi")
    world.reset(seed=0)
    lines = world.render().splitlines()
    assert lines[1] == ". A . . . . . . o ."
    assert lines[5] == "# . . # # # # . . #"
    assert lines[11] == "psi = 3: no site pays"
    world._mode = 2
    assert [line[16] for line in (world.render().splitlines()[row] for row in (1, 9))] == ["*", "*"]


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_short_names_make_environments(name):
    world, vector = make_env(name), make_vector(name, 3)
    assert vector.num_envs == 3
    assert vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert vector.single_action_space == world.action_space
    first, _ = vector.reset(seed=0)
    assert len(first) == 3
    vector.step(vector.action_space.sample())
    vector.close()


def test_names_ids_and_environments_all_do():
    cart = make_env("cart-pole")
    assert cart.spec is not None
    assert (cart.spec.id, cart.spec.max_episode_steps) == ("CartPole-v1", 2000)
    assert make_env(cart) is cart
    assert make_env("CartPole-v1").spec.max_episode_steps == 500  # pyright: ignore[reportOptionalMemberAccess]
    assert make_env("cart-pole", max_episode_steps=7).spec.max_episode_steps == 7  # pyright: ignore[reportOptionalMemberAccess]
    assert make_env("pendulum", levels=3).action_space == gymnasium.spaces.Discrete(3)
    assert make_env(GridWorld).reset(seed=0)[0].tolist() == [1, 1, 3]
    assert make_vector(lambda: GridWorld("index"), 2).reset(seed=0)[0].tolist() == [47, 47]
    alone = make_vector(cart, 1)
    assert alone.reset(seed=1)[0][0].tolist() == make_env("cart-pole").reset(seed=1)[0].tolist()


def test_vector_copies_end_and_begin_anew_on_the_next_step():
    vector = make_vector("grid-world", 2, max_episode_steps=3)
    vector.reset(seed=0)
    ends = [vector.step(np.array([4, 4])) for _ in range(4)]
    assert [step[3].tolist() for step in ends] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert ends[3][0].tolist() == [[1, 1, 3]] * 2
    assert ends[3][1].tolist() == [0, 0]


def test_registering_twice_changes_nothing():
    registration.register()
    world = gymnasium.make("skillstream.environments:skillstream/HiddenGoal-v0")
    assert world.spec is not None
    assert world.spec.max_episode_steps == 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cartpole", "did you mean cart-pole"),
        ("gridworld", "did you mean grid-world"),
        ("LunarLander-v9", "did you mean LunarLander-v3"),
        ("nothing of the sort", "cannot be made: Malformed"),
        ("NothingOfTheSort-v0", "short names are grid-world"),
        ("Humanoid-v5", r"pip install .gymnasium\[mujoco\]"),
    ],
)
def test_unknown_names_are_explained(name, message):
    with pytest.raises(InputError, match=message):
        make_env(name)


def test_a_missing_package_names_its_extra():
    code = """
import sys
sys.modules["Box2D"] = None
from skillstream.environments.catalogue import make_env
from skillstream.errors import MissingExtraError
try:
    make_env("lunar-lander")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install skillstream[box2d]" in done.stdout


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_env("grid-world", observation="pixels"), "observation: 'pixels' is not known"),
        (lambda: GridWorld(render_mode="human"), "render_mode: 'human'"),
        (lambda: make_env("grid-world", wind=1.5), "wind: is a probability"),
        (lambda: make_env("hidden-goal", slip=-1.0), "slip: is a probability"),
        (lambda: make_env("grid-world", winds=0.5), "settings: skillstream/GridWorld-v0 does not take them"),
        (lambda: make_env(GridWorld(), wind=0.2), "is an environment or makes one"),
        (lambda: make_vector(GridWorld(), 2), "cannot be copied 2 times"),
        (lambda: make_vector("grid-world", 0), "num_envs: must be at least 1"),
        (lambda: GridWorld().step(5), "action: must be from 0 to 4"),
        (lambda: GridWorld().encode(np.array([5, 0, 0])), "row 5, column 0 is not a free cell"),
        (lambda: GridWorld().encode(np.array([0, 12, 0])), "row 0, column 12"),
        (lambda: GridWorld().encode(np.array([0, 0, 4])), "last coordinate must be from 0 to 3"),
        (lambda: GridWorld().encode(np.array([0, 0])), "have 3 numbers each"),
        (lambda: GridWorld().decode(np.array([416])), "states: must be from 0 to 415"),
        (lambda: DiscreteTorques(GridWorld()), "needs a single continuous action"),
        (lambda: DiscreteTorques(PendulumEnv(), 1), "levels: must be at least 2"),
        (lambda: DiscreteActions(GridWorld(), [[0.0]]), "must be a Box"),
        (lambda: DiscreteActions(PendulumEnv(), [0.0]), "actions: must have the shape"),
        (lambda: DiscreteActions(PendulumEnv(), [[3.0]]), r"\[3.0\] is not in"),
        (lambda: Bins([[0.0, 0.0]]), "coordinate 0 must have a rising list"),
        (lambda: Bins([[0.0]]).encode(np.zeros((4, 2))), "must have 1 numbers each"),
        (lambda: BinnedObservations(PendulumEnv(), Bins([[0.0]])), "bins: are for 1 coordinates"),
        (lambda: BinnedObservations(HiddenGoal(), Bins([[0.0]])), "env: its observations must be a Box"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_discrete_torques_are_the_continuous_ones():
    finite, continuous = make_env("pendulum"), gymnasium.make("Pendulum-v1")
    finite.reset(seed=2)
    continuous.reset(seed=2)
    for number, torque in enumerate([-2, -1, 0, 1, 2]):
        seen, reward, *_ = finite.step(number)
        expected, expected_reward, *_ = continuous.step(np.array([torque], np.float32))
        np.testing.assert_array_equal(seen, expected)
        assert reward == expected_reward


def test_a_wrapped_environment_can_be_made_again_from_its_spec():
    world = make_env("pendulum", levels=3)
    assert world.spec is not None
    again = gymnasium.make(world.spec)
    assert again.action_space == gymnasium.spaces.Discrete(3)
    np.testing.assert_array_equal(again.reset(seed=4)[0], world.reset(seed=4)[0])


def test_binned_observations_are_numbers():
    bins = Bins([[-0.5, 0.5], [0.0], [-1.0, 0.0, 1.0]])
    world = BinnedObservations(PendulumEnv(), bins)
    assert world.observation_space == gymnasium.spaces.Discrete(24)
    first, _ = world.reset(seed=0)
    assert first == bins.encode(PendulumEnv().reset(seed=0)[0])
    assert bins.encode([[-1, -1, -2], [0.5, 0, 0], [1, 1, 8]]).tolist() == [0, 8 * 2 + 4 + 2, 23]
