"""The loop: killed anywhere it goes on to the same bits; bad lines, drift, signals, full disks."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import streams

import skillstream as ss
from skillstream import files
from skillstream.errors import InputError
from skillstream.streaming.drift import BLOCK
from skillstream.streaming.following import GrowingFile
from skillstream.streaming.progress import load_learner
from skillstream.streaming.sources import LineSource, Pipe

LINES = streams.steps(700)
LINES[3:3] = [b"garbage"]
LINES[300:300] = [b'{"observation": 9, "action": 0}', b'{"observations": [1, 2, 3], "actions": [0, null, 2]}']
SAMPLES = 703


@pytest.fixture(autouse=True)
def files_are_closed():
    with streams.files_closed():
        yield


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(LINES))
    return path


@pytest.fixture(scope="module")
def want(tmp_path_factory):
    """The learner and the lists of a stream that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "log").write_bytes(streams.text(LINES))
    served = streams.service(folder / "state", folder / "log")
    assert served.run() == "finished"
    assert served.progress.samples == SAMPLES
    return streams.bits(served.progress.learner), (folder / "state" / "rejects.jsonl").read_bytes()


class Killed(BaseException):
    """What kill -9 is to the test: nothing may run after it."""


class NoLock:
    """One that the dead do not keep."""

    note = None

    def __init__(self, path):
        pass

    def release(self):
        pass


def run_until_killed(folder, log, **pace):
    """A service that is abandoned when it is killed; whether it was."""
    served = None
    try:
        served = streams.service(folder, log, **pace)
        while served._ending is None:
            served.step()
        served._end(served._ending)
    except Killed:
        return True
    return False


def test_killed_at_every_write_it_goes_on_to_the_same_bits(tmp_path, log, want, monkeypatch):
    """Before, in the middle of and after each write, fsync and rename, and once more while it goes on."""
    calls, when = [0], [0]

    def dangerous(function):
        def wrapped(*arguments, **settings):
            calls[0] += 1
            if calls[0] == when[0]:
                raise Killed
            result = function(*arguments, **settings)
            calls[0] += 1
            if calls[0] == when[0]:
                raise Killed
            return result

        return wrapped

    monkeypatch.setattr("skillstream.streaming.state.Lock", NoLock)
    monkeypatch.setattr(files.os, "fsync", dangerous(lambda descriptor: None))
    monkeypatch.setattr(files.Path, "replace", dangerous(files.Path.replace))
    monkeypatch.setattr(files.Journal, "add", dangerous(files.Journal.add))
    monkeypatch.setattr("skillstream.streaming.service._MOST", 64)
    kills = 0
    for point in range(1, 1000):
        folder = tmp_path / str(point)
        calls[0], when[0] = 0, point
        pace = {"checkpoint_every": 200, "checkpoint_seconds": 1e9}
        if not run_until_killed(folder, log, **pace):
            break
        kills += 1
        calls[0], when[0] = 0, 7 + point % 11
        kills += run_until_killed(folder, log, **pace)
        calls[0], when[0] = 0, 0
        served = streams.service(folder, log, **pace)
        assert served.run() == "finished"
        assert streams.bits(served.progress.learner) == want[0], point
        assert (folder / "rejects.jsonl").read_bytes() == want[1], point
        steps = [line["step"] for line in served.state.run.metrics()]
        assert steps == sorted(set(steps)), point
    assert kills > 60


@pytest.mark.parametrize("seed", range(3))
def test_abandoned_between_steps_and_cut_in_batches_of_any_size(tmp_path, log, want, seed):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        served = streams.service(tmp_path / "state", log, checkpoint_every=int(rng.integers(1, 200)))
        for _ in range(int(rng.integers(1, 15))):
            if served._ending is None:
                served._limit = int(rng.integers(1, 60))
                served.step()
        streams.abandon(served)
    served = streams.service(tmp_path / "state", log)
    served.run()
    assert streams.bits(served.progress.learner) == want[0]
    assert (tmp_path / "state" / "rejects.jsonl").read_bytes() == want[1]
    assert streams.bits(load_learner(tmp_path / "state")) == want[0]


def make_networks(demos):
    config = ss.OnlineConfig(min_samples=50, update_every=25, steps=3, batch_size=32, memory=60, window=16)
    return ss.OnlineLearner(
        ss.OptionPolicy.neural(2, 2, 3, action_hidden=(3,), selection_hidden=(3,)), config
    )


def test_networks_go_on_with_optimiser_and_reservoir(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "log"
    seen, done = rng.normal(size=(400, 2)).tolist(), rng.integers(0, 3, 400).tolist()
    records = ({"observation": one, "action": other} for one, other in zip(seen, done, strict=True))
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    whole = streams.service(tmp_path / "whole", path, make=make_networks)
    whole.run()
    for number in (2, 5):
        served = streams.service(tmp_path / "state", path, make=make_networks, checkpoint_every=30)
        for _ in range(number):
            if served._ending is None:
                served._limit = 16 + number
                served.step()
        streams.abandon(served)
    served = streams.service(tmp_path / "state", path, make=make_networks)
    served.run()
    assert served.progress.samples == 400
    assert streams.bits(served.progress.learner) == streams.bits(whole.progress.learner)


def test_a_damaged_newest_checkpoint_costs_nothing_but_time(tmp_path, log, want):
    served = streams.service(tmp_path / "state", log, checkpoint_every=100)
    for _ in range(8):
        served.step()
    streams.abandon(served)
    newest = max((tmp_path / "state" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-9])
    said = []
    served = streams.service(tmp_path / "state", log)
    served._say = said.append
    served.run()
    assert any("using the checkpoint before it" in note for note in said)
    assert streams.bits(served.progress.learner) == want[0]
    assert (tmp_path / "state" / "rejects.jsonl").read_bytes() == want[1]


def test_others_read_while_it_learns(tmp_path, log):
    served = streams.service(tmp_path / "state", log, checkpoint_every=100)
    while served.progress.samples < 400:
        served.step()
    policy = ss.OptionPolicy.load(tmp_path / "state" / "policy.safetensors")
    known = load_learner(tmp_path / "state")
    assert 0 < known.num_samples <= served.progress.samples
    np.testing.assert_array_equal(policy.tables()["action"], known.policy.tables()["action"])
    served.run()
    status = json.loads((tmp_path / "state" / "status.json").read_text())
    assert (status["state"], status["samples"], status["rejected"]) == ("finished", SAMPLES, 2)
    assert status["checkpoint"] == SAMPLES
    assert len(status["recent"]["options"]) == len(status["recent"]["starts"]) == 400
    assert status["recent"]["first"] == SAMPLES - 400
    np.testing.assert_allclose(np.sum(status["recent"]["options"], 1), 1, atol=1e-3)
    assert sum(status["usage"]) == pytest.approx(1, abs=1e-3)
    assert status["memory"] > 2**20


def test_nothing_is_read_ahead_of_learning(tmp_path, log):
    log.write_bytes(streams.text(streams.steps(60_000)))
    served = streams.service(tmp_path / "state", log)
    for _ in range(6):
        served.step()
    assert served.source._source._file.tell() < log.stat().st_size / 2
    streams.abandon(served)


def test_a_full_disk_is_said_and_learning_goes_on(tmp_path, log, want, monkeypatch):
    full, said, fsync = [False], [], os.fsync

    def sync(descriptor):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", sync)
    monkeypatch.setattr("skillstream.streaming.service._MOST", 64)
    served = streams.service(tmp_path / "state", log, checkpoint_every=100, checkpoint_seconds=1e9)
    served._say = said.append
    while served.progress.samples < 620:
        full[0] = 200 < served.progress.samples < 500
        served.step()
    assert any("No space left on device" in note and "learning goes on" in note for note in said)
    full[0] = True
    with pytest.raises(OSError, match="No space left"):
        served.run()
    full[0] = False
    again = streams.service(tmp_path / "state", log)
    assert 500 <= again.progress.samples < SAMPLES
    again.run()
    assert streams.bits(again.progress.learner) == want[0]


def test_another_source_is_refused(tmp_path, log):
    streams.service(tmp_path / "state", log).run()
    (tmp_path / "other").write_bytes(streams.text(LINES))
    with pytest.raises(InputError, match=r"has learnt from .*log, not from .*other"):
        streams.service(tmp_path / "state", tmp_path / "other")


def test_strict_keeps_what_was_learnt_before_the_bad_line(tmp_path, log):
    def source():
        return LineSource(GrowingFile(log, follow=False), enough=20, strict=True)

    log.write_bytes(streams.text([*streams.steps(100), b"{", *streams.steps(50, 100)]))
    with pytest.raises(InputError, match="line 101"):
        streams.service(tmp_path / "state", log, source()).run()
    log.write_bytes(streams.text([*streams.steps(100), *streams.steps(50, 100)]))
    served = streams.service(tmp_path / "state", log, source())
    assert served.progress.samples == 100
    served.run()
    assert served.progress.samples == 150


def test_it_stops_after_so_many_samples_and_goes_on_to_more(tmp_path, log, want):
    for samples in (100, 333, 10_000):
        served = streams.service(tmp_path / "state", log, samples=samples)
        served.run()
        assert served.progress.samples == min(samples, SAMPLES)
    assert streams.bits(served.progress.learner) == want[0]


def test_a_pipe_that_goes_on_after_a_clean_end_loses_nothing(tmp_path, want):
    out, into = os.pipe()
    written = [streams.text(LINES[:10]), streams.text(LINES[10:250]), LINES[250][:7]]
    for part in written:  # too little to begin with; more than is learnt before the end; a part of a line
        os.write(into, part)
        served = streams.service(tmp_path / "state", "-", LineSource(Pipe(out), enough=20))
        served.step()
        served.stop()
        assert served.run() == "stopped"
    os.write(into, LINES[250][7:] + b"\n" + streams.text(LINES[251:]))
    os.close(into)
    served = streams.service(tmp_path / "state", "-", LineSource(Pipe(out), enough=20))
    served.run()
    assert streams.bits(served.progress.learner) == want[0]
    os.close(out)


def changing(reaction, tmp_path, seed=0):
    """A stream whose expert swaps its actions half way; the service after it, and its events."""
    rng, count = np.random.default_rng(seed), 40 * BLOCK
    seen = rng.integers(0, 5, 2 * count)
    done = np.where(np.arange(2 * count) < count, seen % 3, (seen + 1) % 3)
    done = np.where(rng.random(2 * count) < 0.1, rng.integers(0, 3, 2 * count), done)
    path = tmp_path / reaction
    path.write_bytes(
        b"".join(
            b'{"observation": %d, "action": %d}\n' % pair
            for pair in zip(seen.tolist(), done.tolist(), strict=True)
        )
    )
    served = streams.service(tmp_path / f"{reaction}-state", path, on_drift=reaction, checkpoint_every=1000)
    return served, path, count


@pytest.mark.parametrize("reaction", ["ignore", "forget", "restart"])
def test_a_change_of_expert_is_noticed_and_answered(tmp_path, reaction):
    served, path, count = changing(reaction, tmp_path)
    while served.progress.samples < count + 5 * BLOCK:  # killed around the change, it reacts to it once
        served.step()
    streams.abandon(served)
    again = streams.service(tmp_path / f"{reaction}-state", path, on_drift=reaction)
    again.run()
    events = [line for line in again.state.run.metrics() if line.get("event") == "drift"]
    assert len(events) == again.progress.drifts == 1
    assert count < again.progress.last_drift <= count + 8 * BLOCK
    assert events[0]["block"] < events[0]["usual"]
    learner = again.progress.learner
    running = learner.policy.tables()["action"][:, np.argmax(learner.option_probabilities)]
    assert np.mean([running[state, (state + 1) % 3] for state in range(5)]) > 0.85
    assert learner.num_samples == 2 * count - (reaction == "restart") * again.progress.last_drift
    assert again.progress.samples == 2 * count
    assert np.isfinite(again.progress.log_likelihood)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import streams
source = streams.LineSource(streams.GrowingFile(Path(sys.argv[3])), enough=20)
served = streams.service(Path(sys.argv[2]), sys.argv[3], source, checkpoint_every=100)
print(served.run(), flush=True)
"""


def process(tmp_path, log):
    arguments = [sys.executable, "-c", PROGRAM, os.path.dirname(__file__), str(tmp_path / "state"), str(log)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def wait_for(condition, started):
    while not condition() and started.poll() is None:
        time.sleep(0.001)


def test_kill_and_sigterm_of_a_real_process(tmp_path, want):
    """It is killed while it learns, and asked to stop while it waits for more."""
    path, status = tmp_path / "log", tmp_path / "state" / "status.json"
    path.write_bytes(streams.text(LINES))
    killed = process(tmp_path, path)
    wait_for(lambda: list((tmp_path / "state" / "checkpoints").glob("checkpoint*")), killed)
    killed.kill()
    assert killed.communicate(timeout=60)[0] == ""
    asked = process(tmp_path, path)
    wait_for(lambda: status.is_file() and json.loads(status.read_text())["pid"] == asked.pid, asked)
    asked.terminate()
    assert asked.communicate(timeout=60)[0] == "stopped\n"
    assert json.loads(status.read_text())["state"] == "stopped"
    served = streams.service(tmp_path / "state", path)
    served.run()
    assert streams.bits(served.progress.learner) == want[0]
    assert (tmp_path / "state" / "rejects.jsonl").read_bytes() == want[1]


@pytest.mark.parametrize(("number", "ending"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "stopped")])
def test_signals_end_it_with_a_checkpoint(tmp_path, log, number, ending):
    served = streams.service(tmp_path / "state", log)
    step, before = served.step, signal.getsignal(number)

    def interrupted():
        step()
        signal.raise_signal(number)

    served.step = interrupted
    assert served.run() == ending
    assert signal.getsignal(number) == before
    assert served.state.run.record["state"] == ending
    assert load_learner(tmp_path / "state").num_samples == served.progress.samples > 0
