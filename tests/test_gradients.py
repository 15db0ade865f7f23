"""Batch learning by gradient steps: it climbs, it drops no sample, it stops in time, it refuses nonsense."""

import runpy

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from kinds import KINDS, LinearGaussian

import skillstream as ss
from skillstream.learning.samples import climb
from skillstream.policies.protocol import WeightedSamples

SMALL = {"selection_hidden": (8,), "action_hidden": (6,), "termination_hidden": (6,)}


def networks(seed=1, options=2, actions=2, **settings):
    return ss.OptionPolicy.neural(options, 2, actions, seed, **SMALL, **settings)


@pytest.fixture(scope="module")
def demos():
    return KINDS["networks"].demos([150, 1, 100])


def test_q_never_falls_over_an_m_step_of_small_full_batch_steps(demos):
    config = ss.BatchConfig(
        iterations=12, epochs=20, batch_size=None, learning_rate=2e-3, track_objective=True
    )
    before, befores = networks(dtype="float64"), []

    def watch(progress):
        befores.append(progress.policy)

    result = ss.fit(before, demos, config, callback=watch)
    for old, new, q in zip([before, *befores], befores, result.objectives, strict=False):
        posterior = ss.smooth(old, demos)
        assert q == pytest.approx(auxiliary(new, posterior, demos), rel=1e-9)
        assert q > auxiliary(old, posterior, demos)
    assert (np.diff(result.log_likelihoods) > 0).all()
    assert set(result.penalties) == {"balance", "variance", "divergence"}
    assert all(len(values) == 12 for values in result.penalties.values())


def auxiliary(policy, posterior, demos):
    """Q of the paper, a step, in NumPy."""
    with jax.enable_x64(True):
        said = policy.model.conditionals(jnp.asarray(demos.observations))
        taken = np.asarray(said.action.log_probability(jnp.asarray(demos.actions)))
        selection, termination = np.asarray(said.selection), np.asarray(said.termination)
    total = (posterior.switches * selection).sum() + (posterior.departures * termination).sum()
    return ((posterior.options * taken).sum() + total) / demos.num_steps


class Bias(ss.ConditionalModel):
    """One option; the mean action is a parameter of its own at every observation."""

    mean: jax.Array
    num_options: int = eqx.field(static=True, default=1)

    def conditionals(self, observations):
        rows = len(observations)
        mean = self.mean[observations][:, None, None]
        action = ss.DiagonalGaussian(mean, jnp.ones_like(mean))
        return ss.Conditionals(jnp.zeros((rows, 1)), jnp.log(jnp.full((rows, 1, 2), 0.5)), action)


@pytest.mark.parametrize("batch_size", [None, 1, 7, 32, 300])
def test_a_pass_sees_every_sample_once(batch_size):
    count, rate = 75, 1e-3
    weights = np.zeros((256, 1))
    weights[:count] = 1 / count
    zeros = np.zeros((256, 1))
    columns = (
        np.arange(256) % count,
        np.ones((256, 1)),
        zeros,
        zeros,
        zeros,
        weights,
        zeros[:, 0],
        zeros[:, 0],
    )
    with jax.enable_x64(True):
        model, _, ok = climb(
            Bias(np.zeros(count)),
            optax.sgd(rate).init(Bias(jnp.zeros(count))),
            WeightedSamples(*(jnp.asarray(column) for column in columns)),
            count,
            jax.random.key(0),
            optax.sgd(rate),
            ss.BatchConfig(epochs=1, batch_size=batch_size),
        )
    assert ok
    # A sample's gradient is its weight, scaled up to what a whole mini-batch stands for.
    size = min(batch_size or count, count)
    last = count % size or size
    steps = sorted(np.asarray(model.mean) / rate)
    expected = sorted([1 / last] * last + [1 / size] * (count - last))
    np.testing.assert_allclose(steps, [1 / count] * count if batch_size is None else expected, rtol=1e-6)


def test_the_order_of_samples_is_seeded(demos):
    runs = [
        ss.fit(networks(), demos, ss.BatchConfig(iterations=1, epochs=1, seed=seed)).policy
        for seed in (0, 0, 1)
    ]
    first, same, other = (policy.model.action.weights[0] for policy in runs)
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_any_optimiser_will_do(demos):
    config = ss.BatchConfig(iterations=3, epochs=5, batch_size=None)
    for optimiser in (optax.adam(1e-2), optax.chain(optax.clip(1.0), optax.sgd(0.1, momentum=0.9))):
        history = ss.fit(networks(), demos, config, optimiser=optimiser).log_likelihoods
        assert history[-1] > history[0]


def test_an_optimiser_begins_anew_if_it_is_told_to(demos):
    kept, anew = (
        ss.fit(
            networks(), demos, ss.BatchConfig(iterations=2, epochs=3, batch_size=None, keep_optimiser=keep)
        )
        for keep in (True, False)
    )
    assert kept.log_likelihoods[1] == anew.log_likelihoods[1]
    assert not np.array_equal(kept.policy.model.action.weights[0], anew.policy.model.action.weights[0])


def test_held_out_data_stop_the_fit_at_the_best_policy():
    train, held_out = KINDS["networks"].demos([30]), KINDS["networks"].demos([400], seed=1)
    seen = []
    config = ss.BatchConfig(iterations=60, epochs=40, batch_size=None, patience=3)
    result = ss.fit(networks(), train, config, validation=held_out, callback=lambda p: seen.append(p.policy))
    best = int(np.argmax(result.validation))
    assert result.converged
    assert len(result.validation) == best + 4 < 60
    assert result.validation[best] == pytest.approx(
        ss.smooth(result.policy, held_out).log_likelihood / held_out.num_steps
    )
    assert result.policy is not seen[-1]


def test_held_out_data_that_tables_rule_out_do_not_end_the_fit():
    start = ss.OptionPolicy.tabular(1, 2, 2)
    train, held_out = ss.Demonstrations([0, 1], [0, 0]), ss.Demonstrations([0, 1], [0, 1])
    with pytest.warns(ss.ImpossibleSampleWarning, match="validation: has probability 0 under every policy"):
        result = ss.fit(start, train, ss.BatchConfig(iterations=4, patience=2), validation=held_out)
    assert result.validation.tolist() == [-np.inf] * 4
    assert not result.converged
    np.testing.assert_array_equal(result.policy.tables()["action"][:, 0], [[1, 0], [1, 0]])


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_step_that_is_not_finite_is_refused_and_told(demos):
    start = ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=0))
    data = KINDS["own class"].demos([100])
    optimiser = optax.sgd(1e30)
    with pytest.warns(ss.RefusedStepWarning, match=r"the least likely sample is step \d+ of episode 0"):
        result = ss.fit(
            start, data, ss.BatchConfig(iterations=5, epochs=3, batch_size=None), optimiser=optimiser
        )
    assert len(result.log_likelihoods) == 1
    assert result.policy is start


def test_penalties_do_what_they_are_for():
    demos = KINDS["networks"].demos([300])
    config = {"iterations": 4, "epochs": 20, "batch_size": None, "track_objective": True}
    plain, balanced, varied, apart = (
        ss.fit(networks(), demos, ss.BatchConfig(**config, penalties=ss.Penalties(*weights))).penalties
        for weights in ((), (2.0,), (0, 2.0), (0, 0, 2.0))
    )
    assert balanced["balance"][-1] < plain["balance"][-1]
    assert varied["variance"][-1] > plain["variance"][-1]
    assert apart["divergence"][-1] > plain["divergence"][-1]
    assert apart["divergence"].max() <= 2  # two ordered pairs, each at most 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", -1e-2),
        ("learning_rate", np.nan),
        ("epochs", 0),
        ("batch_size", 0),
        ("patience", 0),
    ],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ss.InputError, match=f"^{setting}: "):
        ss.BatchConfig(**{setting: value})


def test_the_example_of_a_policy_of_your_own_finds_its_skills(capsys):
    runpy.run_path("examples/linear_gaussian.py", run_name="__main__")
    shares = [float(line.split()[1].rstrip("%")) for line in capsys.readouterr().out.splitlines()]
    assert len(shares) == 2
    assert min(shares) > 95
