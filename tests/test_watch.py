"""What the watch page is told: read from files that another process writes, damages, cuts and replaces."""

import json
import os
import socket
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched import append, metrics, status, write_state, write_status

from skillstream.streaming import watch_state
from skillstream.streaming.watch_files import LARGEST_LINE, Lines
from skillstream.streaming.watch_health import judge
from skillstream.streaming.watch_history import History, Point
from skillstream.streaming.watch_state import POINTS, Watched
from skillstream.streaming.watch_values import count, number, shares, words

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def gone():
    """The number of a process that has ended."""
    process = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(process, 0)
    return process


def told(directory):
    watched = Watched(directory)
    while watched.refresh():
        pass
    return watched.view()


# ---- files


def test_each_line_is_read_once_and_a_torn_one_when_it_is_whole(tmp_path):
    file, lines = tmp_path / "lines", Lines(tmp_path / "lines")
    assert lines.read() == []
    file.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert lines.read() == [{"a": 1}, {"a": 2}]
    assert lines.read() == []
    with file.open("ab") as more:
        more.write(b': 3}\n{"a": 4}\n')
    assert lines.read() == [{"a": 3}, {"a": 4}]
    assert (lines.damaged, lines.anew, lines.share_read) == (0, 0, 1.0)


def test_damaged_lines_are_counted_and_left_out(tmp_path):
    damaged = [
        b"not json",
        b'{"a": 1',
        b"[1, 2]",
        b"\xff\xfe\x00",
        b'{"a": ' + b"9" * 5000 + b"}",  # more digits than Python reads
        b"[" * 100_000,
        b'{"a": "' + b"x" * LARGEST_LINE + b'"}',
    ]
    (tmp_path / "lines").write_bytes(b"\n".join([b'{"a": 1}', *damaged, b"", b'{"a": 2}', b""]))
    lines = Lines(tmp_path / "lines")
    assert lines.read() == [{"a": 1}, {"a": 2}]
    assert lines.damaged == len(damaged)


def test_a_line_longer_than_what_is_read_at_once_is_left_out(tmp_path):
    (tmp_path / "lines").write_bytes(b"x" * (3 * LARGEST_LINE) + b'\n{"a": 1}\n')
    lines, found = Lines(tmp_path / "lines"), []
    for _ in range(4):
        found += lines.read(LARGEST_LINE)
    assert found == [{"a": 1}]
    assert lines.damaged == 1


def test_a_large_file_is_read_in_pieces(tmp_path):
    (tmp_path / "lines").write_text("".join(f'{{"a": 1{i:040}}}\n' for i in range(60_000)))
    lines, found, shares_read = Lines(tmp_path / "lines"), [], []
    while not shares_read or lines.behind:
        found += lines.read(LARGEST_LINE)
        shares_read.append(lines.share_read)
    found += lines.read()
    assert len(found) == 60_000
    assert len(shares_read) >= 2
    assert sorted(set(shares_read)) == shares_read


@pytest.mark.parametrize("how", ["cut", "replaced", "replaced by a longer one"])
def test_a_file_that_is_cut_or_replaced_is_read_anew(tmp_path, how):
    file, lines = tmp_path / "lines", Lines(tmp_path / "lines")
    file.write_text('{"a": 1}\n{"a": 2}\nnothing\n')
    assert len(lines.read()) == 2
    fresh = '{"a": 3}\n' * (9 if how == "replaced by a longer one" else 1)
    if how != "cut":
        file.rename(tmp_path / "lines.1")
    file.write_text(fresh)
    assert lines.read() == [{"a": 3}] * fresh.count("\n")
    assert (lines.anew, lines.damaged) == (1, 0)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_waited_for(tmp_path, make):
    for name in ("status.json", "metrics.jsonl", "rejects.jsonl", "lock"):
        make(tmp_path / name)
    began = time.monotonic()
    view = told(tmp_path)
    assert time.monotonic() - began < 5
    assert view["status"] is None
    assert view["health"]["word"] == "unreadable"


# ---- values


@given(ANY_JSON)
def test_values_are_of_their_type_or_none(value):
    assert words(value).isprintable()
    assert len(words(value, 10)) <= 10 * len("\\U0001f600") + 1
    for found in (number(value), count(value), number(value, 0)):
        assert found is None or -1e30 <= found <= 1e30
    row = shares(value)
    assert row is None or all(0 <= share <= 1 for share in row)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[2Jb\n", "a\\x1b[2Jb\\n"),
        ("\ud800", "\\ud800"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("<script>", "<script>"),  # the page puts it in as text
        (["x"], '["x"]'),
    ],
)
def test_what_cannot_be_seen_is_shown_as_its_code(hostile, shown):
    assert words(hostile) == shown


# ---- history


def points(lines):
    return [point for line in lines if (point := Point.of(line)) is not None]


@pytest.mark.parametrize("lines", [10, 40, 41, 1000, 1337])
def test_a_history_of_any_length_keeps_its_means_and_extremes(lines):
    fed = points(metrics(3, lines))
    history = History(40, whole=True)
    for point in fed:
        history.add(point)
    kept = history.since("", 0)["points"]
    assert len(kept) == lines if lines <= 40 else 20 <= len(kept) <= 40
    assert sum(point.lines for point in kept) == lines
    assert [point.step for point in kept] == sorted(point.step for point in kept)
    assert kept[-1].step == fed[-1].step
    mean = sum(point.lines * point.recent for point in kept) / lines
    assert mean == pytest.approx(sum(point.recent for point in fed) / lines)
    assert min(point.lowest for point in kept) == min(point.recent for point in fed)
    assert max(point.highest for point in kept) == max(point.recent for point in fed)
    assert all(sum(point.usage) == pytest.approx(1, abs=1e-3) for point in kept)


def test_the_latest_are_kept_as_they_are():
    history = History(40, whole=False)
    fed = points(metrics(2, 500))
    for point in fed:
        history.add(point)
    kept = history.since("", 0)["points"]
    assert 20 <= len(kept) <= 40
    assert kept == fed[-len(kept) :]


def test_a_stream_that_goes_back_takes_its_points_with_it():
    history = History(40, whole=True)
    for step in [*range(10, 110, 10), 55, 60]:
        history.add(Point.of({"step": step}))
    assert [point.step for point in history.since("", 0)["points"]] == [10, 20, 30, 40, 50, 55, 60]


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=150), st.booleans())
def test_a_page_that_gets_what_is_new_has_what_one_has_that_gets_all(feed, whole):
    history, epoch, mine = History(16, whole), "", []
    for step, asks in feed:
        history.add(Point.of({"step": step, "rate": step}))
        if asks:
            found = history.since(epoch, len(mine))
            mine = (mine[: found["first"]] if found["epoch"] == epoch else []) + found["points"]
            epoch = found["epoch"]
            assert mine == history.since("", 0)["points"]
            assert len(mine) <= 16


def test_lines_with_gaps_and_another_number_of_options_go_together():
    one = Point.of({"step": 1, "rate": None, "usage": [0.5, 0.5], "memory": 5})
    other = Point.of({"step": 2, "rate": 4.0, "usage": [0.2, 0.3, 0.5], "memory": float("nan")})
    both = one.then(other)
    assert (both.step, both.lines, both.rate, both.memory, both.usage) == (2, 2, 4.0, 5, [0.2, 0.3, 0.5])
    assert Point.of({"rate": 1}) is None


# ---- health


@pytest.mark.parametrize(
    ("state", "age", "process", "host", "word"),
    [
        ("running", 0, "here", None, "running"),
        ("running", 1, "gone", None, "running"),  # its last word may be on the way
        ("running", 9, "gone", None, "dead"),
        ("waiting", 9, "gone", None, "dead"),
        ("running", 60, "here", None, "silent"),
        ("waiting", 60, "here", None, "waiting"),
        ("running", 9, "gone", "elsewhere", "running"),
        ("running", 60, "gone", "elsewhere", "silent"),
        ("waiting", 60, "gone", "elsewhere", "silent"),
        ("finished", 1e6, "gone", None, "finished"),
        ("interrupted", 1e6, "gone", None, "interrupted"),
        ("stopped", 1e6, "gone", None, "stopped"),
        ("failed", 1e6, "gone", None, "failed"),
        ("<b>", 0, "here", None, "unclear"),
        (["running"], 0, "here", None, "unclear"),
    ],
)
def test_how_a_stream_is(gone, state, age, process, host, word):
    last = {"state": state, "updated": 1e9 - age, "pid": gone if process == "gone" else os.getpid()}
    assert judge(last, {"host": host or socket.gethostname()}, 1e9).word == word
    if host is None:
        assert judge(last, None, 1e9).word == word


def test_a_writer_that_adds_to_its_metrics_is_not_silent():
    last = {"state": "running", "updated": 1e9 - 500, "pid": os.getpid()}
    assert judge(last, None, 1e9, written=1e9 - 500).word == "silent"
    assert judge(last, None, 1e9, written=1e9 - 5).word == "running"


def test_why_a_stream_failed(tmp_path):
    write_state(tmp_path, state="failed")
    (tmp_path / "run.json").write_text(json.dumps({"results": {"error": "line 7: no\x1b action"}}))
    health = told(tmp_path)["health"]
    assert (health["kind"], health["said"]) == ("bad", "An error ended it. It says: line 7: no\\x1b action")


# ---- all together


def test_what_is_in_a_state_directory(tmp_path):
    view = told(write_state(tmp_path, options=3))
    assert view["status"]["samples"] == 120_000
    assert view["status"]["recent"]["first"] == 119_600
    assert len(view["status"]["recent"]["options"]) == 400
    assert sum(view["status"]["recent"]["starts"]) == 3
    assert view["health"]["word"] == "running"
    assert abs(view["checkpointed"] - time.time()) < 60
    assert len(view["whole"]["points"]) == 400
    assert view["events"] == [
        {"event": "drift", "step": 60_000, "details": "usual -0.4537, block -1.348, reaction forget"}
    ]
    assert view["rejects"]["reasons"][0] == ("action: … is outside … to …", 2)
    assert view["rejects"]["latest"][-1]["line"] == 91_266
    assert view["reading"] is None


def test_an_event_with_no_numbers_is_no_point(tmp_path):
    append(tmp_path, [{"step": 5, "rate": 1.0}, {"step": 7, "event": "restart", "why": "\x1b"}])
    view = told(tmp_path)
    assert [point.step for point in view["whole"]["points"]] == [5]
    assert view["events"] == [{"event": "restart", "step": 7, "details": "why \\x1b"}]


def test_a_directory_that_is_empty_filled_and_removed(tmp_path):
    directory = tmp_path / "state"
    directory.mkdir()
    watched = Watched(directory)
    watched.refresh()
    assert watched.view()["health"]["word"] == "nothing yet"
    write_state(directory)
    watched.refresh()
    assert watched.view()["health"]["word"] == "running"
    directory.rename(tmp_path / "away")
    watched.refresh()
    assert watched.view()["health"]["word"] == "gone"
    assert watched.view()["status"] is None
    write_state(directory, lines=5, samples=700_000)
    watched.refresh()
    assert watched.view()["status"]["samples"] == 700_000


def test_a_damaged_status_leaves_the_last_that_was_whole(tmp_path):
    watched = Watched(write_state(tmp_path))
    watched.refresh()
    (tmp_path / "status.json").write_text('{"state": "runn')
    watched.refresh()
    view = watched.view()
    assert view["health"]["word"] == "unreadable"
    assert view["damaged"]["status.json"] == 1
    assert view["status"]["samples"] == 120_000
    write_status(tmp_path, samples=130_000)
    watched.refresh()
    assert watched.view()["status"]["samples"] == 130_000


def test_a_long_stream_is_told_in_few_points(tmp_path):
    append(tmp_path, ({"step": i, "recent_log_likelihood": -1.0, "usage": [0.5, 0.5]} for i in range(20_000)))
    view = told(tmp_path)
    assert POINTS / 2 <= len(view["whole"]["points"]) <= POINTS
    assert view["whole"]["points"][-1].step == 19_999


def test_reasons_are_of_a_number_that_does_not_grow(tmp_path):
    append(
        tmp_path, ({"line": i, "reason": "x" * (i % 190), "text": ""} for i in range(400)), "rejects.jsonl"
    )
    rejects = told(tmp_path)["rejects"]
    assert len(rejects["reasons"]) <= 51
    assert sum(lines for _, lines in rejects["reasons"]) == 400
    assert [entry["line"] for entry in rejects["latest"]] == list(range(380, 400))


def test_rejects_that_are_cut_are_counted_anew(tmp_path):
    watched = Watched(write_state(tmp_path))
    watched.refresh()
    (tmp_path / "rejects.jsonl").write_text('{"line": 1, "reason": "new", "text": ""}\n')
    watched.refresh()
    assert watched.view()["rejects"]["reasons"] == [("new", 1)]
    assert len(watched.view()["rejects"]["latest"]) == 1


@settings(max_examples=60)
@given(st.data())
def test_nothing_that_the_files_hold_breaks_the_view(tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("hostile")
    last = status(options=2)
    last["recent"] = {"options": [[0.5, 0.5]] * 3, "starts": [True, False, False], "first": 7}
    for name in data.draw(st.sets(st.sampled_from(sorted(last)), max_size=8)):
        last[name] = data.draw(ANY_JSON)
    for name in data.draw(st.sets(st.sampled_from(["options", "starts", "first"]))):
        if isinstance(last["recent"], dict):
            last["recent"][name] = data.draw(ANY_JSON)
    (directory / "status.json").write_text(json.dumps(last))
    (directory / "lock").write_text(json.dumps(data.draw(ANY_JSON)))
    names = st.sampled_from(
        ["step", "event", "rate", "usage", "line", "reason", "text", "recent_log_likelihood"]
    )
    for file in ("metrics.jsonl", "rejects.jsonl"):
        append(directory, data.draw(st.lists(st.dictionaries(names, ANY_JSON), max_size=4)), file)
    view = told(directory)
    assert json.loads(json.dumps(view, allow_nan=False))["directory"].endswith(directory.name)


def test_the_columns_the_page_names_are_those_of_a_point():
    script = (watch_state.Path(watch_state.__file__).parent / "watch_page" / "watch.js").read_text()
    assert f"const COLUMNS = {json.dumps(list(Point._fields))};" in script
