"""Batch Baum-Welch: it climbs, it converges, it keeps what it knows nothing about."""

import numpy as np
import oracles
import pytest
import worlds

import skillstream as ss
from skillstream.learning.tables import TableStatistics, auxiliary_function, maximise


@pytest.fixture
def demos():
    return oracles.sample_demos(ss.OptionPolicy.tabular(2, 6, 3, seed=1), [50] * 40, seed=0)


@pytest.mark.parametrize("options", [1, 2, 4])
@pytest.mark.parametrize("learn_initial", [False, True])
def test_the_likelihood_never_falls(demos, options, learn_initial):
    policy = ss.OptionPolicy.tabular(options, 6, 3, seed=3)
    config = ss.BatchConfig(iterations=40, learn_initial=learn_initial)
    history = ss.fit(policy, demos, config).log_likelihoods
    assert len(history) == 40
    assert (np.diff(history) > -1e-9 * np.abs(history[1:])).all()
    assert history[-1] > history[0] + 1


def test_an_iteration_is_smoothing_and_counting(demos):
    policy = ss.OptionPolicy.tabular(2, 6, 3, seed=3)
    posterior = ss.smooth(policy, demos)
    new = ss.fit(policy, demos, ss.BatchConfig(iterations=1, learn_initial=True)).policy.tables()
    for state in range(6):
        here = demos.observations == state
        switches = posterior.switches[here].sum(0)
        np.testing.assert_allclose(new["selection"][state], switches / switches.sum(), atol=1e-12)
        departures = posterior.departures[here].sum(0)
        np.testing.assert_allclose(
            new["termination"][state], departures / departures.sum(1, keepdims=True), atol=1e-12
        )
        for action in range(3):
            taken = posterior.options[here & (demos.actions == action)].sum(0)
            expected = taken / posterior.options[here].sum(0)
            np.testing.assert_allclose(new["action"][state, :, action], expected, atol=1e-12)
    before = posterior.departures.sum(2)[demos.episode_starts].sum(0)
    np.testing.assert_allclose(new["initial"], before / before.sum(), atol=1e-12)


def test_more_data_find_the_truth():
    action = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    truth = ss.OptionPolicy.from_tables([[0.5, 0.5]], action, [[[0.95, 0.05], [0.9, 0.1]]])
    demos = oracles.sample_demos(truth, [20_000], seed=0)
    start = ss.OptionPolicy.from_tables([[0.5, 0.5]], [[[0.6, 0.4], [0.4, 0.6]]], [[[0.7, 0.3], [0.7, 0.3]]])
    found = ss.fit(start, demos, ss.BatchConfig(iterations=200)).policy.tables()
    np.testing.assert_allclose(found["action"], action, atol=0.03)
    assert (
        ss.smooth(ss.OptionPolicy.from_tables(**found), demos).log_likelihood
        > ss.smooth(truth, demos).log_likelihood
    )


def test_it_stops_when_it_has_converged(demos):
    policy = ss.OptionPolicy.tabular(2, 6, 3, seed=3)
    result = ss.fit(policy, demos, ss.BatchConfig(iterations=500, tolerance=1e-4))
    assert result.converged
    gains = np.diff(result.log_likelihoods) / demos.num_steps
    assert gains[-1] < 1e-4
    assert (gains[:-1] >= 1e-4).all()
    assert not ss.fit(policy, demos, ss.BatchConfig(iterations=3)).converged


def test_a_callback_sees_every_iteration_and_can_stop(demos):
    seen = []

    def watch(progress):
        seen.append(progress)
        return progress.iteration == 4

    policy = ss.OptionPolicy.tabular(2, 6, 3, seed=3)
    result = ss.fit(policy, demos, callback=watch)
    assert [progress.iteration for progress in seen] == [0, 1, 2, 3, 4]
    assert [progress.log_likelihood for progress in seen] == result.log_likelihoods.tolist()
    assert seen[-1].policy is result.policy


def test_of_several_starts_the_most_likely_is_kept(demos):
    policy, seen = ss.OptionPolicy.tabular(2, 6, 3, seed=3), []
    config = ss.BatchConfig(iterations=5, starts=4, seed=8)
    result = ss.fit(policy, demos, config, callback=lambda progress: seen.append(progress))
    alone = [
        ss.fit(start, demos, ss.BatchConfig(iterations=5))
        for start in (policy, *(policy.redrawn(seed=seed) for seed in (9, 10, 11)))
    ]
    assert [progress.start for progress in seen] == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
    best = max(alone, key=lambda one: one.log_likelihoods[-1])
    assert len({one.log_likelihoods[-1] for one in alone}) == 4
    np.testing.assert_array_equal(result.log_likelihoods, best.log_likelihoods)
    stopped = ss.fit(policy, demos, config, callback=lambda progress: progress.start == 1)
    assert stopped.log_likelihoods[0] == alone[0].log_likelihoods[0]
    assert stopped.interrupted
    assert not result.interrupted


def test_q_rises_above_its_value_before_the_m_step(demos):
    policy = ss.OptionPolicy.tabular(2, 6, 3, seed=3)
    result = ss.fit(policy, demos, ss.BatchConfig(iterations=10, track_objective=True))
    assert result.objectives.shape == (10,)
    posterior, tables = ss.smooth(policy, demos), policy.tables()
    states = demos.observations
    expected = (
        (posterior.switches * np.log(tables["selection"][states])).sum()
        + (posterior.departures * np.log(tables["termination"][states])).sum()
        + (posterior.options * np.log(tables["action"][states, :, demos.actions])).sum()
    ) / demos.num_steps
    statistics = TableStatistics(*(np.zeros((6, 2)) for _ in range(3)), np.zeros((6, 3, 2)), np.zeros(2))
    np.add.at(statistics.selection, states, posterior.switches)
    np.add.at(statistics.stop, states, posterior.departures[..., 1])
    np.add.at(statistics.stay, states, posterior.departures[..., 0])
    np.add.at(statistics.by_action, (states, demos.actions), posterior.options)
    np.testing.assert_allclose(auxiliary_function(statistics, policy, demos.num_steps), expected, rtol=1e-12)
    assert result.objectives[0] > expected
    best = auxiliary_function(statistics, maximise(statistics, policy), demos.num_steps)
    np.testing.assert_allclose(result.objectives[0], best, rtol=1e-12)


def test_pseudo_counts_are_added_to_every_outcome(demos):
    policy = ss.OptionPolicy.tabular(1, 6, 3, seed=3)
    action = ss.fit(policy, demos, ss.BatchConfig(iterations=1, pseudo_count=2.0)).policy.tables()["action"]
    counts = np.zeros((6, 3))
    np.add.at(counts, (demos.observations, demos.actions), 1)
    np.testing.assert_allclose(action[:, 0], (counts + 2) / (counts + 2).sum(1, keepdims=True), rtol=1e-12)


def test_rows_never_seen_keep_their_values(demos):
    policy = ss.OptionPolicy.tabular(2, 9, 3, seed=3)
    tables = ss.fit(policy, demos).policy.tables()
    for name in ("selection", "action", "termination"):
        np.testing.assert_array_equal(tables[name][6:], policy.tables()[name][6:])


@pytest.mark.parametrize("kind", sorted(worlds.POLICIES))
def test_degenerate_tables_never_turn_into_nan(kind):
    policy = worlds.POLICIES[kind](seed=5)
    result = ss.fit(policy, worlds.possible_demos(policy, [20, 1, 30], seed=2))
    assert np.isfinite(result.log_likelihoods).all()
    assert all(np.isfinite(table).all() for table in result.policy.tables().values())


def test_one_sample_is_enough():
    result = ss.fit(ss.OptionPolicy.tabular(2, 1, 2), ss.Demonstrations([0], [1]))
    np.testing.assert_allclose(result.policy.tables()["action"][0, :, 1], 1)


def test_what_is_no_data_set_or_config_is_refused(demos):
    policy = ss.OptionPolicy.tabular(2, 6, 3)
    for arguments, message in (
        ((policy, demos.observations, demos.actions), "must be"),
        ((policy, demos.observations), "demos: must be Demonstrations, found ndarray"),
        ((policy.model, demos), "policy: must be an OptionPolicy, found TabularModel"),
        ((policy, demos, {"iterations": 3}), "config: must be a BatchConfig, found dict"),
    ):
        with pytest.raises(ss.InputError, match=message):
            ss.fit(*arguments)
    with pytest.raises(ss.InputError, match="config: must be an OnlineConfig, found BatchConfig"):
        ss.OnlineLearner(policy, ss.BatchConfig())
    with pytest.raises(ss.InputError, match="standardise: must be Demonstrations"):
        ss.OptionPolicy.neural(2, 2, 2, standardise=True)


def test_impossible_data_are_named():
    policy = worlds.deterministic(0)
    with pytest.raises(ss.ImpossibleDataError, match="step 1 of episode 0"):
        ss.fit(policy, ss.Demonstrations([0, 0], [0, 1]))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("iterations", 0), ("iterations", True), ("starts", 0), ("tolerance", -1.0), ("pseudo_count", -0.5)],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ss.InputError, match=f"^{setting}: "):
        ss.BatchConfig(**{setting: value})
