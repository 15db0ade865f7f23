import numpy as np
import pytest

import skillstream as ss


@pytest.fixture
def demos():
    return ss.Demonstrations(
        [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 4.0], [4.0, 5.0]],
        [0, 1, 1, 0, 2],
        episode_lengths=[2, 1, 2],
        rewards=[0, 0, 1, 0, 1],
        action_mask=[True, True, False, True, True],
        true_options=[0, 0, 1, 1, 1],
    )


def test_columns_are_kept_and_frozen(demos):
    assert (demos.num_steps, demos.num_episodes, len(demos)) == (5, 3, 3)
    assert demos.episode_starts.tolist() == [True, False, True, True, False]
    assert demos.rewards.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        demos.actions[0] = 5
    with pytest.raises(AttributeError):
        demos.actions = np.zeros(5)
    assert "3 episodes, 5 steps" in repr(demos)


def test_the_callers_array_stays_theirs():
    actions = np.array([0, 1])
    demos = ss.Demonstrations([0, 1], actions)
    actions[0] = 7
    assert demos.actions.tolist() == [0, 1]


def test_episodes_are_chosen_like_a_sequence(demos):
    assert demos[1].observations.tolist() == [[2.0, 3.0]]
    assert demos[-1].true_options.tolist() == [1, 1]
    assert demos[::2].episode_lengths.tolist() == [2, 2]
    assert demos[[2, 0]].actions.tolist() == [0, 2, 0, 1]
    assert [episode.num_steps for episode in demos] == [2, 1, 2]
    with pytest.raises(IndexError, match="3 episodes"):
        demos[3]
    with pytest.raises(ss.InputError, match="chooses none"):
        demos[3:]


def test_concatenating_the_episodes_gives_the_whole(demos):
    whole = ss.Demonstrations.concatenate(list(demos))
    for name in ("observations", "actions", "episode_lengths", "rewards", "action_mask", "true_options"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(demos, name))
    with pytest.raises(ss.InputError, match="rewards: given in some"):
        ss.Demonstrations.concatenate([demos, ss.Demonstrations([[0.0, 1.0]], [0])])
    with pytest.raises(ss.InputError, match="observations: the parts hold"):
        ss.Demonstrations.concatenate([ss.Demonstrations([0], [0]), ss.Demonstrations([[0.0]], [0])])
    with pytest.raises(ss.InputError, match="parts: the list is empty"):
        ss.Demonstrations.concatenate([])


def test_a_split_keeps_every_episode_once():
    demos = ss.Demonstrations(np.arange(30), np.zeros(30, int), [3] * 10)
    one, other = demos.split(0.7, seed=3)
    assert (one.num_episodes, other.num_episodes) == (7, 3)
    assert sorted([*one.observations, *other.observations]) == list(range(30))
    again, _ = demos.split(0.7, seed=3)
    np.testing.assert_array_equal(one.observations, again.observations)
    assert demos.split(0.001)[0].num_episodes == 1
    with pytest.raises(ss.InputError, match="fraction"):
        demos.split(1.0)
    with pytest.raises(ss.InputError, match="only one episode"):
        demos[0].split(0.5)


def test_steps_are_located_in_their_episode(demos):
    assert [demos.locate(row) for row in range(5)] == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]


def test_what_a_masked_action_holds_does_not_matter():
    demos = ss.Demonstrations([0, 1], [[np.nan], [0.5]], action_mask=[False, True])
    assert np.isfinite(demos.actions).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0]), "actions: must have one row a step; observations has 2, actions 1"),
        (([0, -1], [0, 0]), "observations: step 1 holds -1, which is negative"),
        (([0, 1], [0, -2]), "actions: step 1 holds -2, which is negative"),
        (([[0.0], [np.nan]], [0, 0]), "observations: step 1 holds .nan., which is not finite"),
        (([[0.0], [np.inf]], [0, 0]), "not finite"),
        (([0.0, 1.5], [0, 0]), "observations: found floats in one dimension"),
        (([], []), "observations: there is no step"),
        (([0, 1], [0, 0], [1, 0, 1]), "episode_lengths: episode 1 has 0 steps"),
        (([0, 1], [0, 0], [1]), "episode_lengths: they add up to 1, but there are 2 steps"),
        (([0, 1], [0, 0], [[2]]), "episode_lengths: must be integers"),
        (([0, 1], [0, 0], [1.0, 1.0]), "episode_lengths: must be integers"),
        (([0, 1], [0, 0], None, [1.0]), "rewards: must have one row"),
        (([0, 1], [0, 0], None, [1.0, np.nan]), "rewards: step 1"),
        (([0, 1], [0, 0], None, None, [1, 0]), "action_mask: must be booleans"),
        (([0, 1], [0, 0], None, None, None, [0.5, 1]), "true_options: found floats"),
        (([0, 1], [0, 0], None, None, None, [[0], [1]]), "true_options: must be integers"),
        ((["a", "b"], [0, 0]), "observations: must be integers or floats"),
        (([[0], [0, 1]], [0, 0]), "observations: the rows have different lengths"),
        ((np.zeros((2, 2, 2)), [0, 0]), "observations: must have the shape"),
        (([0, 1], 3), "actions: must have the shape"),
        ((np.array([2**63, 1], np.uint64), [0, 0]), "does not fit"),
        (([True, False], [0, 0]), "observations: must be integers or floats, found bool"),
    ],
)
def test_bad_data_are_refused_by_name(arguments, message):
    with pytest.raises(ss.InputError, match=message):
        ss.Demonstrations(*arguments)


def test_episodes_one_by_one():
    demos = ss.Demonstrations.from_episodes([([0, 1, 2], [1, 0, 1]), ([2], [0])])
    assert demos.observations.tolist() == [0, 1, 2, 2]
    assert demos.episode_lengths.tolist() == [3, 1]


def test_episodes_as_rows_are_not_taken_for_steps():
    rows = np.zeros((3, 300), int)
    with pytest.raises(ss.InputError, match="if each row is an episode, use Demonstrations"):
        ss.Demonstrations(list(rows), list(rows))
    with pytest.raises(ss.InputError, match="or episodes one by one to Demonstrations"):
        ss.Demonstrations([np.zeros(3, int), np.zeros(4, int)], [np.zeros(3, int), np.zeros(4, int)])
    assert ss.Demonstrations(np.zeros((300, 3), int), np.zeros((300, 3), int)).num_steps == 300


def test_lengths_that_overflow_do_not_add_up():
    with pytest.raises(ss.InputError, match="episode_lengths: they add up"):
        ss.Demonstrations([0, 1, 1], [0, 1, 1], episode_lengths=[2**62] * 4 + [3])


def test_steps_that_are_not_there_are_not_located():
    with pytest.raises(IndexError, match="there are 2 steps, found 2"):
        ss.Demonstrations([0, 1], [0, 1]).locate(2)


def test_actions_not_recorded_show():
    assert "1 not recorded" in repr(ss.Demonstrations([0, 1], [0, 1], action_mask=[True, False]))


def test_the_first_steps_are_cut_within_an_episode(demos):
    for steps in (1, 4, demos.num_steps, demos.num_steps + 9):
        first = demos.head(steps)
        assert first.num_steps == min(steps, demos.num_steps)
        np.testing.assert_array_equal(first.actions, demos.actions[:steps])
        np.testing.assert_array_equal(first.episode_starts, demos.episode_starts[:steps])


def test_gaps_cut_episodes():
    demos = ss.Demonstrations(np.arange(6), np.zeros(6, int), episode_lengths=[4, 2], rewards=np.arange(6.0))
    kept = demos.where(np.array([True, False, True, True, True, True]))
    assert kept.observations.tolist() == [0, 2, 3, 4, 5]
    assert kept.episode_lengths.tolist() == [1, 2, 2]
    assert kept.rewards.tolist() == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("marks", [[1, 0, 1], [True], [False, False, False]])
def test_marks_that_choose_nothing_are_refused(marks):
    with pytest.raises(ss.InputError, match="steps: "):
        ss.Demonstrations([0, 1, 2], [0, 0, 0]).where(np.array(marks))


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_a_head_of_no_steps_is_refused(steps):
    with pytest.raises(ss.InputError, match="steps: must be a whole number"):
        ss.Demonstrations([0, 1, 2], [0, 0, 0]).head(steps)
