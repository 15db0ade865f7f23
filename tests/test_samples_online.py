"""Online learning from samples: chunks, disk, distinct rows, bounded memory, refusals, batch then online."""

import dataclasses
import warnings

import jax
import numpy as np
import optax
import pytest
from kinds import KINDS, LinearGaussian

import skillstream as ss
from skillstream.learning.reservoir import thin

SMALL = {"selection_hidden": (8,), "action_hidden": (6,), "termination_hidden": (6,)}
CONFIGS = {
    "at every sample": ss.OnlineConfig(min_samples=200, steps=2, weights="uniform"),
    "mini-batches, a reservoir": ss.OnlineConfig(
        min_samples=50, update_every=7, steps=3, batch_size=16, memory=60, window=16, max_window=16
    ),
    "penalties, forgetting": ss.OnlineConfig(
        min_samples=50,
        update_every=20,
        steps=3,
        weights="constant",
        forgetting=0.9,
        penalties=ss.Penalties(1.0, 0.1, 0.01),
        keep_optimiser=False,
    ),
}


def networks(seed=1, **settings):
    return ss.OptionPolicy.neural(2, 2, 2, seed, **SMALL, **settings)


@pytest.fixture(scope="module")
def demos():
    return KINDS["networks"].demos([150, 1, 99])


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


def feed(learner, demos, chunk=None, begin=0, end=None):
    end = end or demos.num_steps
    for first in range(begin, end, chunk or end):
        rows = slice(first, min(first + (chunk or end), end))
        learner.partial_fit(demos.observations[rows], demos.actions[rows], demos.episode_starts[rows])
    return learner


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one.policy), jax.tree.leaves(other.policy), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, column in one.statistics.items():
        np.testing.assert_array_equal(column, other.statistics[name], err_msg=name)
    np.testing.assert_array_equal(one.option_probabilities, other.option_probabilities)
    assert (one.num_samples, one.log_likelihood) == (other.num_samples, other.log_likelihood)
    assert one.certificate == other.certificate


def test_chunks_of_any_size_give_the_same_bits(config, demos):
    whole = feed(ss.OnlineLearner(networks(), config), demos)
    for chunk in (1, 7, 64):
        assert_same(whole, feed(ss.OnlineLearner(networks(), config), demos, chunk))


def test_save_and_load_go_on_to_the_same_bits(config, demos, tmp_path):
    learner = feed(ss.OnlineLearner(networks(), config), demos, end=170)
    learner.save(tmp_path)
    loaded = ss.OnlineLearner.load(tmp_path)
    assert_same(learner, loaded)
    assert_same(feed(learner, demos, begin=170), feed(loaded, demos, begin=170))


def test_saved_before_the_first_sample_it_begins_like_the_other(demos, tmp_path):
    learner = ss.OnlineLearner(networks(), CONFIGS["at every sample"])
    learner.save(tmp_path)
    assert_same(feed(learner, demos), feed(ss.OnlineLearner.load(tmp_path), demos))


def test_a_class_of_your_own_and_an_optimiser_of_your_own_are_saved_too(tmp_path):
    data, optimiser = KINDS["own class"].demos([80]), optax.sgd(1e-3, momentum=0.9)
    config = ss.OnlineConfig(min_samples=20, update_every=10, steps=2)
    start = ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=0))
    learner = feed(ss.OnlineLearner(start, config, optimiser), data, end=50)
    learner.save(tmp_path)
    like = ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=5))
    loaded = ss.OnlineLearner.load(tmp_path, like=like, optimiser=optimiser)
    assert_same(feed(learner, data, begin=50), feed(loaded, data, begin=50))
    with pytest.raises(ss.FileFormatError, match="like="):
        ss.OnlineLearner.load(tmp_path)
    with pytest.raises(ss.FileFormatError, match="other arrays"):
        ss.OnlineLearner.load(tmp_path, like=like, optimiser=optax.adam(1e-3))


def test_an_m_step_is_full_gradient_steps_on_everything_seen(demos):
    """One M-step, after the last sample, against the batch M-step from the same posteriors."""
    config = ss.OnlineConfig(min_samples=249, steps=5, weights="uniform", window=512, max_window=512)
    online = feed(ss.OnlineLearner(networks(dtype="float64"), config), demos).policy
    batch = ss.fit(
        networks(dtype="float64"), demos, ss.BatchConfig(iterations=1, epochs=5, batch_size=None)
    ).policy
    for a, b in zip(jax.tree.leaves(online), jax.tree.leaves(batch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_an_m_step_in_closed_form_is_the_batch_one():
    kind = KINDS["Gaussian tables"]
    demos, start = kind.demos([150, 1, 99]), kind.policy(seed=1)
    config = ss.OnlineConfig(min_samples=249, weights="uniform", pseudo_count=0.5, window=512, max_window=512)
    online = feed(ss.OnlineLearner(start, config), demos).policy
    batch = ss.fit(start, demos, ss.BatchConfig(iterations=1, pseudo_count=0.5)).policy
    for a, b in zip(jax.tree.leaves(online), jax.tree.leaves(batch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_same_samples_share_a_row():
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 3, (500, 1)).astype(float)
    done = rng.integers(0, 2, 500)
    policy = ss.OptionPolicy.neural(2, 1, 2, **SMALL)
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(update_every=0)).partial_fit(seen, done)
    statistics = learner.statistics
    assert len(statistics["observations"]) == 6
    for observation, action, weight in zip(
        statistics["observations"], statistics["actions"], statistics["action"].sum(1), strict=True
    ):
        assert weight == pytest.approx(((seen == observation).all(1) & (done == action)).sum(), rel=1e-12)


def test_room_for_samples_grows():
    demos = KINDS["networks"].demos([1500])
    learner = feed(ss.OnlineLearner(networks(), ss.OnlineConfig(update_every=0)), demos, chunk=400)
    statistics = learner.statistics
    np.testing.assert_array_equal(statistics["observations"], demos.observations)
    np.testing.assert_allclose(statistics["selection"], ss.smooth(networks(), demos).switches, atol=1e-6)


def test_a_reservoir_bounds_the_rows_and_keeps_the_sums():
    demos = KINDS["networks"].demos([4000])
    config = ss.OnlineConfig(update_every=0, memory=300, window=16)
    learner, rows = ss.OnlineLearner(networks(), config), []
    for first in range(0, 4000, 100):
        feed(learner, demos, begin=first, end=first + 100)
        rows.append(len(learner.statistics["observations"]))
    assert max(rows) <= 300 + learner.window + 75
    statistics = learner.statistics
    assert statistics["termination"].sum() == pytest.approx(4000, rel=1e-9)
    posterior = ss.smooth(networks(), demos)
    mean = (statistics["action"] / 4000).sum(0)
    np.testing.assert_allclose(mean, posterior.options.mean(0), atol=0.02)


def test_thinning_is_unbiased():
    weights = np.array([5.0, 0.0, 1.0, 1.0, 0.5, 0.25, 2.0, 1.0])
    values = np.arange(8.0)
    draws = np.array(
        [
            np.where((d := thin(weights, 4, np.random.default_rng(n)))[0], d[1] * weights, 0)
            for n in range(4000)
        ]
    )
    assert ((draws > 0).sum(1) == 4).all()
    np.testing.assert_allclose(draws.sum(1), weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(draws.mean(0), weights, atol=0.08)
    assert (draws[:, 0] == 5).all()
    assert (draws @ values).mean() == pytest.approx(weights @ values, rel=0.02)


@pytest.mark.parametrize("count", [1, 2, 10])
def test_thinning_equal_weights_and_few_rows(count):
    kept, factors = thin(np.ones(10), count, np.random.default_rng(0))
    assert kept.sum() == count
    np.testing.assert_allclose(factors[kept], 10 / count)
    kept, factors = thin(np.array([0.0, 3.0]), count, np.random.default_rng(0))
    assert kept.tolist() == [False, True]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_step_that_is_not_finite_is_refused_and_the_stream_goes_on():
    data, start = KINDS["own class"].demos([60]), ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=0))
    config = ss.OnlineConfig(min_samples=40, update_every=5, steps=3)
    learner = ss.OnlineLearner(start, config, optax.sgd(1e30))
    with pytest.warns(ss.RefusedStepWarning, match="the M-step at sample 44"):
        feed(learner, data)
    assert learner.num_samples == 60
    for a, b in zip(jax.tree.leaves(learner.policy), jax.tree.leaves(start), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isfinite(learner.log_likelihood)


def test_batch_then_online_goes_on_from_what_the_fit_knew(demos):
    fitted = ss.fit(networks(), demos, ss.BatchConfig(iterations=10, epochs=10, batch_size=None)).policy
    config = ss.OnlineConfig(steps=30)
    goes_on = ss.OnlineLearner(fitted, config).absorb(demos)
    assert goes_on.policy is fitted
    assert goes_on.num_samples == demos.num_steps
    forgets = ss.OnlineLearner(fitted, dataclasses.replace(config, min_samples=0))
    late = KINDS["networks"].demos([20], seed=7)
    for learner in (goes_on, forgets):
        feed(learner, late)
    remembered, forgotten = (
        ss.smooth(learner.policy, demos).log_likelihood for learner in (goes_on, forgets)
    )
    assert remembered > forgotten + 5


def test_what_is_absorbed_is_the_batch_e_step(demos):
    learner = ss.OnlineLearner(networks(), ss.OnlineConfig(weights="uniform")).absorb(demos)
    posterior = ss.smooth(networks(), demos)
    np.testing.assert_allclose(learner.statistics["selection"], posterior.switches, atol=1e-6)
    tables = ss.OptionPolicy.tabular(2, 6, 2, seed=1)
    known = KINDS["tables"].demos([80, 40])
    learner = ss.OnlineLearner(tables, ss.OnlineConfig(weights="uniform", min_samples=0)).absorb(known)
    assert learner.policy is tables
    learner.partial_fit([0], [1], [True])
    assert learner.policy is not tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([[0.0, 0.0, 0.0]], [0]),
            r"observations: this policy takes numbers \[T, 2\], found float64 \[1, 3\]",
        ),
        (([[0.0, np.nan]], [0]), "observations: step 0 holds .* not finite"),
        (([[0.0, 1e300]], [0]), "observations: step 0 holds .* too large for a network"),
        (([[0.0, 0.0]], [2]), "actions: step 0 holds 2, but the policy has 2 actions"),
        (([[0.0, 0.0]], [[0.5]]), "actions: this policy needs integers"),
        (([0], [0]), "observations: this policy takes numbers"),
    ],
)
def test_bad_chunks_are_refused_before_anything_changes(demos, arguments, message):
    config = CONFIGS["at every sample"]
    learner = feed(ss.OnlineLearner(networks(), config), demos, end=60)
    with pytest.raises(ss.InputError, match=message):
        learner.partial_fit(*arguments)
    assert_same(learner, feed(ss.OnlineLearner(networks(), config), demos, end=60))


def test_a_class_of_your_own_gets_rows_of_one_size_and_kind():
    learner = ss.OnlineLearner(ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=0)))
    learner.partial_fit(np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(ss.InputError, match=r"observations: the stream so far has rows float64 \[2\]"):
        learner.partial_fit(np.zeros((1, 3)), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("steps", 0),
        ("batch_size", 0),
        ("memory", 0),
        ("memory", -5),
        ("learning_rate", 0.0),
        ("learning_rate", float("inf")),
        ("seed", -1),
    ],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ss.InputError, match=f"^{setting}: "):
        ss.OnlineConfig(**{setting: value})


def test_no_step_of_a_stream_of_chance_is_not_finite(demos):
    rng = np.random.default_rng(0)
    wild = rng.standard_cauchy((300, 2)) * 10.0 ** rng.integers(-6, 7, (300, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.RefusedStepWarning)
        warnings.simplefilter("ignore", ss.ImpossibleSampleWarning)
        learner = ss.OnlineLearner(networks(), CONFIGS["at every sample"])
        learner.partial_fit(wild, rng.integers(0, 2, 300))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.policy))
    assert np.isfinite(learner.log_likelihood)


def test_settings_that_differ_in_numbers_only_share_a_program():
    """Another seed, start or window must not compile the loop anew."""
    from jax import monitoring

    compiled = []

    def listen(name, seconds, **_):
        compiled.append(name)

    rng = np.random.default_rng(0)
    seen, done = rng.normal(size=(40, 2)), rng.integers(0, 3, 40)

    def learn(**settings):
        config = ss.OnlineConfig(steps=2, **settings)
        return ss.OnlineLearner(ss.OptionPolicy.neural(2, 2, 3, 0), config).partial_fit(seen, done)

    learn(seed=0, min_samples=5)
    monitoring.register_event_duration_secs_listener(listen)
    try:
        learn(seed=1, min_samples=9, weights="uniform")
        assert not [name for name in compiled if "backend_compile" in name]
    finally:
        monitoring.clear_event_listeners()
    learn(seed=0, min_samples=5)
