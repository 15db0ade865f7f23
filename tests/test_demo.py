"""The demo, its world and its picture, in small."""

import subprocess
import sys
import time

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

import skillstream as ss
from skillstream.acting.simulate import simulate
from skillstream.cli import main
from skillstream.experiments.demo import run_demo
from skillstream.experiments.matching import best_matching
from skillstream.experiments.shuttle import Shuttle
from skillstream.reporting.timeline import plot_timeline


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    output = tmp_path_factory.mktemp("demo") / "run"
    return output, run_demo(10_000, 4, 0, output, Console(quiet=True))


def test_the_hierarchy_finds_skills_that_a_flat_policy_cannot(results):
    _, (flat, online, batch, expert) = results
    assert flat.log_likelihood < expert.log_likelihood - 0.3
    assert online.log_likelihood > expert.log_likelihood - 0.1
    assert batch.log_likelihood > expert.log_likelihood - 0.05
    assert online.agreement > 0.95
    assert batch.agreement > 0.95
    assert expert.agreement > 0.99


def test_the_run_leaves_its_policies_and_a_picture(results):
    output, (_, online, batch, _) = results
    for result, name in ((online, "online"), (batch, "batch")):
        loaded = ss.OptionPolicy.load(output / f"{name}.safetensors").tables()
        np.testing.assert_array_equal(loaded["action"], result.policy.tables()["action"])
    assert matplotlib.image.imread(output / "timeline.png").shape[1] == 1200


def test_the_same_seed_simulates_the_same_steps():
    world = Shuttle(size=3)
    runs = [simulate(world.expert(), world.transitions(), world.start(), [30, 5], seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].observations, runs[1].observations)
    np.testing.assert_array_equal(runs[0].true_options, runs[1].true_options)
    assert (runs[0].observations != runs[2].observations).any()
    assert runs[0].episode_lengths.tolist() == [30, 5]


def test_simulated_steps_have_the_worlds_frequencies():
    world = Shuttle(size=2, slip=0.4)
    transitions = world.transitions()
    demos = simulate(world.expert(), transitions, world.start(), [60_000], seed=0)
    counts = np.zeros_like(transitions)
    np.add.at(counts, (demos.observations[:-1], demos.actions[:-1], demos.observations[1:]), 1)
    visits = counts.sum(2, keepdims=True)
    often = visits[..., 0] > 2000
    np.testing.assert_allclose((counts / visits)[often], transitions[often], atol=0.04)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episode_lengths": []}, "episode_lengths"),
        ({"episode_lengths": [3, 0]}, "episode_lengths"),
        ({"transitions": np.ones((9, 4, 9))}, "transitions: row"),
        ({"start": np.ones(2) / 2}, "start: must have the shape"),
    ],
)
def test_a_world_that_does_not_fit_is_refused(arguments, message):
    world = Shuttle(size=3)
    given = {"transitions": world.transitions(), "start": world.start(), "episode_lengths": [4]}
    with pytest.raises(ss.InputError, match=message):
        simulate(world.expert(), **{**given, **arguments})


def test_matching_renumbers_options_as_well_as_can_be():
    truth = np.array([0, 0, 1, 1, 2, 2])
    share, numbers = best_matching(np.array([2, 2, 0, 0, 1, 0]), truth)
    assert share == 5 / 6
    assert numbers.tolist() == [1, 2, 0]


def test_a_timeline_shows_each_option_in_its_colour(tmp_path):
    probabilities = np.repeat(np.eye(2), 50, axis=0)
    plot_timeline(tmp_path / "t.png", {"a": probabilities}, "title", np.arange(100) == 0)
    pixels = matplotlib.image.imread(tmp_path / "t.png")[:, :, :3].reshape(-1, 3)
    for colour in ((0, 0x72, 0xB2), (0xE6, 0x9F, 0)):
        assert (np.abs(pixels - np.array(colour) / 255).max(1) < 0.02).sum() > 1000


def test_help_is_quick_and_loads_no_jax():
    code = "import sys; from skillstream.cli import main\ntry: main(['--help'])\n"
    code += "finally: assert 'jax' not in sys.modules"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout
    assert time.perf_counter() - began < 10  # a hang, not a measurement: that is in benchmarks/


def test_the_command_runs_and_never_overwrites(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for expected in ("runs/demo", "runs/demo-2"):
        assert main(["demo", "--steps", "1000", "--starts", "1"]) == 0
        assert expected in capsys.readouterr().out
    assert (tmp_path / "runs/demo-2/timeline.png").exists()


@pytest.mark.parametrize("flags", [["--steps", "0"], ["--starts", "0"], ["--seed", "-1"]])
def test_bad_flags_are_named(flags, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["demo", *flags])
    assert f"{flags[0]}: must be at least" in capsys.readouterr().err
