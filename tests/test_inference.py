"""Posteriors, likelihoods and paths against enumeration over every hidden path."""

import jax
import numpy as np
import oracles
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st

import skillstream as ss
from skillstream.inference import decoding, potentials, smoothing
from skillstream.policies import chains

LENGTHS = [3, 1, 5]
EXACT = {"atol": 1e-10, "rtol": 0}


@pytest.fixture(params=worlds.POLICIES)
def case(request):
    policy = worlds.POLICIES[request.param](seed=7)
    return policy, worlds.possible_demos(policy, LENGTHS, seed=3)


def truths(policy, demos):
    return [oracles.enumerate_paths(policy, episode) for episode in demos]


def test_smoothing_is_exact(case):
    policy, demos = case
    found, expected = ss.smooth(policy, demos), truths(policy, demos)
    np.testing.assert_allclose(found.log_likelihood, sum(np.log(t.likelihood) for t in expected), **EXACT)
    for name in ("options", "switches", "departures"):
        wanted = np.concatenate([getattr(t, name) for t in expected])
        np.testing.assert_allclose(getattr(found, name), wanted, **EXACT)


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_smoothing_with_a_lag_is_smoothing_of_what_was_seen_by_then(case, lag):
    policy, demos = case
    found = ss.smooth(policy, demos, lag=lag)
    row = 0
    for episode in demos:
        for t in range(episode.num_steps):
            seen = slice(0, min(t + lag + 1, episode.num_steps))
            truth = oracles.enumerate_paths(
                policy, ss.Demonstrations(episode.observations[seen], episode.actions[seen])
            )
            for name in ("options", "switches", "departures"):
                np.testing.assert_allclose(getattr(found, name)[row], getattr(truth, name)[t], **EXACT)
            row += 1


def test_decoding_finds_a_most_probable_path(case):
    policy, demos = case
    path, tables = ss.decode(policy, demos), policy.tables()
    expected = sum(np.log(t.best) for t in truths(policy, demos))
    np.testing.assert_allclose(path.log_probability, expected, **EXACT)
    total, row = 0.0, 0
    for episode in demos:
        steps = slice(row, row + episode.num_steps)
        total += np.log(
            max(
                tables["initial"][first]
                * oracles.path_probability(
                    tables, episode, first, path.options[steps], path.terminations[steps]
                )
                for first in range(policy.num_options)
            )
        )
        row += episode.num_steps
    np.testing.assert_allclose(total, expected, **EXACT)


def test_predictions_multiply_to_the_likelihood(case):
    policy, demos = case
    predicted = ss.predict_actions(policy, demos)
    np.testing.assert_allclose(predicted.sum(1), 1, **EXACT)
    taken = predicted[np.arange(demos.num_steps), demos.actions]
    np.testing.assert_allclose(np.log(taken).sum(), ss.smooth(policy, demos).log_likelihood, **EXACT)


def test_sampled_paths_have_the_posterior_frequencies():
    policy = worlds.ordinary(2, seed=1)
    demos = worlds.possible_demos(policy, [2, 1], seed=0)
    count = 40_000
    paths = ss.sample_paths(policy, demos, num_samples=count, seed=4)
    truth = oracles.enumerate_paths(policy, demos[0])
    for (options, stops), p in truth.paths.items():
        share = np.mean(
            (paths.options[:, :2] == options).all(1) & (paths.terminations[:, :2] == stops).all(1)
        )
        expected = p / truth.likelihood
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-12
    again = ss.sample_paths(policy, demos, num_samples=count, seed=4)
    np.testing.assert_array_equal(paths.options, again.options)


def test_sampled_paths_are_possible(case):
    policy, demos = case
    paths = ss.sample_paths(policy, demos, num_samples=50, seed=0)
    allowed = truths(policy, demos)
    row = 0
    for episode, truth in zip(demos, allowed, strict=True):
        steps = slice(row, row + episode.num_steps)
        for options, stops in zip(paths.options[:, steps], paths.terminations[:, steps], strict=True):
            assert (tuple(options.tolist()), tuple(stops.tolist())) in truth.paths
        row += episode.num_steps


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(worlds.POLICIES)))
def test_smoothing_is_exact_whatever_the_tables(seed, kind):
    policy = worlds.POLICIES[kind](seed)
    demos = worlds.possible_demos(policy, [4], seed)
    found, (truth,) = ss.smooth(policy, demos), truths(policy, demos)
    np.testing.assert_allclose(found.log_likelihood, np.log(truth.likelihood), **EXACT)
    np.testing.assert_allclose(found.departures, truth.departures, **EXACT)
    np.testing.assert_allclose(found.switches, truth.switches, **EXACT)


@pytest.mark.parametrize("options", [2, 9])
def test_long_chains_stay_exact(options):
    policy = ss.OptionPolicy.tabular(options, num_states=20, num_actions=4, seed=2)
    demos = oracles.random_demos(5, 20, 4, [60_000, 1, 39_999])
    log_likelihood, *expected = oracles.forward_backward(policy, demos)
    found = ss.smooth(policy, demos)
    np.testing.assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-12)
    for array, wanted in zip((found.options, found.switches, found.departures), expected, strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-9, rtol=0)


def test_options_that_hardly_stop_are_exact_over_thousands_of_steps():
    policy = worlds.stopping(worlds.ordinary(2, seed=3), 1e-12)
    demos = oracles.random_demos(1, 3, 2, [5000])
    log_likelihood, options, switches, _ = oracles.forward_backward(policy, demos)
    found = ss.smooth(policy, demos)
    np.testing.assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-13)
    np.testing.assert_allclose(found.options, options, **EXACT)
    np.testing.assert_allclose(found.switches, switches, rtol=1e-9, atol=1e-300)


def test_chains_side_by_side_give_what_one_after_the_other_gives():
    policy = ss.OptionPolicy.tabular(3, num_states=10, num_actions=3, seed=0)
    demos = oracles.random_demos(2, 10, 3, [40] * 12)  # three episodes in each of four chains
    with jax.enable_x64(True):
        steps = chains.chain(demos)
        flat = steps.potentials(policy.model)
        beside = [np.moveaxis(np.asarray(x).reshape(4, 120, *x.shape[1:]), 0, -1) for x in flat]
        beside = potentials.Potentials(*(jax.numpy.asarray(x) for x in beside))
        starts = demos.episode_starts.reshape(4, 120).T
        mu, starts = jax.numpy.full(3, 1 / 3), jax.numpy.asarray(starts)
        many, total = smoothing.smooth(beside, mu, starts)
        lagged, _ = smoothing.smooth_with_lag(beside, mu, starts, jax.numpy.int32(2))
        options, stops, log_probability = decoding.decode(beside, mu, starts)
    one, path, one_lagged = (
        ss.smooth(policy, demos),
        ss.decode(policy, demos),
        ss.smooth(policy, demos, lag=2),
    )

    def flatten(array):
        return np.moveaxis(np.asarray(array), -1, 0).reshape(480, -1)

    np.testing.assert_allclose(float(total), one.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(flatten(many.options), one.options, atol=1e-12)
    np.testing.assert_allclose(flatten(many.departs), one.departures[..., 1], atol=1e-12)
    np.testing.assert_allclose(flatten(lagged.switches), one_lagged.switches, atol=1e-12)
    np.testing.assert_array_equal(flatten(options)[:, 0], path.options)
    np.testing.assert_array_equal(flatten(stops)[:, 0], path.terminations)
    np.testing.assert_allclose(float(log_probability), path.log_probability, rtol=1e-12)


def test_missing_actions_say_nothing():
    policy = worlds.ordinary(2, seed=5)
    demos = worlds.possible_demos(policy, [5], seed=1)
    masked = ss.Demonstrations(
        demos.observations, [99, -1, 0, 1, 1], action_mask=[False, False, True, True, True]
    )
    truth = oracles.enumerate_paths(policy, masked)
    found = ss.smooth(policy, masked)
    np.testing.assert_allclose(found.log_likelihood, np.log(truth.likelihood), **EXACT)
    np.testing.assert_allclose(found.options, truth.options, **EXACT)


def test_log_potentials_of_any_size_fit():
    rng = np.random.default_rng(0)
    logs = [np.log(rng.dirichlet([1, 1], 50)), *np.log(np.stack([x := rng.uniform(0, 1, (50, 2)), 1 - x]))]
    action = rng.normal(size=(50, 2)) - 5000
    starts = np.arange(50) == 0
    with jax.enable_x64(True):
        *logs, action, starts = (jax.numpy.asarray(x) for x in (*logs, action, starts))
        mu = jax.numpy.full(2, 0.5)
        tiny, low = smoothing.smooth(potentials.from_logs(*logs, action), mu, starts)
        plain, high = smoothing.smooth(potentials.from_logs(*logs, action + 5000), mu, starts)
        np.testing.assert_allclose(tiny.options, plain.options, atol=1e-9)
        np.testing.assert_allclose(low, high - 50 * 5000, rtol=1e-12)


def test_an_impossible_step_is_named():
    policy = worlds.deterministic(0)
    demos = ss.Demonstrations([0, 0, 1, 0, 2, 1], [0, 0, 0, 0, 0, 1], [3, 3])
    for read in (ss.smooth, ss.decode, ss.sample_paths, ss.predict_actions):
        with pytest.raises(ss.ImpossibleDataError, match=r"step 1 of episode 1 .observation 2, action 0"):
            read(policy, demos)
    with pytest.raises(ss.ImpossibleDataError, match="step 1 of episode 1"):
        ss.smooth(policy, demos, lag=0)


def test_a_new_length_is_not_a_new_compilation():
    sizes = {chains.padded_size(n) for n in range(1, 100_001)}
    assert len(sizes) < 120
    assert all(n <= chains.padded_size(n) <= max(1.125 * n, n + 1) for n in range(1, 100_001))


@pytest.mark.parametrize("lag", [-1, 1.5, True])
def test_a_lag_that_makes_no_sense_is_refused(lag):
    with pytest.raises(ss.InputError, match="lag"):
        ss.smooth(worlds.ordinary(2, 0), ss.Demonstrations([0], [0]), lag=lag)
