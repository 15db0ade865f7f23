"""Choosing among policies by data they have not seen."""

import numpy as np
import pytest

import skillstream as ss
from skillstream.learning.selection import CrossValidation, cross_validate


def test_the_simplest_is_kept_unless_another_is_better_by_more_than_chance():
    noisy = CrossValidation(np.array([[-1.0, -1.0, -1.0, -1.0], [-0.5, -1.4, -0.9, -1.1]]))
    clear = CrossValidation(np.array([[-1.0, -1.0, -1.0, -1.0], [-0.8, -0.7, -0.8, -0.7]]))
    assert noisy.best == 0
    assert clear.best == 1


def test_what_makes_held_out_data_impossible_loses():
    found = CrossValidation(np.array([[-1.0, -np.inf], [-3.0, -3.0], [-np.inf, -np.inf]]))
    assert found.best == 1


def test_options_are_found_where_they_are_needed_and_only_there():
    rng = np.random.default_rng(0)
    option, steps = np.cumsum(rng.random(600) < 0.05) % 2, 600
    states = rng.integers(0, 3, steps)
    candidates = [ss.OptionPolicy.tabular(options, 3, 2, seed=1) for options in (1, 2)]
    config = ss.BatchConfig(iterations=30, pseudo_count=0.1, starts=3)
    with_options = cross_validate(candidates, ss.Demonstrations(states, option), config)
    without = cross_validate(candidates, ss.Demonstrations(states, states % 2), config)
    assert with_options.best == 1
    assert without.best == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folds": 1}, "folds: must be"),
        ({"folds": 9}, "folds: 8 steps"),
        ({"candidates": []}, "candidates: there"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, message):
    demos = ss.Demonstrations([0, 1] * 4, [0, 1] * 4)
    given = {"candidates": [ss.OptionPolicy.tabular(1, 2, 2)], **arguments}
    with pytest.raises(ss.InputError, match=message):
        cross_validate(demos=demos, **given)
