"""The cost of E-steps: what is measured is the paper's recursion, and the page says what the numbers say."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import skillstream as ss
from skillstream.errors import FileFormatError, InputError
from skillstream.experiments import costs as measuring
from skillstream.experiments.literal import NumpyRecursion, begin, forward_backward, update
from skillstream.inference.potentials import Potentials
from skillstream.reporting.cost_section import costs_section, crossover_claims, some
from skillstream.reporting.costs import (
    BATCH,
    BATCH_OURS,
    COUNTED,
    ONLINE,
    ONLINE_NUMPY,
    ONLINE_OURS,
    PAPER,
    VARIABLES,
    CostRow,
    Costs,
    Crossover,
    growth,
)

SWEEPS = {"T": (500, 1000, 2000, 4000), "K": (2, 4, 8), "S": (16, 64, 256), "A": (2, 4, 8)}
BASE = {"T": 1000, "K": 4, "S": 64, "A": 4}


def made_up(exponents, scales=None):
    """Rows that grow with these exponents; at `BASE` each E-step takes its scale, 1 ms if none is given."""
    rows = []
    for name, variable in itertools.product(exponents, SWEEPS):
        for value in SWEEPS[variable]:
            size = BASE | {variable: value}
            ratios = [size[v] / BASE[v] for v in VARIABLES]
            seconds = (scales or {}).get(name, 1e-3) * np.prod(np.power(ratios, exponents[name]))
            rows.append(CostRow(name, variable, *size.values(), float(seconds)))
    return Costs(tuple(rows))


@pytest.fixture(scope="module")
def steps():
    policy = ss.OptionPolicy.tabular(3, 5, 4, seed=2)
    demos = oracles.sample_demos(policy, [60], seed=3)
    demos = ss.Demonstrations(demos.observations.astype(np.int32), demos.actions.astype(np.int32))
    with jax.enable_x64(True):
        seen, done = jnp.asarray(demos.observations), jnp.asarray(demos.actions)
        yield policy, demos, policy.model.potentials(seen, done, jnp.zeros(60, bool))


def test_the_batch_e_step_as_written_is_the_textbooks(steps):
    policy, demos, potentials = steps
    _, options, switches, departures = oracles.forward_backward(policy, demos)
    with jax.enable_x64(True):
        gamma, xi = jax.jit(forward_backward)(potentials, jnp.asarray(policy.initial))
    np.testing.assert_allclose(gamma.sum(2), options, atol=1e-10)
    np.testing.assert_allclose(gamma[:, :, 1], switches, atol=1e-10)
    np.testing.assert_allclose(xi, departures, atol=1e-10)


def test_the_online_e_steps_as_written_are_the_oracles(steps):
    policy, demos, potentials = steps
    oracle = oracles.LiteralOnline(policy, min_samples=1000)
    in_numpy = NumpyRecursion(policy.model)
    with jax.enable_x64(True):
        compiled, take = begin(3, 5, 4), jax.jit(update)
        for t, (state, action) in enumerate(zip(demos.observations, demos.actions, strict=True)):
            oracle.step(state, action, False)
            in_numpy.update(state, action)
            step = Potentials(*(column[t] for column in potentials))
            compiled = take(compiled, step, state, action, jnp.float64(t + 1))
    for found in (compiled, in_numpy):
        np.testing.assert_allclose(found.rho, oracle.rho, atol=1e-12)
        np.testing.assert_allclose(found.chi, oracle.chi, atol=1e-12)
        np.testing.assert_allclose(found.phi, oracle.phi, atol=1e-12)


def test_ours_does_in_its_window_what_the_exact_recursion_does():
    size = measuring.FULL.base._replace(K=32)
    config = ss.OnlineConfig(update_every=0, window=measuring.WINDOW, max_window=measuring.WINDOW)
    learner = ss.OnlineLearner(ss.OptionPolicy.tabular(size.K, size.S, size.A), config)
    learner.partial_fit(*(column[:1024] for column in measuring._samples(size, (1024,))))
    assert 0 < learner.certificate < 1e-6


def test_a_timing_leaves_out_what_calls_cost_and_what_happens_once(monkeypatch):
    now, calls = [0.0], itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run(count):
        hiccup = 1.0 if next(calls) % 7 == 0 else 0.0
        now[0] += 0.05 + count * 3e-6 + hiccup

    timer = measuring.Timer(measuring.Stepper(run, unit=2))
    for _ in range(9):
        timer.again()
    assert timer.count % 2 == 0
    assert timer.seconds == pytest.approx(3e-6)


def test_everything_is_measured():
    sweep = measuring.Sweep(
        measuring.Size(20, 2, 3, 2), {"T": (20, 40), "K": (2,), "S": (3,), "A": (2,)}, (3,), 1
    )
    told = []
    costs = measuring.measure_costs(progress=lambda *now: told.append(now), sweep=sweep)
    assert {row.algorithm for row in costs.rows} == set(PAPER)
    for name in PAPER:
        options = [2, 3] if name in (BATCH, BATCH_OURS) else [2]
        assert [row.value for row in costs.sweep(name, "K")] == options
        assert [row.value for row in costs.sweep(name, "T")] == [20, 40]
    assert all(1e-8 < row.seconds < 0.1 for row in costs.rows)
    assert [done for done, _, _ in told] == list(range(told[0][1]))
    assert "batch, as written: T = 20, K = 2" in told[0][2]


def test_growth_is_found_where_it_shows():
    rng = np.random.default_rng(0)
    values = [10, 30, 100, 300, 1000, 3000]
    errors = []
    for _ in range(200):
        seconds = 2e-6 * np.power(values, 1.5) * rng.lognormal(0, 0.1, 6)
        exponent, error = growth(values, list(seconds))
        errors.append((exponent - 1.5) / error)
    assert abs(np.mean(errors)) < 0.3
    assert 0.8 < np.std(errors) < 2
    with pytest.raises(InputError, match="values"):
        growth([3, 3], [1.0, 1.0])


def test_fits_look_at_the_larger_values_only():
    rows = [CostRow(ONLINE, "K", 9, k, 8, 7, 1e-6 * max(k, 4) ** 4) for k in (1, 2, 4, 8, 16, 32)]
    (fit,) = Costs(tuple(rows)).fits
    assert (fit.least, fit.points) == (4, 4)
    assert fit.exponent == pytest.approx(4)
    assert (fit.paper_exponent, fit.counted_exponent) == (3, 4)
    with pytest.raises(InputError, match="as T grows"):
        Costs(tuple(rows)).fit(ONLINE, "T")


def test_known_exponents_come_out():
    costs = made_up(COUNTED)
    assert len(costs.fits) == 20
    for fit in costs.fits:
        assert fit.exponent == pytest.approx(fit.counted_exponent, abs=1e-9)
        assert fit.standard_error == pytest.approx(0, abs=1e-9)


def test_costs_are_saved_and_loaded(tmp_path):
    costs = made_up(COUNTED)
    costs.save(tmp_path)
    assert Costs.load(tmp_path) == costs
    head, first = (tmp_path / "costs.csv").read_text().splitlines()[:2]
    assert head == "algorithm,variable,value,T,K,S,A,seconds"
    assert first.startswith('"batch, as written",T,500,500,4,64,4,0.000')
    assert len((tmp_path / "cost_exponents.csv").read_text().splitlines()) == 21


@pytest.mark.parametrize(
    "line",
    [
        '"batch, as written",T,500,500,4,64,4',
        '"batch, as written",T,500,500,four,64,4,0.1',
        '"batch, as written",T,500,500,4,64,4,nan',
        '"batch, as written",T,500,0,4,64,4,0.1',
        '"batch, as written",algorithm,500,500,4,64,4,0.1',
        "another,T,500,500,4,64,4,0.1",
    ],
)
def test_damaged_costs_are_refused(tmp_path, line):
    with pytest.raises(FileNotFoundError, match=r"costs\.csv"):
        Costs.load(tmp_path)
    (tmp_path / "costs.csv").write_text(f"algorithm,variable,value,T,K,S,A,seconds\n{line}\n")
    with pytest.raises(FileFormatError, match=r"costs\.csv: not a table"):
        Costs.load(tmp_path)


def test_crossovers_are_where_the_times_are_equal():
    costs = made_up(COUNTED, {BATCH: 2e-3, ONLINE: 1e-3})
    found = {c.S: c.samples for c in costs.crossovers(BATCH, ONLINE, "S")}
    assert found == pytest.approx({16: 125, 64: 500, 256: 2000})
    assert costs.crossovers(BATCH, ONLINE, "S")[0].share == pytest.approx(500 / 256)
    assert [c.samples for c in costs.crossovers(BATCH, ONLINE, "K")] == pytest.approx([125, 500, 2000])


def test_of_many_crossovers_some_are_shown():
    crossings = [Crossover("K", k, 1, 1, 1.0) for k in range(9)]
    assert [c.K for c in some(crossings)] == [0, 3, 5, 8]
    assert some(crossings[:1]) == crossings[:1]


@pytest.fixture(scope="module")
def sections():
    """The page where everything is as the paper says, and where it is as counted."""
    return costs_section(made_up(PAPER)), costs_section(made_up(COUNTED))


def test_the_section_says_whether_the_paper_holds(sections):
    as_paper, as_counted = sections
    assert "O(T K²) holds." in as_paper
    assert "O(|S||A| K³) holds." in as_paper
    assert "does not show at these sizes" in as_paper
    assert "with K to the power 2.00, which should be 1 by the operations it makes" in as_paper
    assert "with |S| to the power 1.00 and with |A| 1.00" in as_paper
    assert "O(T K²) holds." in as_counted
    words = "O(|S||A| K³) does not hold, for it grows faster with K (to the power 4.00, not 3)"
    assert words in as_counted
    assert "one factor K too few" in as_counted
    assert "with |S| and |A| not at all" in as_counted


def test_the_section_has_its_tables_and_two_figures(sections):
    for section in sections:
        assert section.count("<svg") == 2
        assert section.count("<table") == 2
        for name in PAPER:
            assert name in section
        assert "1.00 ± 0.00" in section
        assert "K = 4, |S| = 256, |A| = 4" in section
    assert sections[0] != sections[1]


@pytest.mark.parametrize(
    ("online", "words"),
    [
        # The batch takes 1 ms for 1000 samples, with 256 pairs of a state and an action.
        (
            0.0256e-3,
            "this holds, and earlier than claimed: at every |S| and |A| measured it is so from T = 0.1 ",
        ),
        (1.28e-3, "this holds: at every |S| and |A| measured it is so from T = 5 |S||A| on"),
        (5.12e-3, "this does not hold: at every |S| and |A| measured it is so from T = 20 |S||A| on"),
    ],
)
def test_the_claim_of_the_crossover_is_judged_by_the_numbers(online, words):
    costs = made_up(COUNTED, {ONLINE: online, BATCH_OURS: 1e-5, ONLINE_OURS: 1e-6, ONLINE_NUMPY: online})
    written, mixed, ours = crossover_claims(costs)
    assert words in written
    assert ("is not enough" in written) == (online > 0.64e-3)  # four times as much at K = 8
    assert ("does not hold" in mixed) == (online > 0.0256e-3)
    assert "a batch E-step of 100 samples or more" in ours


def test_the_whole_pass_names_the_cheaper():
    cheap = costs_section(made_up(COUNTED, {ONLINE: 1e-6, ONLINE_NUMPY: 1e-6, ONLINE_OURS: 1e-6}))
    assert "as written, 1 ms and 20 ms, online 20.0 times cheaper" in cheap
    assert "ours, 1 ms and 20 ms" in cheap
    assert "batch 50.0 times cheaper" in costs_section(made_up(COUNTED))
