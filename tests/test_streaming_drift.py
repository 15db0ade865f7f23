"""The drift test: how seldom it is wrong, how soon it is right."""

import json

import numpy as np
import pytest

from skillstream.streaming.drift import Drift


def blocks(kind, count, seed):
    """Mean log-likelihoods of blocks: noise about -1, of some shape."""
    rng = np.random.default_rng(seed)
    noise = {
        "normal": rng.normal(size=count),
        "heavy tails": rng.standard_t(3, size=count),
        "skewed": 1 - rng.exponential(size=count),
        "one bad block in fifty": np.where(rng.random(count) < 0.02, -20, rng.normal(size=count)),
    }[kind]
    return -1 + 0.1 * noise


def alarms(test, values):
    return [place for place, value in enumerate(values) if test.update(float(value))]


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "skewed", "one bad block in fifty"])
def test_nothing_happens_and_nothing_is_said(kind):
    assert len(alarms(Drift(), blocks(kind, 40_000, 0))) <= 1


def test_learning_raises_no_alarm():
    improving = -1 + 0.9 * (1 - np.exp(-np.arange(2000) / 200)) + blocks("normal", 2000, 1) + 1
    assert alarms(Drift(), improving) == []


@pytest.mark.parametrize(("spreads", "delay"), [(2, 30), (3, 12), (6, 5)])
def test_a_change_is_noticed_soon_and_once(spreads, delay):
    for seed in range(20):
        values = blocks("normal", 400, seed)
        values[200:] -= 0.1 * spreads
        found = alarms(Drift(), values)
        assert len(found) == 1, (seed, found)
        assert 200 < found[0] <= 200 + delay


def test_what_never_varies_may_vary_a_little():
    assert alarms(Drift(), [-0.5] * 100 + [-0.505] * 400) == []
    assert alarms(Drift(), [-0.5] * 100 + [-0.6] * 10) == [103]


def test_it_goes_on_from_what_was_saved():
    values = blocks("normal", 300, 3)
    values[200:] -= 0.3
    whole, cut = Drift(), Drift()
    found = []
    for place, value in enumerate(values):
        cut = Drift.restored(json.loads(json.dumps(cut.saved())))
        found += [place] if cut.update(float(value)) else []
    assert found == alarms(whole, values) != []
    assert cut == whole
    for damaged in ({"mean": float("nan")}, {"blocks": 1.5}, {"variance": "1"}):
        with pytest.raises(ValueError, match="the drift test is"):
            Drift.restored({**whole.saved(), **damaged})
