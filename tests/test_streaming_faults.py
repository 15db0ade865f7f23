"""A little of what faults/ does at length: writes that fail, files that are damaged."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
import streams
from layer import Layer, Plan

import skillstream as ss
from skillstream.errors import InputError
from skillstream.files import Journal
from skillstream.runs import RunDirectory
from skillstream.streaming.following import GrowingFile
from skillstream.streaming.progress import load_learner
from skillstream.streaming.sources import LineSource
from skillstream.streaming.state import StateDirectory

LINES = streams.steps(400)
LINES[100:100] = [b"garbage", b'{"observation": 9, "action": 0}']
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)
PLACES = ("before", "torn", "after")


@pytest.fixture(autouse=True)
def files_are_closed():
    with streams.files_closed():
        yield


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(LINES))
    return path


@pytest.fixture
def want(tmp_path, log):
    """The learner of a stream that nothing happens to, and its state."""
    served = streams.service(tmp_path / "want", log, checkpoint_every=100)
    served.run()
    return streams.bits(served.progress.learner), tmp_path / "want"


def test_a_write_that_fails_anywhere_is_told_and_made_good(tmp_path, log, want, monkeypatch):
    monkeypatch.setattr("skillstream.streaming.service._MOST", 64)
    for first in range(1, 1000, 5):
        folder, said = tmp_path / str(first), []
        plan = Plan(ERRORS[first % 3], PLACES[first // 3 % 3], first, first + (first % 2) * 10**9)
        with Layer(folder, plan).installed() as layer:
            try:
                served = streams.service(folder, log, checkpoint_every=100, say=said.append)
                served.run()
            except OSError as error:
                said.append(str(error))
        if not layer.hit:
            break
        if {*layer.hit} - {"ftruncate lock", "mkdir .", "mkdir checkpoints"}:
            assert any(os.strerror(plan.error) in note and str(folder) in note for note in said), plan
        served = streams.service(folder, log)
        assert served.run() == "finished", plan
        assert streams.bits(served.progress.learner) == want[0], plan
        steps = [line["step"] for line in served.state.run.metrics()]
        assert steps == sorted({*steps}), plan
    assert first > 80


@pytest.mark.parametrize("seed", range(3))
def test_every_file_damaged_is_noticed_or_harmless(tmp_path, log, want, seed):
    rng = np.random.default_rng(seed)
    files = [path.relative_to(want[1]) for path in want[1].rglob("*") if path.is_file()]
    assert len(files) == 9
    for file in files:
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        shutil.copytree(want[1], tmp_path / "state")
        path = tmp_path / "state" / file
        whole = path.read_bytes()
        place = int(rng.integers(len(whole) + 1))
        path.write_bytes(whole[:place] + (rng.bytes(9) + whole[place + 9 :] if seed else b""))
        try:
            assert streams.bits(load_learner(path.parents[len(file.parts) - 1])) == want[0] or "check" in str(
                file
            )
            ss.OptionPolicy.load(tmp_path / "state" / "policy.safetensors")
        except ss.FileFormatError:
            assert path.name == "policy.safetensors"
        served = streams.service(tmp_path / "state", log)
        assert served.run() == "finished", file
        assert streams.bits(served.progress.learner) == want[0], file
        assert streams.bits(load_learner(tmp_path / "state")) == want[0], file
        assert RunDirectory.open(tmp_path / "state").record["state"] == "finished"


def test_a_log_rotated_before_the_first_checkpoint_is_read_all_the_same(tmp_path, log):
    def source():
        return LineSource(GrowingFile(log, grace=0.0), enough=20)

    streams.abandon(streams.service(tmp_path / "state", log, source()))
    log.rename(tmp_path / "log.1")
    log.write_bytes(streams.text(streams.steps(50, 400)))
    served = streams.service(tmp_path / "state", log, source(), samples=450)
    assert served.run() == "finished"
    whole = streams.service(
        tmp_path / "whole",
        tmp_path / "all",
        LineSource(streams.Told(streams.text([*LINES, *streams.steps(50, 400)])), enough=20),
    )
    whole.run()
    assert streams.bits(served.progress.learner) == streams.bits(whole.progress.learner)


def test_a_damaged_record_is_set_aside_and_begun_anew(tmp_path, log, want):
    (want[1] / "run.json").write_text("{")
    served = streams.service(want[1], log)
    assert any("run.json.damaged" in note for note in served.state.notes)
    assert served.run() == "finished"
    assert RunDirectory.open(want[1]).record["results"]["samples"] == 400


def test_a_lock_is_let_go_on_a_full_disk(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    first = StateDirectory(tmp_path / "state", {})
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        first.release()
        with pytest.raises(OSError, match=r"cannot write .*lock \(No space left"):
            StateDirectory(tmp_path / "state", {})
    again = StateDirectory(tmp_path / "state", {})
    assert "taken over" in again.notes[0]
    again.release()


def test_a_list_that_lost_its_end_goes_on_with_whole_lines(tmp_path, want, log):
    for name in ("rejects.jsonl", "metrics.jsonl"):
        path = want[1] / name
        path.write_bytes(path.read_bytes()[:-5])
    log.write_bytes(streams.text([*LINES, b"more garbage", *streams.steps(300, 400)]))
    served = streams.service(want[1], log)
    notes = [*served.state.notes]
    served.run()
    assert sum("has lost" in note for note in notes) == 2
    rejects = [json.loads(line) for line in (want[1] / "rejects.jsonl").read_text().splitlines()]
    assert [reject["text"] for reject in rejects] == ["garbage", "more garbage"]
    assert served.state.run.metrics()[-1]["step"] == 700
    assert len(served.state.run.metrics()) == len((want[1] / "metrics.jsonl").read_text().splitlines())


def test_what_a_failed_write_left_at_the_end_goes_with_the_next_checkpoint(tmp_path):
    journal = Journal(tmp_path / "lines")
    journal.add(b"one\n")
    with (tmp_path / "lines").open("ab") as file:
        file.write(b"tw")
    journal.sync()
    assert (tmp_path / "lines").read_bytes() == b"one\n"
    (tmp_path / "lines").write_bytes(b"one\n" * 40_000 + b"tw")
    journal = Journal(tmp_path / "lines")
    journal.cut(10**9)
    assert journal.length == (tmp_path / "lines").stat().st_size == 160_000


def test_why_a_stream_failed_is_in_its_record_until_it_goes_on(tmp_path, log):
    def source():
        return LineSource(GrowingFile(log, follow=False), enough=20, strict=True)

    log.write_bytes(streams.text([*streams.steps(100), b"{", *streams.steps(50, 100)]))
    with pytest.raises(InputError):
        streams.service(tmp_path / "state", log, source()).run()
    record = RunDirectory.open(tmp_path / "state").record
    assert record["state"] == "failed"
    assert "line 101: malformed" in record["results"]["error"]
    log.write_bytes(streams.text([*streams.steps(100), *streams.steps(50, 100)]))
    streams.service(tmp_path / "state", log, source()).run()
    assert "error" not in RunDirectory.open(tmp_path / "state").record["results"]


def test_no_step_of_the_metrics_comes_twice(tmp_path, log):
    """Also where nothing but a bad line came between two ends."""
    log.write_bytes(streams.text(LINES[:123]))
    for more in (b"", b"bad\n", b""):
        with log.open("ab") as file:
            file.write(more)
        served = streams.service(tmp_path / "state", log)
        served.run()
    assert served.progress.rejected == 3
    assert [line["step"] for line in served.state.run.metrics()] == [121]


def test_a_slow_status_does_not_silence_the_next_ones(tmp_path, log, monkeypatch):
    served = streams.service(tmp_path / "state", log)
    now = [0.0]
    monkeypatch.setattr("skillstream.streaming.service.time.monotonic", lambda: now[0])

    def slow(status):
        now[0] += 10.0

    served._show = slow
    for _ in range(3):
        began = now[0]
        served._write_status("running")
        assert served._next_status - began <= 15.0
    streams.abandon(served)
