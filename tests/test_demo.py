"""The demo in small, and what it is made of."""

import numpy as np
import pytest
from rich.console import Console

import skillstream as ss
from skillstream.cli import main
from skillstream.experiments.demo import run_demo
from skillstream.experiments.matching import best_matching


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    output = tmp_path_factory.mktemp("demo") / "run"
    return output, run_demo(2, 0, output, Console(quiet=True))


def test_where_the_option_is_memory_a_flat_policy_must_fail(demo):
    flat, batch, online, expert = demo[1]["hidden-goal"]
    assert flat.evaluation.mean < 0.2 * expert.evaluation.mean
    assert batch.evaluation.mean > 0.9 * expert.evaluation.mean
    assert online.evaluation.mean > 0.8 * expert.evaluation.mean
    assert min(batch.agreement, online.agreement) > 0.95
    assert flat.log_likelihood < online.log_likelihood < expert.log_likelihood


def test_in_the_papers_world_everyone_comes_near_the_expert(demo):
    *learners, expert = demo[1]["grid-world"]
    assert expert.agreement > 0.99
    for learnt in learners:
        assert learnt.evaluation.mean > 0.7 * expert.evaluation.mean


def test_the_run_leaves_policies_reports_and_a_picture(demo):
    output, results = demo
    for task, name in (("grid-world", "batch, networks"), ("hidden-goal", "batch, tables")):
        result = next(result for result in results[task] if result.name == name)
        loaded = ss.OptionPolicy.load(output / task / "policy.safetensors")
        assert repr(loaded) == repr(result.policy)
        assert "<html" in (output / task / "report.html").read_text()
    assert (output / "timeline.png").stat().st_size > 10_000


def test_matching_renumbers_options_as_well_as_can_be():
    truth = np.array([0, 0, 1, 1, 2, 2])
    share, numbers = best_matching(np.array([2, 2, 0, 0, 1, 0]), truth)
    assert share == 5 / 6
    assert numbers.tolist() == [1, 2, 0]


@pytest.mark.parametrize("flags", [["--starts", "0"], ["--seed", "-1"]])
def test_bad_flags_are_named(flags, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["demo", *flags])
    assert f"{flags[0]}: must be at least" in capsys.readouterr().err
