"""Online learning against the paper's recursion for rho, written out literally."""

import numpy as np
import oracles
import pytest

import skillstream as ss

GAMMAS = {
    "uniform": (ss.OnlineConfig(min_samples=60, weights="uniform"), lambda t: 1 / t),
    "growing": (ss.OnlineConfig(min_samples=60), lambda t: 6 * t / ((t + 1) * (2 * t + 1))),
    "polynomial": (
        ss.OnlineConfig(min_samples=60, weights="polynomial", forgetting=0.7),
        lambda t: t**-0.7,
    ),
    "constant": (ss.OnlineConfig(min_samples=60, weights="constant", forgetting=0.05), lambda t: 0.05),
}


@pytest.fixture
def demos():
    return oracles.sample_demos(ss.OptionPolicy.tabular(2, 3, 2, seed=9), [90, 1, 7, 202], seed=1)


@pytest.mark.filterwarnings("ignore::skillstream.errors.ImpossibleSampleWarning")
@pytest.mark.parametrize("weights", GAMMAS)
@pytest.mark.parametrize("options", [1, 2, 3])
def test_an_m_step_at_every_sample_gives_the_papers_policy(demos, weights, options):
    config, gamma = GAMMAS[weights]
    policy = ss.OptionPolicy.tabular(options, 3, 2, seed=4)
    literal = oracles.LiteralOnline(policy, config.min_samples, gamma)
    learner = ss.OnlineLearner(policy, config)
    rows = zip(demos.observations, demos.actions, demos.episode_starts, strict=True)
    for count, (state, action, start) in enumerate(rows):
        literal.step(state, action, start)
        learner.partial_fit([state], [action], [start])
        if count % 50 == 49:
            np.testing.assert_allclose(learner.option_probabilities, literal.chi, atol=1e-9)
            for name, table in learner.policy.tables().items():
                np.testing.assert_allclose(table, literal.tables[name], atol=1e-9, err_msg=name)
    np.testing.assert_allclose(learner.log_likelihood, literal.log_likelihood, rtol=1e-11)
    assert learner.certificate <= 1e-9


def test_the_statistics_are_the_papers_phi(demos):
    policy = ss.OptionPolicy.tabular(2, 3, 2, seed=4)
    literal = oracles.LiteralOnline(policy, min_samples=10_000)
    for state, action, start in zip(demos.observations, demos.actions, demos.episode_starts, strict=True):
        literal.step(state, action, start)
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(min_samples=10_000, weights="uniform"))
    learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
    np.testing.assert_allclose(literal.phi.sum(), 1, rtol=1e-12)
    for name, count in literal.counts().items():
        np.testing.assert_allclose(learner.statistics[name] / demos.num_steps, count, atol=1e-12)


def test_a_short_window_costs_what_its_certificate_says(demos):
    policy = ss.OptionPolicy.tabular(2, 3, 2, seed=4)
    exact, short = (
        ss.OnlineLearner(policy, ss.OnlineConfig(update_every=0, window=size, max_window=size))
        for size in (300, 4)
    )
    for learner in (exact, short):
        learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
    error = max(np.abs(exact.statistics[n] - short.statistics[n]).max() for n in exact.statistics)
    assert exact.certificate < 1e-12
    assert 1e-6 < error <= short.certificate * demos.num_steps
