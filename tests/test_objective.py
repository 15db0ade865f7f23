"""The M-step's objective against the paper's formulas written out with loops, and its gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from kinds import KINDS

import skillstream as ss
from skillstream.learning.ascent import batch_gradient, full_gradient, split
from skillstream.learning.objective import Objective, block_objective, objective, selection_means
from skillstream.policies.protocol import WeightedSamples

OPTIONS = 3
FORMS = ("bounded", "full", "taken")
CONTINUOUS = "networks, Gaussian by state"


@pytest.fixture(params=["networks, float64", "networks, several choices", CONTINUOUS])
def case(request):
    return make_case(request.param)


def make_case(name, rows=40):
    """A policy and weighted samples of it, as an M-step gets them, in float64."""
    kind, rng = KINDS[name], np.random.default_rng(4)
    model = kind.policy(OPTIONS, seed=1).model
    model = jax.tree.map(lambda x: np.asarray(x, np.float64), model)
    demos = kind.demos([rows])
    switches, stay, stop, options = rng.dirichlet(np.ones(OPTIONS), (4, rows)) / rows
    states, pairs = rng.dirichlet(np.ones(rows)), rng.dirichlet(np.ones(rows))
    columns = (demos.observations, demos.actions, switches, stay, stop, options, states, pairs)
    return model, WeightedSamples(*columns)


def on_device(samples):
    return WeightedSamples(*(jnp.asarray(column) for column in samples))


def taken_logs(model, samples):
    said = model.conditionals(jnp.asarray(samples.observations))
    return np.asarray(said.action.log_probability(jnp.asarray(samples.actions)))


def by_loops(model, samples, form):
    """Q, L_b, L_v and L_KL term by term."""
    said = model.conditionals(jnp.asarray(samples.observations))
    select, ends, logs = np.asarray(said.selection), np.asarray(said.termination), taken_logs(model, samples)
    chosen, rows = np.exp(select), range(len(samples.states))
    q = balance = variance = divergence = 0.0
    for i in rows:
        for o in range(OPTIONS):
            q += samples.switches[i, o] * select[i, o] + samples.options[i, o] * logs[i, o]
            q += samples.stay[i, o] * ends[i, o, 0] + samples.stop[i, o] * ends[i, o, 1]
    for o in range(OPTIONS):
        mean = sum(samples.states[i] * chosen[i, o] for i in rows)
        balance += abs(mean - 1 / OPTIONS)
        variance += sum(samples.states[i] * (chosen[i, o] - mean) ** 2 for i in rows)
    between = np.asarray(said.action.divergences(form)) if form != "taken" else None
    for i in rows:
        for o in range(OPTIONS):
            for other in range(OPTIONS):
                if other == o:
                    continue
                if between is None:
                    gap = np.exp(logs[i, o]) * (logs[i, o] - logs[i, other])
                else:
                    gap = between[i, o, other]
                divergence += samples.pairs[i] * gap
    return q, balance, variance, divergence


@pytest.mark.parametrize("form", FORMS)
def test_every_term_is_the_papers(case, form):
    model, samples = case
    with jax.enable_x64(True):
        found = objective(model, on_device(samples), form)
        expected = by_loops(model, samples, form)
    np.testing.assert_allclose([float(x) for x in found], expected, rtol=1e-12)


def test_the_signs_are_the_papers():
    weights = ss.Penalties(balance=2.0, variance=3.0, divergence=5.0)
    terms = Objective(*(jnp.float32(x) for x in (1.0, 10.0, 100.0, 1000.0)))
    assert float(terms.total(weights)) == 1 - 2 * 10 + 3 * 100 + 5 * 1000


def hand_made(probabilities):
    """pi_lo of two options over two actions at one state, and half a weight on each option."""
    logs = jnp.log(jnp.array([probabilities]))
    return ss.Categorical(logs)


def test_divergences_by_hand():
    with jax.enable_x64(True):
        action = hand_made([[0.5, 0.5], [0.9, 0.1]])
        full, bounded = (np.asarray(action.divergences(form))[0] for form in ("full", "bounded"))
    one = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    other = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    np.testing.assert_allclose(full, [[0, one], [other, 0]], atol=1e-15)
    distance = 1 - np.sqrt(0.45) - np.sqrt(0.05)
    np.testing.assert_allclose(bounded, [[0, distance], [distance, 0]], atol=1e-15)


def test_penalties_by_hand():
    class TwoStates(ss.ConditionalModel):
        """pi_hi is (0.8, 0.2) in one state and (0.4, 0.6) in the other."""

        num_options: int = eqx.field(static=True, default=2)

        def conditionals(self, observations):
            select = jnp.log(jnp.array([[0.8, 0.2], [0.4, 0.6]]))[observations]
            ends = jnp.log(jnp.full((len(observations), 2, 2), 0.5))
            action = ss.Categorical(jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]]))[None].repeat(2, 0))
            return ss.Conditionals(select, ends, action)

    with jax.enable_x64(True):
        weights = jnp.full((2, 2), 0.25)
        columns = (jnp.arange(2), jnp.array([0, 1]), weights, weights, weights, weights)
        half = jnp.full(2, 0.5)
        terms = objective(TwoStates(), WeightedSamples(*columns, half, half), "taken")
    # Means 0.6 and 0.4 are each 0.1 off a half; each option varies by 0.2 around its mean.
    np.testing.assert_allclose(terms.balance, 0.2, rtol=1e-12)
    np.testing.assert_allclose(terms.variance, 2 * 0.2**2, rtol=1e-12)
    taken = (0.5 - 0.9) * np.log(0.5 / 0.9) + (0.5 - 0.1) * np.log(0.5 / 0.1)
    np.testing.assert_allclose(terms.divergence, taken / 2, rtol=1e-12)
    expected_q = 0.25 * (np.log([0.8, 0.2, 0.4, 0.6]).sum() + 8 * np.log(0.5))
    expected_q += 0.25 * np.log([0.5, 0.9, 0.5, 0.1]).sum()
    np.testing.assert_allclose(terms.q, expected_q, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_agree_with_finite_differences(case, form):
    model, samples = case
    penalties = ss.Penalties(balance=0.7, variance=0.3, divergence=0.2, divergence_form=form)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        parts, samples = split(model), on_device(samples)

        def total(parameters):
            return objective(parts.join(parameters), samples, form).total(penalties)

        check_grads(total, (parts.parameters,), order=1, modes=["rev"], eps=1e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("form", "size", "used"),
    [*((form, 512, 512) for form in FORMS), ("bounded", 2048, 2048), ("bounded", 4096, 2600)],
)
def test_the_gradient_over_blocks_is_that_of_the_whole(case, form, size, used):
    model, samples = case
    penalties = ss.Penalties(balance=0.7, variance=0.3, divergence=0.2, divergence_form=form)
    with jax.enable_x64(True):
        parts, rows = split(model), len(samples.states)
        padded = WeightedSamples(
            *(jnp.asarray(np.pad(x, [(0, size - rows)] + [(0, 0)] * (x.ndim - 1))) for x in samples)
        )
        # Spread over blocks, small and large ones, so that sums over them count.
        order = np.concatenate([np.random.default_rng(0).permutation(used), np.arange(used, size)])
        spread = WeightedSamples(*(column[order] for column in padded))
        blocks = full_gradient(parts, spread, jnp.int32(used), penalties)(parts.parameters)
        batch = batch_gradient(parts, on_device(samples), penalties, parts.parameters)
        whole = jax.grad(lambda p: -objective(parts.join(p), on_device(samples), form).total(penalties))(
            parts.parameters
        )
    for one, other, expected in zip(*map(jax.tree.leaves, (blocks, batch, whole)), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_divergence_at_one_row_is_taken_there_alone(case, form):
    model, samples = case
    penalties = ss.Penalties(balance=0.7, variance=0.3, divergence=0.2, divergence_form=form)
    newest = 3
    pairs = np.zeros_like(samples.pairs)
    pairs[newest] = 1.0
    with jax.enable_x64(True):
        parts, rows = split(model), len(samples.states)
        given = samples._replace(pairs=pairs)
        padded = WeightedSamples(
            *(jnp.asarray(np.pad(x, [(0, 512 - rows)] + [(0, 0)] * (x.ndim - 1))) for x in given)
        )
        gradients = [
            full_gradient(parts, padded, jnp.int32(rows), penalties, *where)(parts.parameters)
            for where in ((), (jnp.int32(newest),))
        ]
    for everywhere, there in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(there, everywhere, rtol=1e-9, atol=1e-12)


def test_without_means_only_q_and_divergence_count(case):
    model, samples = case
    penalties = ss.Penalties(divergence=0.5)
    with jax.enable_x64(True):
        terms = objective(model, on_device(samples), "bounded")
        found = block_objective(model, on_device(samples), penalties, None)
        means = selection_means(model, on_device(samples))
        total = terms.total(penalties)
    np.testing.assert_allclose(found, total, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(means).sum(), 1, rtol=1e-12)


def test_bounded_divergence_is_bounded_and_the_others_are_not():
    with jax.enable_x64(True):
        logs = jnp.log(jnp.array([[[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]]]))
        apart = ss.Categorical(logs)
        far = ss.DiagonalGaussian(jnp.array([[[0.0], [1e6]]]), jnp.ones((1, 2, 1)))
        for action in (apart, far, ss.ProductOfCategoricals((apart, apart))):
            assert float(action.divergences("bounded").max()) <= 1
            assert float(action.divergences("full").max()) > 500


def test_an_action_that_cannot_be_adds_nothing_where_it_has_no_weight():
    class Certain(ss.ConditionalModel):
        """One option that always takes action 0."""

        logit: jax.Array
        num_options: int = eqx.field(static=True, default=1)

        def conditionals(self, observations):
            rows = len(observations)
            action = ss.Categorical(jnp.tile(jnp.array([0.0, -jnp.inf]), (rows, 1, 1)))
            return ss.Conditionals(jnp.zeros((rows, 1)), jnp.log(jnp.full((rows, 1, 2), 0.5)), action)

    one, none = jnp.ones((1, 1)), jnp.zeros((1, 1))
    samples = WeightedSamples(
        jnp.zeros((1, 1)), jnp.array([1]), one, one, none, none, jnp.ones(1), jnp.zeros(1)
    )
    terms = objective(Certain(jnp.float32(0)), samples, "full")
    assert np.isfinite([float(x) for x in terms]).all()
