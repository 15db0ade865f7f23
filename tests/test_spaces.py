"""Gymnasium's spaces as columns, there and back."""

import numpy as np
import pytest
from gymnasium import spaces

import skillstream as ss
from skillstream.demonstrations.spaces import unflatten_actions

NESTED = spaces.Dict(
    {"at": spaces.Box(-1, 1, (2,)), "in": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (1, 2))))}
)
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "from five": spaces.Discrete(3, start=5),
    "several": spaces.MultiDiscrete([2, 4]),
    "a grid of them": spaces.MultiDiscrete([[2, 4], [3, 3]]),
    "binary": spaces.MultiBinary(3),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float64),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_there_and_back(name):
    space = ACTIONS[name]
    space.seed(0)
    drawn = [space.sample() for _ in range(20)]
    column = ss.flatten_actions(space, drawn)
    demos = ss.Demonstrations(np.zeros(20, int), column)
    back = unflatten_actions(space, demos.actions)
    assert len(back) == 20
    for one, other in zip(back, drawn, strict=True):
        assert one in space
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_boxes_are_kept_to_their_edges():
    space = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 0.5]), dtype=np.float64)
    np.testing.assert_array_equal(unflatten_actions(space, np.array([[-3.0, 2.0]])), [[-1.0, 0.5]])


@pytest.mark.parametrize("by_column", [False, True])
def test_nested_observations_are_flattened_as_gymnasium_does(by_column):
    NESTED.seed(0)
    drawn = [NESTED.sample() for _ in range(5)]
    given = drawn
    if by_column:
        inner = zip(*(step["in"] for step in drawn), strict=True)
        given = {"at": [step["at"] for step in drawn], "in": tuple(map(list, inner))}
    flat = ss.flatten_observations(NESTED, given)
    np.testing.assert_allclose(flat, [spaces.flatten(NESTED, step) for step in drawn])
    assert flat.shape == (5, 7)


def test_discrete_observations_stay_numbers():
    assert ss.flatten_observations(spaces.Discrete(4, start=-1), [-1, 2, 0]).tolist() == [0, 3, 1]


@pytest.mark.parametrize(
    ("space", "values", "message"),
    [
        (spaces.Discrete(3), [0, 3], "actions: step 1 holds 3, which is not in the space"),
        (spaces.Discrete(3), [0.5], "actions: must be integers"),
        (spaces.MultiDiscrete([2, 2]), [[0, 1, 1]], r"actions: must have 2 numbers a step"),
        (spaces.Box(-1, 1, (2,)), [[0.0]], r"actions: must have the shape \[T, \(2,\)\]"),
        (spaces.Text(3), ["a"], "is none of Discrete, MultiDiscrete, MultiBinary and Box"),
    ],
)
def test_actions_that_do_not_fit_are_named(space, values, message):
    with pytest.raises(ss.InputError, match=message):
        ss.flatten_actions(space, values)


def test_observations_that_do_not_fit_are_named():
    with pytest.raises(ss.InputError, match="the parts have different lengths"):
        ss.flatten_observations(NESTED, {"at": np.zeros((2, 2)), "in": ([0, 0], np.zeros((3, 1, 2)))})
    with pytest.raises(ss.InputError, match="has the parts"):
        ss.flatten_observations(NESTED, {"at": np.zeros((2, 2))})
    with pytest.raises(ss.InputError, match="has no fixed size"):
        ss.flatten_observations(spaces.Sequence(spaces.Discrete(2)), [(0, 1)])
