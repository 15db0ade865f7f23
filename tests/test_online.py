"""What every stream must keep to: chunks, episodes, memory, disk, forgetting, bad input."""

import dataclasses
import signal
import warnings

import numpy as np
import oracles
import pytest
import worlds

import skillstream as ss
from skillstream.learning.weights import Weights

CONFIGS = {
    "as it comes": ss.OnlineConfig(min_samples=50),
    "the paper's": ss.OnlineConfig(min_samples=50, weights="uniform"),
    "pseudo-counts": ss.OnlineConfig(min_samples=20, pseudo_count=0.5),
    "every tenth": ss.OnlineConfig(min_samples=30, update_every=10),
    "frozen": ss.OnlineConfig(update_every=0),
    "polynomial": ss.OnlineConfig(min_samples=50, weights="polynomial", forgetting=0.8),
    "forgets fast": ss.OnlineConfig(min_samples=50, weights="constant", forgetting=0.9, pseudo_count=0.1),
    "small window": ss.OnlineConfig(min_samples=50, window=2),
    "no room": ss.OnlineConfig(min_samples=50, window=6, max_window=6),
}


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


@pytest.fixture
def policy():
    return ss.OptionPolicy.tabular(2, 5, 3, seed=11)


@pytest.fixture
def demos():
    return oracles.sample_demos(ss.OptionPolicy.tabular(2, 5, 3, seed=2), [400, 1, 1, 298, 600], seed=5)


@pytest.fixture(autouse=True)
def impossible_samples_are_no_surprise():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.ImpossibleSampleWarning)
        yield


def learn(policy, config, demos, chunk=None, begin=0):
    return feed(ss.OnlineLearner(policy, config), demos, chunk, begin)


def feed(learner, demos, chunk=None, begin=0, end=None):
    end = demos.num_steps if end is None else end
    for first in range(begin, end, chunk or demos.num_steps):
        rows = slice(first, min(first + (chunk or demos.num_steps), end))
        learner.partial_fit(demos.observations[rows], demos.actions[rows], demos.episode_starts[rows])
    return learner


def assert_same(one, other, **tolerance):
    for name, table in one.policy.tables().items():
        np.testing.assert_allclose(table, other.policy.tables()[name], err_msg=name, **tolerance)
    for name, count in one.statistics.items():
        np.testing.assert_allclose(count, other.statistics[name], err_msg=name, **tolerance)
    np.testing.assert_allclose(one.option_probabilities, other.option_probabilities, **tolerance)
    assert one.num_samples == other.num_samples
    assert one.num_impossible == other.num_impossible


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_of_any_size_give_the_same_answer(policy, config, demos, chunk):
    assert_same(learn(policy, config, demos), learn(policy, config, demos, chunk), rtol=1e-12, atol=1e-12)


def test_save_and_load_go_on_to_the_same_bits(policy, config, demos, tmp_path):
    learner = feed(ss.OnlineLearner(policy, config), demos, chunk=100, end=700)
    learner.save(tmp_path)
    loaded = ss.OnlineLearner.load(tmp_path)
    assert_same(learner, loaded, rtol=0)
    assert loaded.certificate == learner.certificate
    assert loaded.config == learner.config
    feed(learner, demos, chunk=100, begin=700)
    feed(loaded, demos, chunk=100, begin=700)
    assert_same(learner, loaded, rtol=0)
    assert loaded.log_likelihood == learner.log_likelihood


@pytest.mark.parametrize("kind", ["tables", "networks"])
def test_ctrl_c_leaves_a_learner_that_goes_on(demos, kind, tmp_path):
    """Interrupted wherever it may be, it has taken in just the samples that it says."""
    policy, config = ss.OptionPolicy.tabular(2, 5, 3, seed=11), ss.OnlineConfig(min_samples=50)
    seen, done = demos.observations, demos.actions
    if kind == "networks":
        policy = ss.OptionPolicy.neural(2, 1, 3, action_hidden=(3,), selection_hidden=(3,))
        config, seen = ss.OnlineConfig(min_samples=50, update_every=50, steps=2), seen[:, None] * 1.0
    uncut = ss.OnlineLearner(policy, config).partial_fit(seen, done)
    for delay in (1e-4, 1e-3, 3e-3, 1e-2):
        learner = ss.OnlineLearner(policy, config)
        before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            for first in range(0, len(seen), 10):
                rows = slice(first, first + 10)
                learner.partial_fit(seen[rows], done[rows])
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        learner.save(tmp_path)
        loaded, count = ss.OnlineLearner.load(tmp_path), learner.num_samples
        loaded.partial_fit(seen[count:], done[count:])
        assert loaded.num_samples == len(seen)
        assert loaded.log_likelihood == uncut.log_likelihood


def test_looking_changes_nothing(policy, config, demos):
    watched, alone = ss.OnlineLearner(policy, config), ss.OnlineLearner(policy, config)
    for first in range(0, demos.num_steps, 130):
        for learner in (watched, alone):
            feed(learner, demos, begin=first, end=min(first + 130, demos.num_steps))
        assert watched.policy.num_options == 2
        assert watched.statistics["selection"].min() >= 0
        assert watched.option_probabilities.shape == (2,)
    assert_same(watched, alone, rtol=0)


def test_all_numbers_stay_finite(policy, config, demos):
    learner = learn(policy, config, demos)
    for table in (*learner.policy.tables().values(), *learner.statistics.values()):
        assert np.isfinite(table).all()
        assert (table >= 0).all()
    assert np.isfinite(learner.log_likelihood)
    np.testing.assert_allclose(learner.option_probabilities.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("kind", sorted(worlds.POLICIES))
def test_frozen_it_is_the_batch_e_step(kind):
    policy = worlds.POLICIES[kind](seed=7)
    demos = worlds.possible_demos(policy, [1, 150, 2, 300], seed=3)
    learner = learn(policy, ss.OnlineConfig(update_every=0, window=8), demos, chunk=41)
    batch = ss.smooth(policy, demos)
    states, found = demos.observations, learner.statistics
    expected = {name: np.zeros_like(table) for name, table in policy.tables().items()}
    np.add.at(expected["selection"], states, batch.switches)
    np.add.at(expected["termination"], states, batch.departures)
    np.add.at(expected["action"].transpose(0, 2, 1), (states, demos.actions), batch.options)
    expected["initial"] = batch.departures.sum(2)[demos.episode_starts].sum(0)
    for name, count in expected.items():
        np.testing.assert_allclose(found[name], count, atol=1e-10, rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(learner.log_likelihood, batch.log_likelihood, rtol=1e-12)
    assert learner.policy is policy


def test_the_window_grows_until_the_certificate_is_kept():
    policy = worlds.stopping(worlds.ordinary(2, seed=3), 0.02)
    demos = worlds.possible_demos(policy, [3000], seed=0)
    learner = learn(policy, ss.OnlineConfig(update_every=0, window=4, tolerance=1e-7), demos)
    assert 0 < learner.certificate <= 1e-7
    assert learner.window > 4
    bounded = learn(policy, ss.OnlineConfig(update_every=0, window=4, max_window=8, tolerance=1e-7), demos)
    assert bounded.window == 8
    assert bounded.certificate > 1e-7


def test_nothing_is_learnt_before_the_minimum(policy, demos):
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(min_samples=200))
    feed(learner, demos, end=200)
    assert learner.policy is policy
    feed(learner, demos, begin=200, end=201)
    assert learner.policy is not policy


def test_rows_never_seen_keep_their_values(policy, demos):
    larger = ss.OptionPolicy.tabular(2, 9, 3, seed=0)
    tables = learn(larger, ss.OnlineConfig(pseudo_count=1.0), demos).policy.tables()
    for name in ("selection", "action", "termination"):
        np.testing.assert_array_equal(tables[name][5:], larger.tables()[name][5:])


def test_a_forgotten_row_keeps_what_it_last_said():
    policy = ss.OptionPolicy.tabular(2, 2, 2, seed=0)
    config = ss.OnlineConfig(min_samples=10, weights="constant", forgetting=0.5)
    demos = oracles.random_demos(0, 1, 2, [200])
    learner = learn(policy, config, demos)
    before = learner.policy.tables()
    learner.partial_fit(np.ones(8000, int), np.zeros(8000, int), np.arange(8000) == 0)
    after = learner.policy.tables()
    assert not learner.statistics["action"][0].any()
    for name in ("selection", "action", "termination"):
        np.testing.assert_allclose(after[name][0], before[name][0], atol=1e-9, err_msg=name)


def test_it_follows_an_expert_that_changes():
    policy = ss.OptionPolicy.tabular(1, 1, 2, seed=0)
    actions = np.repeat([0, 1], 5000)
    remembers = ss.OnlineLearner(policy, ss.OnlineConfig(weights="uniform")).partial_fit(
        np.zeros(10_000, int), actions
    )
    forgets = ss.OnlineLearner(
        policy, ss.OnlineConfig(weights="constant", forgetting=0.01, pseudo_count=0.01)
    )
    forgets.partial_fit(np.zeros(10_000, int), actions)
    np.testing.assert_allclose(remembers.policy.tables()["action"][0, 0], [0.5, 0.5], atol=1e-3)
    assert forgets.policy.tables()["action"][0, 0, 1] > 0.99


def test_weights_hold_over_ten_million_samples():
    config = ss.OnlineConfig(weights="constant", forgetting=0.01)
    weights = Weights(config)
    inner, block, decay = weights.of(10_000_000, 3)
    assert np.isfinite(inner).all()
    ratio = inner[1] / inner[0] * 2.0 ** (512 * (block[1] - block[0]))
    np.testing.assert_allclose(ratio, 1 / 0.99, rtol=1e-12)
    assert decay[2] < decay[1] < 0


def test_an_impossible_sample_is_counted_said_and_survived():
    policy = worlds.deterministic(0)
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(min_samples=1000, weights="uniform"))
    with pytest.warns(ss.ImpossibleSampleWarning, match="1 of 3 samples"):
        learner.partial_fit([0, 0, 1], [0, 1, 0])
    assert learner.num_impossible == 1
    np.testing.assert_array_equal(learner.option_probabilities, [1, 0])
    assert learner.statistics["action"][0, 0].tolist() == [1, 1]
    same = ss.OnlineLearner(policy, ss.OnlineConfig(min_samples=1000, weights="uniform"))
    same.partial_fit([0, 0, 1], [0, 1, 0], action_mask=[True, False, True])
    assert same.log_likelihood == learner.log_likelihood
    assert same.num_impossible == 0
    assert same.statistics["action"][0, 0].tolist() == [1, 0]


def test_an_empty_chunk_changes_nothing(policy, demos):
    learner = feed(ss.OnlineLearner(policy), demos, end=300)
    before = learner.policy.tables()
    learner.partial_fit([], [])
    assert learner.num_samples == 300
    for name, table in learner.policy.tables().items():
        np.testing.assert_array_equal(table, before[name])


def test_before_the_first_sample(policy):
    learner = ss.OnlineLearner(policy)
    assert (learner.num_samples, learner.certificate, learner.log_likelihood) == (0, 0, 0)
    np.testing.assert_array_equal(learner.option_probabilities, policy.tables()["initial"])
    assert all(not count.any() for count in learner.statistics.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0]), "actions: must have one row"),
        (([5], [0]), "observations: step 0 holds 5, but the policy has 5 states"),
        (([0], [3]), "actions: step 0 holds 3, but the policy has 3 actions"),
        (([-1], [0]), "observations: step 0 holds -1"),
        (([0.5], [0]), "observations: found floats"),
        (([[0.0, 1.0]], [0]), "observations: this policy needs integers"),
        (([[np.nan]], [0]), "not finite"),
        (([0], [0], [1]), "episode_starts: must be 1 booleans"),
        (([0], [0], [True, False]), "episode_starts"),
        (([0], [0], None, [0]), "action_mask: must be 1 booleans"),
        ((["a"], [0]), "observations: must be integers or floats"),
    ],
)
def test_bad_chunks_are_refused_before_anything_changes(policy, demos, arguments, message):
    learner = feed(ss.OnlineLearner(policy), demos, end=150)
    with pytest.raises(ss.InputError, match=message):
        learner.partial_fit(*arguments)
    assert_same(learner, feed(ss.OnlineLearner(policy), demos, end=150), rtol=0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("min_samples", -1),
        ("update_every", 1.5),
        ("window", 1),
        ("window", 5000),
        ("tolerance", -1e-9),
        ("tolerance", float("nan")),
        ("weights", "linear"),
        ("forgetting", float("inf")),
        ("pseudo_count", "1"),
    ],
)
def test_bad_settings_are_named(setting, value):
    named = "max_window" if value == 5000 else setting
    with pytest.raises(ss.InputError, match=f"^{named}: "):
        dataclasses.replace(ss.OnlineConfig(), **{setting: value})


def test_numbers_of_numpy_are_numbers():
    config = ss.OnlineConfig(seed=np.int64(3), tolerance=np.float32(0.5), memory=np.int32(7))
    assert config == ss.OnlineConfig(seed=3, tolerance=0.5, memory=7)
    assert type(config.seed) is int
    assert ss.BatchConfig(iterations=np.int64(3)).iterations == 3
    with pytest.raises(ss.InputError, match="seed: must be a whole number"):
        ss.OnlineConfig(seed=2**70)


@pytest.mark.parametrize(
    ("weights", "forgetting"), [("growing", 0.9), ("polynomial", 0.5), ("polynomial", 1.1), ("constant", 1.0)]
)
def test_forgetting_must_suit_the_weights(weights, forgetting):
    with pytest.raises(ss.InputError, match="forgetting"):
        ss.OnlineConfig(weights=weights, forgetting=forgetting)


def test_every_weighting_has_a_rate_of_its_own():
    rates = {name: ss.OnlineConfig(weights=name).rate for name in ("growing", "polynomial", "constant")}
    assert rates == {"growing": 3.0, "polynomial": 0.6, "constant": 0.01}
    assert ss.OnlineConfig().weighting == "growing"
    assert ss.OnlineConfig(update_every=0).weighting == "uniform"
    assert ss.OnlineConfig.paper().weighting == "uniform"


@pytest.mark.parametrize("weights", ["uniform", "growing", "constant"])
def test_what_is_forgotten_counts_as_few_samples_and_the_rest_stays_exact(policy, demos, weights):
    config = ss.OnlineConfig(min_samples=50, weights=weights, pseudo_count=0.1)
    learner = feed(ss.OnlineLearner(policy, config), demos, end=700)
    before = learner.statistics["termination"].sum()
    learner.forget(10_000)
    assert learner.statistics["termination"].sum() == before
    learner.forget(20)
    feed(learner, demos, begin=700, end=701)
    assert learner.statistics["termination"].sum() == pytest.approx(21, rel=0.02)
    arrays, header = learner.pack()
    again = ss.OnlineLearner.unpack("here", dict(arrays), header)
    for one in (learner, again):
        feed(one, demos, begin=701)
    assert_same(learner, again, rtol=0)
    with pytest.raises(ss.InputError, match="samples: must be a whole number from 1"):
        learner.forget(0)
