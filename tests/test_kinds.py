"""What every kind of policy must keep to, whatever it is made of."""

import jax
import numpy as np
import oracles
import pytest
from kinds import KINDS, LinearGaussian

import skillstream as ss

QUICK = ss.BatchConfig(iterations=8, epochs=10)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def said_of(policy, demos):
    """The three distributions at the steps of `demos`, as probabilities, and the actions' densities."""
    with jax.enable_x64(True):
        if not isinstance(policy.model, ss.ConditionalModel):
            tables, states = policy.tables(), demos.observations
            acts = tables["action"][states, :, demos.actions]
            return tables["selection"][states], tables["termination"][states], acts
        said = policy.model.conditionals(jax.numpy.asarray(demos.observations))
        acts = np.exp(said.action.log_probability(jax.numpy.asarray(demos.actions)))
        return np.exp(said.selection), np.exp(said.termination), acts


def arrays_of(policy):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(policy)]


def test_its_distributions_add_to_one(kind):
    selection, termination, acts = said_of(kind.policy(3), kind.demos())
    np.testing.assert_allclose(selection.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(termination.sum(2), 1, rtol=1e-6)
    assert selection.shape == (101, 3)
    assert termination.shape == (101, 3, 2)
    assert (acts > 0).all()


@pytest.mark.parametrize("options", [1, 2, 3])
def test_smoothing_is_the_textbook_recursion(kind, options):
    policy, demos = kind.policy(options, seed=3), kind.demos()
    selection, termination, acts = (np.asarray(x, np.float64) for x in said_of(policy, demos))
    expected = oracles.forward_backward_of(selection, termination, acts, policy.initial, demos)
    found = ss.smooth(policy, demos)
    # Networks work in float32; what is compared is inference, fed with the same numbers twice.
    np.testing.assert_allclose(found.log_likelihood, expected[0], rtol=2e-6)
    for ours, theirs in zip((found.options, found.switches, found.departures), expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
    np.testing.assert_allclose(found.options.sum(1), 1, atol=1e-12)


def test_options_differ_and_a_seed_gives_them_twice(kind):
    one, two, other = (said_of(kind.policy(seed=seed), kind.demos())[2] for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, other, rtol=1e-3)
    assert not np.allclose(one[:, 0], one[:, 1], rtol=1e-3)


def test_missing_actions_say_nothing(kind):
    policy, demos = kind.policy(), kind.demos()
    mask = np.arange(demos.num_steps) % 3 > 0
    nonsense = demos.actions.copy()
    nonsense[~mask] = 0 if nonsense.dtype.kind == "i" else np.nan
    masked = ss.Demonstrations(demos.observations, nonsense, demos.episode_lengths, action_mask=mask)
    selection, termination, acts = (np.asarray(x, np.float64) for x in said_of(policy, demos))
    acts = np.where(mask[:, None], acts, 1.0)
    expected = oracles.forward_backward_of(selection, termination, acts, policy.initial, demos)
    np.testing.assert_allclose(ss.smooth(policy, masked).options, expected[1], atol=2e-6)
    assert np.isfinite(ss.fit(policy, masked, QUICK).log_likelihoods).all()


def test_batch_learning_makes_the_data_more_likely(kind):
    demos = kind.demos([200, 200])
    result = ss.fit(kind.policy(seed=1), demos, QUICK)
    assert len(result.log_likelihoods) == 8
    assert result.log_likelihoods[-1] > result.log_likelihoods[0] + 20
    assert ss.smooth(result.policy, demos).log_likelihood > result.log_likelihoods[0] + 20
    again = ss.fit(kind.policy(seed=1), demos, QUICK)
    for one, two in zip(arrays_of(result.policy), arrays_of(again.policy), strict=True):
        np.testing.assert_array_equal(one, two)


def test_online_learning_makes_the_data_more_likely(kind):
    demos, start = kind.demos([300, 300]), kind.policy(seed=1)
    learner = ss.OnlineLearner(start, ss.OnlineConfig(min_samples=30, steps=10, pseudo_count=0.1))
    learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
    before, after = (ss.smooth(policy, demos).log_likelihood for policy in (start, learner.policy))
    assert after > before + 20
    assert learner.log_likelihood > before


def test_frozen_it_gathers_the_batch_posteriors(kind):
    policy, demos = kind.policy(seed=2), kind.demos()
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(update_every=0, window=32))
    learner.partial_fit(demos.observations, demos.actions, demos.episode_starts)
    posterior, found = ss.smooth(policy, demos), learner.statistics
    expected = {
        "selection": posterior.switches,
        "termination": posterior.departures,
        "action": posterior.options,
    }
    for name, rows in expected.items():
        np.testing.assert_allclose(
            found[name].sum((0, 2) if found[name].ndim > rows.ndim else 0), rows.sum(0), rtol=1e-6
        )
    np.testing.assert_allclose(learner.log_likelihood, posterior.log_likelihood, rtol=1e-6)
    assert learner.policy is policy


def test_files_give_back_the_policy(kind, tmp_path):
    policy = ss.OptionPolicy(kind.policy().model, initial=[0.25, 0.75])
    policy.save(tmp_path / "policy")
    like = kind.policy(seed=9) if isinstance(policy.model, LinearGaussian) else None
    loaded = ss.OptionPolicy.load(tmp_path / "policy", like=like)
    assert repr(loaded) == repr(policy)
    for one, two in zip(arrays_of(policy), arrays_of(loaded), strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype


def test_a_policy_of_another_kind_is_not_read_as_this_one(kind, tmp_path):
    path = tmp_path / "policy"
    kind.policy(3).save(path)
    like = ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=0))
    if isinstance(kind.policy().model, LinearGaussian):
        with pytest.raises(ss.FileFormatError, match="a class of your own, give a policy of that class"):
            ss.OptionPolicy.load(path)
        with pytest.raises(ss.FileFormatError, match="gain"):
            ss.OptionPolicy.load(path, like=like)
    else:
        assert ss.OptionPolicy.load(path, like=like).num_options == 3


def test_flat_cloning_is_the_same_kind_with_one_option(kind):
    demos = kind.demos([200])
    if isinstance(kind.policy().model, LinearGaussian):
        with pytest.raises(ss.InputError, match="a class of your own"):
            ss.clone(kind.policy(), demos, QUICK)
        return
    result = ss.clone(kind.policy(), demos, QUICK)
    assert result.policy.num_options == 1
    assert type(result.policy.model) is type(kind.policy().model)
    assert result.log_likelihoods[-1] > result.log_likelihoods[0]


def test_data_of_another_size_are_refused(kind):
    policy, demos = kind.policy(), kind.demos([4])
    if isinstance(policy.model, LinearGaussian):
        pytest.skip("a class of a user's own checks what it wants to")
    if demos.observations.ndim == 1:
        wrong = ss.Demonstrations(demos.observations + 6, demos.actions)
    else:
        wrong = ss.Demonstrations(demos.observations[:, :1], demos.actions)
    learner = ss.OnlineLearner(policy)
    for use in (ss.smooth, ss.fit, lambda _, data: learner.partial_fit(data.observations, data.actions)):
        with pytest.raises(ss.InputError, match=r"^observations: "):
            use(policy, wrong)
    flat = demos.actions.reshape(4, -1)[:, :1]
    other = flat[:, 0] if flat.dtype.kind == "f" or demos.actions.ndim > 1 else flat
    other = ss.Demonstrations(demos.observations, np.zeros(4, int) if other.dtype.kind == "f" else other)
    with pytest.raises(ss.InputError, match=r"^actions: "):
        ss.fit(policy, other)


def test_penalties_are_for_gradient_steps_only(kind):
    policy, demos = kind.policy(), kind.demos([60])
    closed = hasattr(policy.model, "maximise") or not isinstance(policy.model, ss.ConditionalModel)
    batch = ss.BatchConfig(iterations=1, epochs=2, penalties=ss.Penalties.paper())
    online = ss.OnlineConfig(min_samples=58, steps=2, penalties=ss.Penalties(1.0, 0.1, 0.01))
    if closed:
        with pytest.raises(ss.InputError, match="penalties"):
            ss.fit(policy, demos, batch)
        with pytest.raises(ss.InputError, match="penalties"):
            ss.OnlineLearner(policy, online)
        return
    learner = ss.OnlineLearner(policy, online).partial_fit(demos.observations, demos.actions)
    for learnt in (ss.fit(policy, demos, batch).policy, learner.policy):
        assert all(np.isfinite(leaf).all() for leaf in arrays_of(learnt))
        assert not np.array_equal(said_of(learnt, demos)[0], said_of(policy, demos)[0])
