"""The state directory: one writer, checkpoints whole or absent, damage noticed, the last N kept."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import skillstream as ss
from skillstream.errors import FileFormatError, InputError
from skillstream.files import Journal
from skillstream.streaming.lines import Reject
from skillstream.streaming.state import StateDirectory, checkpoints, load_checkpoint

ARRAYS = {"a": np.arange(5.0), "b": np.zeros((2, 0), np.uint8), "c": np.array(True)}


@pytest.fixture
def state(tmp_path):
    made = StateDirectory(tmp_path / "state", {"seed": 1}, keep=2)
    yield made
    made.release()


def read(where, arrays, header):
    return header["number"]


def test_a_checkpoint_comes_back_and_the_last_ones_are_kept(state):
    assert state.newest(read) is None
    for samples in (5, 20, 100):
        state.save(samples, ARRAYS, {"number": samples / 3})
    assert [path.name[11:26] for path in checkpoints(state.path)] == ["000000000000020", "000000000000100"]
    arrays, header = load_checkpoint(checkpoints(state.path)[-1])
    assert header["number"] == 100 / 3
    assert {name: (x.dtype, x.shape) for name, x in arrays.items()} == {
        name: (x.dtype, x.shape) for name, x in ARRAYS.items()
    }
    assert state.newest(read) == 100 / 3
    assert state.notes == []


def test_every_flipped_bit_and_every_cut_is_noticed(state):
    state.save(5, ARRAYS, {"number": 1.5})
    path = checkpoints(state.path)[0]
    whole = path.read_bytes()
    same = load_checkpoint(path)[1]
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            assert load_checkpoint(path)[1] == same, place  # white space of the header
        except FileFormatError:
            continue
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            load_checkpoint(path)


def test_a_damaged_one_is_set_aside_and_the_one_before_is_used(state):
    for samples in (5, 20):
        state.save(samples, ARRAYS, {"number": samples})
    newest = checkpoints(state.path)[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    assert state.newest(read) == 5
    assert "damaged" in state.notes[0]
    assert "using the checkpoint before it" in state.notes[0]
    assert [path.name for path in checkpoints(state.path)] == ["checkpoint-000000000000005.safetensors"]
    for path in checkpoints(state.path):
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint in .* can be read"):
        state.newest(read)


def test_what_the_reader_refuses_is_damaged_but_another_source_is_not(state):
    state.save(5, ARRAYS, {"number": 1})

    def elsewhere(where, arrays, header):
        raise InputError("--state: has learnt from another source")

    with pytest.raises(InputError, match="another source"):
        state.newest(elsewhere)
    assert len(checkpoints(state.path)) == 1

    def missing(where, arrays, header):
        return header["nothing"]

    with pytest.raises(InputError, match="can be read"):
        state.newest(missing)


def test_lists_are_cut_back_to_the_checkpoint(state):
    state.reject((Reject(1, "why", "x"),))
    state.run.log(10, log_likelihood=-1.0)
    state.save(5, ARRAYS, {"number": 1})
    state.reject((Reject(2, "why", "\u2028<script>"), Reject(3, "why", "x")))
    state.run.log(20, log_likelihood=-1.0)
    assert len((state.path / "rejects.jsonl").read_text().splitlines()) == 3
    state.newest(read)
    (line,) = (state.path / "rejects.jsonl").read_text().splitlines()
    assert json.loads(line) == {"line": 1, "reason": "why", "text": "x"}
    assert [line["step"] for line in state.run.metrics()] == [10]
    (state.path / "rejects.jsonl").write_bytes(b"")
    state.rejects.length = 0
    state.newest(read)
    assert "has lost" in state.notes[0]


def test_a_second_writer_is_refused_and_named_the_first(state):
    with pytest.raises(
        InputError, match=f"is being written by process {os.getpid()} on .*; stop that one first"
    ):
        StateDirectory(state.path, {})
    code = (
        "import sys; from pathlib import Path; from skillstream.streaming.state import Lock\n"
        "try: Lock(Path(sys.argv[1]))\nexcept Exception as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(state.path / "lock")], capture_output=True, text=True, check=True
    )
    assert f"process {os.getpid()}" in said.stdout


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from skillstream.streaming.state import Lock\n"
        "Lock(Path(sys.argv[1])); print(os.getpid(), flush=True); os.kill(os.getpid(), 9)"
    )
    (tmp_path / "state").mkdir()
    dead = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state" / "lock")], capture_output=True, text=True
    )
    state = StateDirectory(tmp_path / "state", {})
    assert f"taken over from process {dead.stdout.strip()} on" in state.notes[0]
    state.release()
    again = StateDirectory(tmp_path / "state", {})
    assert again.notes == []
    again.release()


def test_odd_locks_do_no_harm(tmp_path):
    for number, text in enumerate((b"\xff\x00", b"[]", b'{"pid": "x"}', 2000 * b"[")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "lock").write_bytes(text)
        state = StateDirectory(folder, {})
        assert "taken over from another process" in state.notes[0]
        state.release()


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="holds other files"):
        StateDirectory(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_killed_writers_left_is_taken_away(tmp_path):
    StateDirectory(tmp_path, {}).release()
    left = [tmp_path / ".status.json.0123456789abcdef", tmp_path / "checkpoints" / ".x.0123456789abcdef"]
    kept = tmp_path / ".hidden"
    for path in (*left, kept):
        path.touch()
    state = StateDirectory(tmp_path, {})
    assert not any(path.exists() for path in left)
    assert kept.exists()
    assert state.run.record["state"] == "running"
    state.release()


def test_a_journal_forgets_a_torn_write(tmp_path):
    journal = Journal(tmp_path / "lines")
    journal.add(b"one\n")
    with (tmp_path / "lines").open("ab") as file:
        file.write(b"tw")  # what a full disk let through
    journal.add(b"two\n")
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
    assert Journal(tmp_path / "lines").length == journal.length == 8
    journal.cut(4)
    journal.sync()
    assert (tmp_path / "lines").read_bytes() == b"one\n"


def test_the_run_is_told_in_the_directory(state):
    assert state.run.record["command"] == "stream"
    assert state.run.record["versions"]["skillstream"] == ss.__version__
