"""Where samples come from: blocks cut anywhere, rotation, truncation, pipes, live worlds, data at rest."""

import os

import numpy as np
import pytest
import streams

import skillstream as ss
from skillstream.errors import InputError
from skillstream.streaming.columns import AtRest, World, sift
from skillstream.streaming.following import GrowingFile
from skillstream.streaming.lines import Batch
from skillstream.streaming.sources import LineSource, Pipe, line_source
from skillstream.streaming.spaces import Space

STEPS = streams.steps(60)
SEEN = [int(line.split(b'"observation": ')[1][:1]) for line in STEPS]


@pytest.fixture(autouse=True)
def files_are_closed():
    with streams.files_closed():
        yield


def reading(source, **settings):
    lines = LineSource(source, **settings)
    lines.space = streams.SPACE
    return lines


def following(path, **settings):
    return reading(GrowingFile(path, grace=0.0, **settings))


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_blocks_may_be_cut_anywhere(size):
    whole = streams.text([*STEPS[:20], b"", b"garbage", *STEPS[20:]])[:-1]  # the last line has no end
    blocks = [whole[i : i + size] for i in range(0, len(whole), size)]
    source = reading(streams.Told(*blocks))
    seen, rejects = streams.taken(source, limit=9)
    assert seen == SEEN
    assert [(reject.line, reject.text) for reject in rejects] == [(22, "garbage")]
    assert source.take(9) is None
    assert source.position() == {"line": 62, "within": 0, "episode": 1, "offset": len(whole)}


@pytest.mark.parametrize("size", [50, 100_000])
def test_a_line_that_is_too_long_is_not_kept(size):
    whole = streams.text([*STEPS[:2], b'"' + 5000 * b"x", *STEPS[2:4], 3000 * b"y"])
    blocks = [whole[i : i + size] for i in range(0, len(whole), size)]
    source = reading(streams.Told(*blocks), longest=200)
    seen, most = [], 0
    while (batch := source.take(1)) is not None:
        seen += batch.observations.tolist()
        most = max(most, len(source._partial) + sum(map(len, source._lines)))
    assert seen == SEEN[:4]
    assert most <= 201 + size
    assert source.position()["offset"] == len(whole)


def test_limits_cut_within_an_episode_and_a_restart_goes_on_there():
    episode = b'{"observations": [0, 1, 2, 3, 4], "actions": [0, 0, 0, 0, 0]}'
    blocks = [streams.text([STEPS[0], episode, b"garbage", episode, STEPS[1]])]
    want = [SEEN[0], 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, SEEN[1]]
    for limit in (1, 2, 3, 100):
        seen, starts, rejects, position = [], [], [], None
        while True:
            source = reading(streams.Told(*blocks))
            if position is not None:
                source.go_to(position, np.zeros(0, np.uint8))
            batch = source.take(limit)
            if batch is None:
                break
            assert len(batch) <= limit
            seen += batch.observations.tolist()
            starts += batch.starts.tolist()
            rejects += batch.rejects
            position = source.position()
        assert seen == want
        assert np.flatnonzero(starts).tolist() == [0, 1, 6, 11]
        assert [reject.line for reject in rejects] == [3]


def test_strict_stops_before_the_bad_line():
    source = reading(streams.Told(streams.text([*STEPS[:3], b"{", *STEPS[3:]])), strict=True)
    assert len(source.take(100)) == 3
    with pytest.raises(InputError, match="line 4: malformed"):
        source.take(100)
    assert source.position()["line"] == 3


def test_the_first_lines_wait_until_there_are_enough(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text([b"garbage", *STEPS[:10]]))
    source = LineSource(GrowingFile(path), enough=20)
    assert source.first() is None
    assert [reject.text for reject in source.take(5).rejects] == ["garbage"]
    with path.open("ab") as file:
        file.write(streams.text(STEPS[10:]))
    demos = source.first()
    assert demos.observations.tolist() == SEEN[:20]
    source.space = streams.SPACE
    assert streams.taken(source)[0] == SEEN
    assert source.position()["line"] == 61


def test_first_lines_that_tell_nothing_are_refused():
    for line, match in (
        (b'{"observation": 1}', "no action"),
        (b'{"observation": 10000, "action": 0}', "--states"),
    ):
        with pytest.raises(InputError, match=match):
            LineSource(streams.Told(streams.text([line]))).first()
    known = LineSource(streams.Told(streams.text([line])), states=20_000)
    assert known.first().observations.tolist() == [10_000]


def test_a_file_is_followed_as_it_grows_a_part_of_a_line_at_a_time(tmp_path):
    path, whole = tmp_path / "log", streams.text(STEPS)
    path.touch()
    source, seen = following(path), []
    for first in range(0, len(whole), 333):
        with path.open("ab") as file:
            file.write(whole[first : first + 333])
        batch = source.take(1000)
        assert batch is not None
        seen += batch.observations.tolist()
    assert seen == SEEN
    assert len(source.take(10)) == 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_renamed_file_is_read_to_its_end_and_then_the_new_one(tmp_path, restart):
    path, seen = tmp_path / "log", []
    path.write_bytes(streams.text(STEPS[:20]))
    source = following(path)
    seen += streams.taken(source)[0]
    with path.open("ab") as late:
        path.rename(tmp_path / "log.1")
        late.write(streams.text(STEPS[20:30]) + STEPS[30])  # its last line has no end
    path.write_bytes(streams.text(STEPS[31:]))
    if restart:
        position = source.position()
        source = following(path)
        source.go_to(position, np.zeros(0, np.uint8))
    while len(batch := source.take(7)):
        seen += batch.observations.tolist()
    assert seen == SEEN
    assert source.notes == []


def test_two_rotations_while_nobody_looked(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(STEPS[:20]))
    source = following(path)
    first = source.take(10).observations.tolist()
    position = source.position()
    path.rename(tmp_path / "log.2")
    (tmp_path / "log.1").write_bytes(streams.text(STEPS[20:40]))
    path.write_bytes(streams.text(STEPS[40:]))
    (tmp_path / "log.tmp").write_bytes(b"not of this log\n")
    for number, name in enumerate(("log.2", "log.1", "log")):
        os.utime(tmp_path / name, (number, number))
    source = following(path)
    source.go_to(position, np.zeros(0, np.uint8))
    seen, rejects = streams.taken(source)
    assert first + seen == SEEN
    assert rejects == []


def test_a_file_cut_to_nothing_is_read_from_its_start(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(STEPS[:20]))
    source = following(path)
    seen = streams.taken(source)[0]
    path.write_bytes(streams.text(STEPS[20:30]))
    seen += streams.taken(source)[0]
    path.write_bytes(streams.text(STEPS[30:]))  # longer than what was read: only its first bytes tell
    seen += streams.taken(source)[0]
    assert seen == SEEN


def test_a_file_that_is_gone_is_said(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(STEPS[:20]))
    source = following(path)
    streams.taken(source)
    position = source.position()
    path.unlink()
    path.write_bytes(streams.text(STEPS[40:]))
    source = following(path)
    source.go_to(position, np.zeros(0, np.uint8))
    assert "not there any more" in source.notes[0]
    assert streams.taken(source)[0] == SEEN[40:]


def test_at_the_end_and_to_the_end(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(streams.text(STEPS[:20]) + STEPS[20])
    source = following(path, at_end=True)
    with path.open("ab") as file:
        file.write(b"\n" + streams.text(STEPS[21:]))
    assert streams.taken(source)[0] == SEEN[20:]
    once = line_source(str(path), follow=False)
    once.space = streams.SPACE
    assert streams.taken(once)[0] == SEEN
    assert once.take(1) is None
    with pytest.raises(FileNotFoundError, match="there is no file"):
        line_source(str(tmp_path / "nowhere"))


def test_a_pipe_hands_over_what_it_had_read():
    for replayed in (False, True):
        out, into = os.pipe()
        os.write(into, streams.text(STEPS[:20]) + STEPS[20][:9])
        source = reading(Pipe(out))
        seen = source.take(5).observations.tolist()
        position, unread = source.position(), source.unread()
        assert len(source.take(100)) == 15  # taken, but never saved: lost with the process
        later = reading(Pipe(out), replayed=replayed)
        later.go_to(position, unread)
        os.write(into, streams.text(STEPS) if replayed else STEPS[20][9:] + b"\n" + streams.text(STEPS[21:]))
        os.close(into)
        seen += streams.taken(later)[0]
        assert seen == SEEN
        assert later.take(1) is None
        os.close(out)


def test_a_named_pipe_waits_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    source = line_source(str(tmp_path / "fifo"))
    source.space = streams.SPACE
    assert len(source.take(5)) == 0
    with (tmp_path / "fifo").open("wb") as writer:
        writer.write(streams.text(STEPS))
    assert streams.taken(source)[0] == SEEN
    assert source.take(5) is None


@pytest.mark.parametrize("name", ["hidden-goal?seed=3", "cart-pole?max_episode_steps=30"])
def test_a_live_world_plays_on_from_within_an_episode(name):
    whole, cut = World(name), World(name)
    assert whole.first().num_steps > 10
    want = [whole.take(17) for _ in range(20)]
    found = []
    for number in range(20):
        again = World(name)
        again.go_to(cut.position(), cut.unread())
        cut = again
        found.append(cut.take(17))
        assert cut.position() == {**cut.position(), "taken": sum(map(len, found))}, number
    for one, other in zip(want, found, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.starts, other.starts)
    assert 2 <= sum(int(batch.starts.sum()) for batch in want) < 20


def test_worlds_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="seed: must be a whole number"):
        World("hidden-goal?seed=x")
    with pytest.raises(InputError, match="did you mean"):
        World("hidden-gaol")
    with pytest.raises(InputError, match="no expert"):
        World("hidden-goal?expert=nobody")


def test_a_data_set_at_rest_goes_on_from_any_step(tmp_path):
    rng = np.random.default_rng(0)
    demos = ss.Demonstrations(rng.integers(0, 5, 60), rng.integers(0, 3, 60), episode_lengths=[25, 1, 34])
    demos.save(tmp_path / "demos.npz")
    seen, position = [], {"taken": 0}
    while True:
        source = AtRest(str(tmp_path / "demos.npz"))
        source.go_to(position, source.unread())
        batch = source.take(7)
        if batch is None:
            break
        seen += batch.observations.tolist()
        position = source.position()
    assert seen == demos.observations.tolist()
    with pytest.raises(InputError, match="fewer steps"):
        source.go_to({"taken": 61}, source.unread())


def test_steps_of_a_data_set_that_are_in_no_table(tmp_path):
    ss.Demonstrations([0, 1, 9, 2], [0, 0, 1, 7], episode_lengths=[2, 2]).save(tmp_path / "demos.npz")
    source = AtRest(str(tmp_path / "demos.npz"))
    source.space = Space(None, 5, "one", (3,))
    assert len(source.take(10)) == 2
    with pytest.raises(InputError, match=r"episode 1 of .*: observations: step 0 holds 9"):
        source.take(10)
    assert source.position() == {"taken": 2}


def test_columns_are_sifted():
    batch = Batch(
        np.array([0, 9, 2, 3]), np.array([0, 1, 7, 7]), np.array([True, True, True, False]), np.zeros(4, bool)
    )
    sifted = sift(batch, Space(None, 5, "one", (3,)), 100)
    assert [(reject.line, reject.text) for reject in sifted.rejects] == [(102, "9, 1"), (103, "2, 7")]
    assert sifted.observations.tolist() == [0, 3]
    numbers = Batch(np.array([[0.0, np.nan], [1, 1], [np.inf, 1]]), np.zeros((3, 1)), *np.ones((2, 3), bool))
    assert len(sift(numbers, Space(2, 0, "numbers", (0,)), 0)) == 1
