"""Evaluating and collecting: episodes counted as they should be, by whoever acts."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import skillstream as ss


class Countdown(gymnasium.Env):
    """Shows how many steps are left, and pays 1 for action 0; an episode lasts 3 or 7 steps, in turns."""

    observation_space = spaces.Discrete(8)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3 if self.episode % 2 == 0 else 7
        self.episode += 1
        return self.left, {}

    def step(self, action):
        assert self.left > 0
        self.left -= 1
        return self.left, float(action == 0), self.left == 0, False, {}


@pytest.fixture(autouse=True, scope="module")
def countdown():
    gymnasium.register("Countdown-v0", Countdown)
    yield
    del gymnasium.registry["Countdown-v0"]


class Told:
    """Does what it is told, and remembers what it was asked."""

    def __init__(self, action=0):
        self.action, self.calls = action, []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.calls.append((np.array(observation), state, np.array(episode_start), deterministic))
        return np.full(len(observation), self.action), (state or 0) + 1


class TakesTurns(Told):
    """Changes between two options where an episode begins."""

    num_options = 2

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        before = np.ones(len(observation), int) if state is None else state
        return np.zeros(len(observation), int), np.where(episode_start, 1 - before, before)


@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_every_episode_counts_once(parallel):
    result = ss.evaluate(Told(), "Countdown-v0", episodes=6, parallel=parallel)
    expected = {1: [3, 7, 3, 7, 3, 7], 2: [3, 7, 3, 3, 7, 3], 3: [3, 7, 3, 7, 3, 7]}[parallel]
    assert result.lengths.tolist() == expected
    assert result.returns.tolist() == expected
    assert result.mean == np.mean(expected)
    assert result.std == np.std(expected)
    assert result.usage is None
    low, high = result.interval
    assert 3 <= low < result.mean < high <= 7


def test_evaluating_tells_how_far_it_is():
    seen = []
    ss.evaluate(Told(), "Countdown-v0", episodes=3, parallel=1, progress=seen.append)
    assert seen == [0, 0, 1, 1, *[1] * 6, 2, 2, 2, 2, 3]


def test_episodes_begin_where_they_do():
    told = Told()
    ss.evaluate(told, "Countdown-v0", episodes=2, parallel=1, deterministic=True)
    left = [int(observation[0]) for observation, _, _, _ in told.calls]
    starts = [bool(start[0]) for _, _, start, _ in told.calls]
    assert left == [3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1]
    assert starts == [True, False, False, False, True] + 6 * [False]
    assert [state for _, state, _, _ in told.calls] == [None, *range(1, 11)]
    assert all(deterministic for *_, deterministic in told.calls)


def test_options_are_counted():
    result = ss.evaluate(TakesTurns(), "Countdown-v0", episodes=2, parallel=1)
    np.testing.assert_allclose(result.usage, [0.3, 0.7])
    np.testing.assert_allclose(result.durations, [3, 7])


@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_a_run_of_an_option_ends_with_its_episode(parallel):
    result = ss.evaluate(ss.OptionPolicy.tabular(1, 8, 2), "Countdown-v0", episodes=10, parallel=parallel)
    np.testing.assert_allclose(result.durations, [result.lengths.mean()])


def test_a_policy_acts_by_itself_and_a_seed_repeats():
    policy = ss.OptionPolicy.tabular(2, 8, 2, seed=1)
    one, two, other = (ss.evaluate(policy, "Countdown-v0", 20, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.returns, two.returns)
    assert one.returns.tolist() != other.returns.tolist()
    assert one.usage.sum() == pytest.approx(1)


def test_an_actor_that_draws_begins_anew():
    agent = ss.Agent(ss.OptionPolicy.tabular(2, 8, 2, seed=1), seed=9)
    one, two = (ss.evaluate(agent, "Countdown-v0", 20, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.returns, two.returns)


def test_an_agent_and_a_world_of_one_seed_draw_different_numbers():
    policy = ss.OptionPolicy.from_tables([[1.0]], [[[0.5, 0.5]]], [[[1.0, 0.0]]])
    agent, world = ss.Agent(policy, seed=3), np.random.default_rng(3)
    drawn = [agent.act(0) for _ in range(400)]
    for column in world.random((400, 4)).T:
        assert abs(np.corrcoef(drawn, column < 0.5)[0, 1]) < 0.2


def test_collecting_records_what_was_seen_and_done():
    demos = ss.collect(TakesTurns(), Countdown(), steps=12)
    assert demos.observations.tolist() == [3, 2, 1, 7, 6, 5, 4, 3, 2, 1, 3, 2]
    assert demos.episode_lengths.tolist() == [3, 7, 2]
    assert demos.true_options.tolist() == [0] * 3 + [1] * 7 + [0] * 2
    assert demos.rewards.tolist() == [1.0] * 12
    whole = ss.collect(Told(1), "Countdown-v0", episodes=2)
    assert whole.episode_lengths.tolist() == [3, 7]
    assert whole.actions.tolist() == [1] * 10
    assert whole.true_options is None


def test_collecting_repeats_and_tells_how_far_it_is():
    policy, seen = ss.OptionPolicy.tabular(2, 8, 2, seed=1), []
    one = ss.collect(policy, "Countdown-v0", steps=30, seed=5, progress=seen.append)
    two = ss.collect(policy, "Countdown-v0", steps=30, seed=5)
    np.testing.assert_array_equal(one.actions, two.actions)
    np.testing.assert_array_equal(one.true_options, two.true_options)
    assert seen == list(range(1, 31))


@pytest.mark.parametrize("amount", [{}, {"steps": 3, "episodes": 1}, {"steps": 0}, {"episodes": 1.5}])
def test_the_amount_must_be_one_number(amount):
    with pytest.raises(ss.InputError, match=r"^(steps|episodes)"):
        ss.collect(Told(), "Countdown-v0", **amount)


def test_bad_evaluations_are_named():
    with pytest.raises(ss.InputError, match="episodes: must be a whole number from 1"):
        ss.evaluate(Told(), "Countdown-v0", episodes=0)
    for name in ("seed", "parallel"):
        with pytest.raises(ss.InputError, match=f"{name}: must be a whole number"):
            ss.evaluate(Told(), "Countdown-v0", episodes=1, **{name: -1})
    with pytest.raises(ss.InputError, match="seed: must be a whole number from 0"):
        ss.collect(Told(), "Countdown-v0", steps=1, seed=-1)
    with pytest.raises(ss.InputError, match=r"observation: must have the shape \(\), found \(4,\)"):
        ss.evaluate(ss.OptionPolicy.tabular(2, 8, 2), "CartPole-v1", episodes=1)
