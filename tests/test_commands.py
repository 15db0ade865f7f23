"""The command line from end to end: collect, fit, stream, segment, evaluate, and what goes wrong."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import skillstream as ss
from skillstream.cli import COMMANDS, main
from skillstream.runs import RunDirectory
from skillstream.streaming.progress import load_learner

QUICK = ["--iterations", "4", "--starts", "1"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments, code=0):
    """The JSON that a command prints."""
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def fails(capsys, *arguments):
    """The error that a command prints."""
    assert main([*arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("skillstream: ")
    return said.err


@pytest.mark.parametrize(
    ("task", "kind"), [("hidden-goal", "tabular"), ("cart-pole", "neural"), ("pendulum", "neural")]
)
def test_from_an_expert_to_skills_and_an_agent(capsys, task, kind):
    made = run(capsys, "collect", task, "--steps", "400")
    assert (made["run"], made["steps"]) == (f"runs/collect-{task}", 400)
    fitted = run(capsys, "fit", made["run"], *QUICK)
    assert fitted["state"] == "finished"
    assert sum(fitted["usage"]) == pytest.approx(1)
    assert kind in repr(ss.OptionPolicy.load(f"{fitted['run']}/policy.safetensors"))
    assert (len(RunDirectory.open(_path(fitted)).metrics())) == 4
    streamed = run(capsys, "stream", made["run"], "--min-samples", "200", "--update-every", "50")
    assert streamed["samples"] == 400
    for learnt in (fitted, streamed):
        found = run(capsys, "evaluate", learnt["run"], "--episodes", "2")
        assert found["task"] == task
        assert len(found["returns"]) == 2
    cut = run(capsys, "segment", fitted["run"], made["run"], "--method", "viterbi")
    table = np.genfromtxt(f"{cut['run']}/segments.csv", delimiter=",", names=True)
    assert len(table) == 400
    assert {"episode", "step", "option", "probability", "switch", "probability_1"} <= set(table.dtype.names)
    made_pictures = (f"{cut['run']}/{name}.png" for name in ("usage", "timeline", "frames"))
    for picture in (*made_pictures, f"{fitted['run']}/timeline.png"):
        with open(picture, "rb") as file:
            assert file.read(4) == b"\x89PNG"


def _path(result):
    return Path(result["run"])


def test_words_for_people(capsys):
    assert main(["collect", "hidden-goal", "--steps", "50"]) == 0
    assert "Next: skillstream fit runs/collect-hidden-goal" in capsys.readouterr().out
    assert main(["fit", "runs/collect-hidden-goal", *QUICK]) == 0
    assert "skillstream evaluate runs/fit-hidden-goal" in capsys.readouterr().out
    assert main(["evaluate", "runs/fit-hidden-goal", "--episodes", "2"]) == 0
    said = capsys.readouterr().out
    assert "the expert's is 12.39" in said
    assert "option 1:" in said


def test_runs_say_what_made_them_and_never_overwrite(capsys):
    first, second = (run(capsys, "collect", "hidden-goal", "--steps", "20", "--seed", "3") for _ in range(2))
    assert (first["run"], second["run"]) == ("runs/collect-hidden-goal", "runs/collect-hidden-goal-2")
    record = RunDirectory.open(_path(first)).record
    assert record["settings"]["seed"] == 3
    assert record["state"] == "finished"
    assert record["versions"]["skillstream"] == ss.__version__
    one, two = (ss.Demonstrations.load(f"{made['run']}/demonstrations.npz") for made in (first, second))
    np.testing.assert_array_equal(one.actions, two.actions)
    for words in (("collect", "hidden-goal"), ("evaluate", "nowhere"), ("segment", "nowhere", "nowhere")):
        assert "exists already" in fails(capsys, *words, "--output", first["run"])


def test_demonstrations_in_other_files(capsys):
    run(capsys, "collect", "cart-pole", "--episodes", "1", "--save", "demos.csv")
    assert ss.Demonstrations.load("demos.csv").num_steps == 2000
    assert main(["stream", "demos.csv", "--min-samples", "1990"]) == 0
    assert "Next: skillstream segment runs/stream-demos demos.csv;" in capsys.readouterr().out
    fitted = run(capsys, "fit", "demos.csv", *QUICK, "--epochs", "1")
    assert "name one, such as cart-pole" in fails(capsys, "evaluate", fitted["run"])
    assert run(capsys, "evaluate", fitted["run"], "cart-pole", "--episodes", "1")["task"] == "cart-pole"
    assert "exists already" in fails(capsys, "collect", "cart-pole", "--save", "demos.csv")


def test_a_policy_demonstrates_and_settings_reach_the_world(capsys):
    made = run(capsys, "collect", "grid-world", "--steps", "60", "--set", "observation=index", "wind=0.2")
    assert ss.Demonstrations.load(f"{made['run']}/demonstrations.npz").observations.ndim == 1
    fitted = run(capsys, "fit", made["run"], *QUICK)
    flags = ["--steps", "60", "--expert", fitted["run"], "--set", "observation=index"]
    again = run(capsys, "collect", "grid-world", *flags)
    demos = ss.Demonstrations.load(f"{again['run']}/demonstrations.npz")
    assert demos.true_options is not None
    assert run(capsys, "evaluate", fitted["run"], "--episodes", "1")["task"] == "grid-world"


def interrupt_after(monkeypatch, times):
    """Have logging a metric raise what Ctrl-C raises, once so many were logged."""
    logged, log = [], RunDirectory.log

    def interrupted(self, step, **numbers):
        logged.append(step)
        if len(logged) == times + 1:
            signal.raise_signal(signal.SIGINT)
        log(self, step, **numbers)

    monkeypatch.setattr(RunDirectory, "log", interrupted)


def test_an_interrupted_fit_is_saved_and_goes_on(capsys, monkeypatch):
    made = run(capsys, "collect", "hidden-goal", "--steps", "200")
    flags = ["fit", made["run"], "--starts", "1", "--tolerance", "0", "--iterations"]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        cut = run(capsys, *flags, "6", code=130)
    assert cut["state"] == RunDirectory.open(_path(cut)).record["state"] == "interrupted"
    rest = run(capsys, *flags, "4", "--start", cut["run"])
    whole = run(capsys, *flags, "6")
    assert rest["log_likelihood"] == pytest.approx(whole["log_likelihood"], rel=1e-12)


def test_an_interrupted_stream_is_saved_and_goes_on_from_the_next_sample(capsys, monkeypatch):
    made = run(capsys, "collect", "hidden-goal", "--steps", "900")
    flags = ["stream", made["run"], "--min-samples", "100"]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 0)
        cut = run(capsys, *flags, code=130)
    assert 0 < cut["samples"] < 900
    rest = run(capsys, *flags, "--resume", cut["run"])
    assert rest["run"] == cut["run"]
    whole = run(capsys, *flags)
    assert rest["samples"] == whole["samples"] == 900
    assert rest["predictive_log_likelihood"] == whole["predictive_log_likelihood"]


def test_a_stream_cut_before_its_first_sample_says_so(capsys, monkeypatch):
    made = run(capsys, "collect", "hidden-goal", "--steps", "50")

    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(ss.OnlineLearner, "partial_fit", interrupted)
    cut = run(capsys, "stream", made["run"], code=130)
    assert (cut["state"], cut["samples"]) == ("interrupted", 0)


def test_a_stream_keeps_what_it_learnt_before_a_bad_episode(capsys, tmp_path):
    Path("grow.csv").write_text("episode,observation,action\n0,0,0\n0,0,1\n1,7,1\n")
    said = fails(capsys, "stream", "grow.csv", "--output", "kept")
    assert "episode 1 of grow.csv: observations: step 0 holds 7" in said
    assert "--states" in said
    assert RunDirectory.open(tmp_path / "kept").record["state"] == "failed"
    assert load_learner(tmp_path / "kept").num_samples == 2
    assert run(capsys, "stream", "grow.csv", "--states", "8")["samples"] == 3


def test_a_stream_goes_on_in_its_state_directory(capsys):
    def lines(first, last):
        return "".join(
            f'{{"episode": {i // 20}, "observation": {i % 7}, "action": {i % 3}}}\n'
            for i in range(first, last)
        )

    flags = ["--state", "live", "--once", "--first-lines", "50"]
    Path("log.jsonl").write_text(lines(0, 300) + '{"observation": -1}\n')
    assert run(capsys, "stream", "log.jsonl", *flags)["samples"] == 300
    with Path("log.jsonl").open("a") as file:
        file.write(lines(300, 500))
    more = run(capsys, "stream", "log.jsonl", *flags)
    assert (more["samples"], more["rejected"], more["run"]) == (500, 1, "live")
    whole = run(capsys, "stream", "log.jsonl", "--first-lines", "50")
    assert whole["run"] == "runs/stream-log"
    assert whole["predictive_log_likelihood"] == more["predictive_log_likelihood"]
    assert main(["stream", "log.jsonl", *flags]) == 0
    said = capsys.readouterr()
    assert "1 left out (see live/rejects.jsonl)" in said.out
    assert "going on after 500 samples" in said.err
    assert "give one of the two" in fails(capsys, "stream", "log.jsonl", "--state", "a", "--output", "b")
    assert "line 301: out of space" in fails(capsys, "stream", "log.jsonl", "--strict", "--first-lines", "50")
    for flag in ("--keep", "--checkpoint-every", "--first-lines", "--checkpoint-seconds"):
        assert f"{flag}: must be" in fails(capsys, "stream", "log.jsonl", flag, "0")


def test_a_stream_from_a_live_world(capsys):
    flags = ["stream", "gym:hidden-goal?seed=1", "--state", "live", "--samples"]
    assert [run(capsys, *flags, samples)["samples"] for samples in ("150", "400")] == [150, 400]
    again = run(capsys, "stream", "gym:hidden-goal?seed=1", "--samples", "400")
    assert again["run"] == "runs/stream-hidden-goal"
    kept, anew = (load_learner(Path(folder)) for folder in ("live", again["run"]))
    assert kept.log_likelihood == anew.log_likelihood
    assert run(capsys, "evaluate", "live", "--episodes", "2")["task"] == "hidden-goal"


def test_a_run_that_fails_says_so(capsys, tmp_path):
    run(capsys, "collect", "hidden-goal", "--steps", "30")
    run(capsys, "collect", "cart-pole", "--steps", "30")
    pole = run(capsys, "fit", "runs/collect-cart-pole", *QUICK)["run"]
    fails(capsys, "fit", "runs/collect-hidden-goal", "--start", pole, "--output", "bad")
    assert RunDirectory.open(tmp_path / "bad").record["state"] == "failed"
    assert "does not say a format" in fails(capsys, "collect", "cart-pole", "--save", "a.foo")
    assert not (tmp_path / "runs" / "collect-cart-pole-2").exists()


def test_damaged_records_are_refused(capsys):
    made = run(capsys, "collect", "hidden-goal", "--steps", "30")["run"]
    fitted = run(capsys, "fit", made, *QUICK)["run"]
    for folder, command in ((made, "fit"), (fitted, "evaluate")):
        record = Path(folder, "run.json")
        whole = json.loads(record.read_text())
        for damage in ({"task": 5}, {"set": 3}, {"set": [1]}):
            record.write_text(json.dumps({**whole, "settings": {**whole["settings"], **damage}}))
            assert "damaged" in fails(capsys, command, folder)
        record.write_text(json.dumps(whole))


def test_states_must_be_numbered_without_gaps(capsys):
    Path("far.csv").write_text("observation,action\n9999999999,0\n")
    assert "numbered without gaps" in fails(capsys, "fit", "far.csv")


def test_ctrl_c_elsewhere_ends_quietly(capsys, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["collect"], "run", interrupted)
    assert main(["collect", "cart-pole"]) == 130
    assert capsys.readouterr().err == "skillstream: interrupted\n"


def test_a_full_disk_is_said_plainly(capsys, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in fails(capsys, "collect", "hidden-goal", "--steps", "20")


def test_bad_input_is_named(capsys, tmp_path):
    run(capsys, "collect", "hidden-goal", "--steps", "30")
    run(capsys, "collect", "cart-pole", "--steps", "30")
    hidden, pole = "runs/collect-hidden-goal", "runs/collect-cart-pole"
    fitted = run(capsys, "fit", hidden, *QUICK)["run"]
    assert "did you mean cart-pole" in fails(capsys, "collect", "cart-pool")
    assert "give one of the two" in fails(capsys, "collect", "cart-pole", "--steps", "1", "--episodes", "1")
    assert "seed: must be a whole number from 0" in fails(capsys, "collect", "cart-pole", "--seed", "-1")
    assert "max_episode_steps: must be" in fails(
        capsys, "collect", "cart-pole", "--set", "max_episode_steps=-1"
    )
    assert "--set: must be NAME=VALUE" in fails(capsys, "collect", "cart-pole", "--set", "levels")
    assert "no file or folder nowhere.npz" in fails(capsys, "fit", "nowhere.npz")
    assert "not one of collect" in fails(capsys, "fit", fitted)
    assert "--options: must be at least 1" in fails(capsys, "fit", hidden, "--options", "0")
    assert "tables need discrete observations" in fails(capsys, "fit", pole, "--policy", "tabular")
    assert "networks need continuous observations" in fails(capsys, "fit", hidden, "--policy", "neural")
    assert "observations: this policy needs integers" in fails(capsys, "segment", fitted, pole)
    assert "env is no setting" in fails(capsys, "evaluate", fitted, "--set", "env=1")
    assert "has 4 actions, but the world only 2" in fails(capsys, "evaluate", fitted, "cart-pole")
    assert "observation: must have the shape" in fails(capsys, "evaluate", fitted, "lunar-lander")
    assert "holds no policy.safetensors" in fails(capsys, "evaluate", hidden)
    assert "there is no file nowhere" in fails(capsys, "stream", hidden, "--resume", "nowhere")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    assert "run.json: damaged" in fails(capsys, "fit", "broken")


def test_bad_settings_are_named_before_anything_is_written(capsys, tmp_path):
    assert "iterations: must be a whole number from 1" in fails(capsys, "fit", "a.npz", "--iterations", "0")
    assert not (tmp_path / "runs").exists()


def test_tensorboard_needs_its_extra(capsys, monkeypatch):
    run(capsys, "collect", "hidden-goal", "--steps", "30")
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert "skillstream[tensorboard]" in fails(capsys, "fit", "runs/collect-hidden-goal", "--tensorboard")


def test_tensorboard_gets_the_metrics(capsys):
    pytest.importorskip("tensorboardX")
    run(capsys, "collect", "hidden-goal", "--steps", "30")
    fitted = run(capsys, "fit", "runs/collect-hidden-goal", *QUICK, "--tensorboard")
    assert list(_path(fitted).glob("tensorboard/events*"))


def test_help_is_quick_and_loads_nothing_heavy():
    code = "import sys; from skillstream.cli import main\ntry: main(['--help'])\n"
    code += "finally: assert not {'jax', 'gymnasium', 'matplotlib', 'minari'} & set(sys.modules)"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)
    assert time.perf_counter() - began < 10  # a hang, not a measurement: that is in benchmarks/


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"Example: skillstream {command}" in capsys.readouterr().out
