"""Every format through one contract; then what only one of them can get wrong."""

import errno
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import tracemalloc
import types
import warnings
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import h5py
import minari
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import skillstream as ss
from skillstream.demonstrations import formats, pieces
from skillstream.files import write_whole

# A new format is one line here.
EXACT = ["demos.npz", "demos.parquet", "demos.csv", "demos.jsonl"]
WRITTEN = [*EXACT, "minari:pole/expert-v0"]
COLUMNS = ("observations", "actions", "episode_lengths", "rewards", "action_mask", "true_options")

RNG = np.random.default_rng(0)
MASK = np.array([True, True, False, True, True, False])


def data_set(observations, actions, **others) -> ss.Demonstrations:
    return ss.Demonstrations(observations, actions, [1, 3, 2], **others)


KINDS = {
    "tables": data_set([3, 0, 1, 0, 2, 2], [1, 0, 2, 1, 1, 0]),
    "numbers": data_set(RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2)), rewards=RNG.normal(size=6)),
    "one number": data_set(RNG.normal(size=(6, 1)), RNG.normal(size=(6, 1)), true_options=[0, 1] * 3),
    "whole numbers as floats": data_set(np.eye(6)[:, :2], np.eye(6)[:, :1], rewards=np.ones(6)),
    "several choices": data_set(RNG.normal(size=(6, 2)), RNG.integers(0, 3, (6, 2)), action_mask=MASK),
    "float32": data_set(*RNG.normal(size=(2, 6, 2)).astype(np.float32), action_mask=MASK),
    "gaps": data_set([0] * 6, [1] * 6, action_mask=MASK, rewards=np.arange(6), true_options=[0] * 6),
    "gaps in numbers": data_set([0] * 6, RNG.normal(size=(6, 2)), action_mask=MASK),
    "no action at all": data_set([0] * 6, RNG.normal(size=(6, 2)), action_mask=~np.ones(6, bool)),
    "a mask without gaps": data_set([0] * 6, [1] * 6, action_mask=np.ones(6, bool)),
}


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that episodes lie across them."""
    from skillstream.demonstrations import csv_format, jsonl_format, npz_format, parquet_format

    monkeypatch.setattr(npz_format, "_BLOCK", 32)
    monkeypatch.setattr(csv_format, "_ROWS", 2)
    monkeypatch.setattr(jsonl_format, "_LINES", 2)
    monkeypatch.setattr(parquet_format, "_ROWS", 2)


def place(folder: Path, name: str) -> str:
    return name if name.startswith("minari:") else str(folder / name)


def assert_same(found: ss.Demonstrations, wanted: ss.Demonstrations, dtypes: bool = True) -> None:
    for name in COLUMNS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one, other, err_msg=name)
            assert not dtypes or one.dtype == other.dtype, name


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITTEN)
def test_what_was_saved_is_loaded_again(tmp_path, name, kind):
    path = place(tmp_path, name)
    KINDS[kind].save(path)
    assert_same(ss.Demonstrations.load(path), KINDS[kind], dtypes=name in EXACT)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITTEN)
def test_episodes_come_one_by_one(tmp_path, name, kind):
    path = place(tmp_path, name)
    KINDS[kind].save(path)
    found = list(ss.stream_episodes(path))
    assert [episode.episode_lengths.tolist() for episode in found] == [[1], [3], [2]]
    for one, other in zip(found, KINDS[kind], strict=True):
        assert_same(one, other, dtypes=name in EXACT)


@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", EXACT)
def test_any_numbers_come_back(name, data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    steps = sum(lengths)
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    floats = {"allow_nan": False, "allow_infinity": False}

    def numbers(shape, kind):
        if kind is np.int64:
            return data.draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 2**63 - 2)))
        width = np.dtype(kind).itemsize * 8
        return data.draw(hnp.arrays(kind, shape, elements=st.floats(width=width, **floats)))

    demos = ss.Demonstrations(
        data.draw(st.sampled_from([numbers(steps, np.int64), numbers((steps, 2), dtype)])),
        data.draw(
            st.sampled_from(
                [numbers(steps, np.int64), numbers((steps, 2), np.int64), numbers((steps, 1), dtype)]
            )
        ),
        lengths,
        rewards=data.draw(st.sampled_from([None, numbers(steps, np.float64)])),
        action_mask=data.draw(
            st.sampled_from([None, data.draw(hnp.arrays(bool, steps, elements=st.booleans()))])
        ),
        true_options=data.draw(st.sampled_from([None, numbers(steps, np.int64)])),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        demos.save(path)
        assert_same(ss.Demonstrations.load(path), demos)


@pytest.mark.parametrize("name", EXACT)
def test_a_file_that_is_there_is_replaced(tmp_path, name):
    KINDS["tables"].save(tmp_path / name)
    KINDS["numbers"].save(tmp_path / name)
    assert_same(ss.Demonstrations.load(tmp_path / name), KINDS["numbers"])
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_write_that_fails_leaves_what_was_there(tmp_path, minari_root, monkeypatch, name, code):
    path = place(tmp_path, name)
    if name in EXACT:
        KINDS["tables"].save(path)
    before = sorted(tmp_path.iterdir())

    def fail(_):
        raise OSError(code, "as the kernel says it")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=rf"cannot write .*{os.strerror(code)}.*nothing was written") as caught:
        KINDS["numbers"].save(path)
    assert caught.value.errno == code
    if name in EXACT:
        assert sorted(tmp_path.iterdir()) == before
        assert_same(ss.Demonstrations.load(path), KINDS["tables"])
    else:
        assert [path.name for path in minari_root.rglob("*") if path.is_file()] == []


def test_minari_does_not_begin_on_a_full_disk(minari_root, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=1000))
    with pytest.raises(OSError, match=r"cannot write .*nothing was written") as caught:
        KINDS["tables"].save("minari:pole/expert-v0")
    assert caught.value.errno == errno.ENOSPC
    assert list((minari_root / "pole").iterdir()) == []


@pytest.mark.parametrize("name", EXACT)
def test_a_write_that_stops_half_way_leaves_nothing(tmp_path, name):
    demos = ss.Demonstrations(np.zeros((20_000, 4)), np.zeros(20_000, int), rewards=RNG.normal(size=20_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write .*nothing was written"):
            demos.save(place(tmp_path, name))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("module", "block", "size"), [("npz", "_BLOCK", 2**12), ("csv", "_ROWS", 100), ("jsonl", "_LINES", 100)]
)
def test_streaming_takes_the_memory_of_an_episode(tmp_path, monkeypatch, module, block, size):
    monkeypatch.setattr(import_module(f"skillstream.demonstrations.{module}_format"), block, size)
    observations = np.arange(80_000.0).reshape(20_000, 4)
    ss.Demonstrations(observations, np.zeros(20_000, int), [100] * 200).save(tmp_path / f"demos.{module}")
    tracemalloc.start()
    for episode in ss.stream_episodes(tmp_path / f"demos.{module}"):
        assert episode.num_steps == 100
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < observations.nbytes / 2


def test_a_file_written_whole_is_readable_as_others_are(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_whole(tmp_path / "ours", b"abc")
    assert (tmp_path / "ours").read_bytes() == b"abc"
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("name", EXACT)
def test_a_folder_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"no folder .*absent.*create it"):
        KINDS["tables"].save(tmp_path / "absent" / name)
    with pytest.raises(FileNotFoundError, match="path: there is no file"):
        ss.Demonstrations.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="path: there is no file"):
        ss.stream_episodes(tmp_path / name)


@pytest.mark.parametrize("name", EXACT)
def test_an_empty_file_is_refused(tmp_path, name):
    with pytest.raises(ss.FileFormatError, match="the file is empty"):
        ss.Demonstrations.load(write(tmp_path, name, b""))


@pytest.mark.parametrize("named", EXACT)
@pytest.mark.parametrize("written", [*EXACT, "pickle", "noise"])
def test_a_file_of_another_format_is_refused(tmp_path, written, named):
    if written == named:
        return
    content = {"pickle": b"\x80\x05K\x01.", "noise": bytes(range(129, 256))}.get(written)
    if content is None:
        KINDS["numbers"].save(tmp_path / written)
        content = (tmp_path / written).read_bytes()
    with pytest.raises(ss.FileFormatError, match=named) as caught:
        ss.Demonstrations.load(write(tmp_path, named, content))
    if written == "pickle":
        assert "never reads pickles" in str(caught.value)


@pytest.mark.parametrize("name", EXACT)
def test_a_truncated_file_is_refused(tmp_path, name):
    KINDS["numbers"].save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for kept in (0.98, 0.6, 0.3):
        short = content[: int(len(content) * kept)]
        if name.endswith("csv"):  # cut at a line's end, or in its last number, it is a whole file
            short = short[: short.rindex(b",")]
        with pytest.raises(ss.FileFormatError, match=r"truncated|cut off"):
            ss.Demonstrations.load(write(tmp_path, name, short))
        with pytest.raises(ss.FileFormatError, match=r"truncated|cut off"):
            list(ss.stream_episodes(tmp_path / name))


@pytest.mark.parametrize("name", EXACT)
def test_a_damaged_file_never_fails_in_another_way(tmp_path, name):
    KINDS["gaps in numbers"].save(tmp_path / name)
    content = bytearray((tmp_path / name).read_bytes())
    for at in np.random.default_rng(1).integers(0, len(content), 60):
        damaged = content.copy()
        damaged[at] ^= 0xFF
        with suppress(ss.SkillstreamError):  # a changed digit is not damage
            ss.Demonstrations.load(write(tmp_path, name, bytes(damaged)))


@pytest.mark.parametrize("name", EXACT)
def test_data_larger_than_memory_are_refused_with_advice(tmp_path, monkeypatch, name):
    KINDS["numbers"].save(tmp_path / name)
    monkeypatch.setattr(pieces, "physical_memory", lambda: 500)
    with pytest.raises(ss.InputError, match="does not fit into memory; read it with stream_episodes"):
        ss.Demonstrations.load(tmp_path / name)
    assert len(list(ss.stream_episodes(tmp_path / name))) == 3


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("demos.parquet", "pyarrow", "parquet"),
        ("minari:pole/expert-v0", "minari", "minari"),
        ("minari:pole/expert-v0", "h5py", "minari"),
    ],
)
def test_a_missing_library_names_its_extra(tmp_path, monkeypatch, name, library, extra):
    path = place(tmp_path, name)
    if extra == "parquet":
        KINDS["tables"].save(path)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ss.MissingExtraError, match=rf"needs {library}: pip install skillstream\[{extra}\]"):
        ss.Demonstrations.load(path)
    with pytest.raises(ImportError, match=extra):
        KINDS["tables"].save(path)


@pytest.mark.parametrize("name", ["demos.txt", "demos.pkl", "demos", "demos.csv.gz"])
def test_an_unknown_suffix_lists_the_known(tmp_path, name):
    with pytest.raises(ss.InputError, match=r"known are \.npz, \.parquet, \.csv, \.jsonl, minari:NAME$"):
        KINDS["tables"].save(tmp_path / name)
    with pytest.raises(ss.InputError, match=r"known are .*minari:NAME, a folder"):
        ss.Demonstrations.load(write(tmp_path, name, b"abc"))


def test_a_suffix_may_be_in_capitals(tmp_path):
    KINDS["tables"].save(tmp_path / "DEMOS.CSV")
    assert_same(ss.Demonstrations.load(tmp_path / "DEMOS.CSV"), KINDS["tables"])


def test_every_registered_format_is_in_the_contract():
    known = {"minari:NAME" if name.startswith("minari:") else Path(name).suffix for name in WRITTEN}
    assert known | {"a folder"} == set(formats._FORMATS)


# NumPy's archives


def npz(folder: Path, **columns) -> Path:
    np.savez(folder / "demos.npz", **columns)
    return folder / "demos.npz"


def header(shape: tuple, dtype: str) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_an_object_array_is_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    traps = np.empty(2, object)
    traps[:] = [Trap(), Trap()]
    path = npz(tmp_path, observations=[0, 1], actions=traps)
    with pytest.raises(ss.FileFormatError, match="actions: an object array, which only pickle could read"):
        ss.Demonstrations.load(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(10**12,), (10**12, 10**12), (3, 2**62), (-1,)])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_size_that_the_file_is_too_small_for_is_refused(tmp_path, shape, compression):
    path = tmp_path / "demos.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("observations.npy", header(shape, "<f8") + bytes(64))
        archive.writestr("actions.npy", header((8,), "<i8") + bytes(64))
    for read in (ss.Demonstrations.load, lambda path: list(ss.stream_episodes(path))):
        with pytest.raises(ss.FileFormatError, match=r"observations: claims|not an array as NumPy"):
            read(path)


def test_npz_takes_what_a_user_saves_by_hand(tmp_path):
    path = tmp_path / "demos.npz"
    observations = np.asfortranarray(RNG.normal(size=(5, 2)).astype(">f4"))
    np.savez_compressed(path, observations=observations, actions=np.array([0, 1, 2, 0, 1], np.uint8))
    found = ss.Demonstrations.load(path)
    assert found.observations.dtype == np.float32
    np.testing.assert_array_equal(found.observations, observations)
    assert (found.actions.tolist(), found.num_episodes) == ([0, 1, 2, 0, 1], 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"observations": [0, 1]}, "actions is missing; save them with"),
        ({"observations": [0], "actions": [0], "acts": [0]}, "'acts' is not known; save them with"),
        ({"observations": [0, 1], "actions": [0]}, "actions: must have one row a step; observations has 2"),
        ({"observations": [0, 1], "actions": [0, 1], "episode_lengths": [3]}, "add up to the 2 steps"),
        ({"observations": [0, 1], "actions": [0, 1], "episode_lengths": [2, 0]}, "must be positive"),
        ({"observations": 3, "actions": [0, 1]}, "observations: a single number"),
        ({"observations": ["a"], "actions": [0]}, "must be integers or floats"),
        ({"observations": [[0.0], [np.nan]], "actions": [0, 0]}, "step 1: observation_0 holds nan"),
        ({"observations": [0, 1], "actions": [0, -2]}, "step 1: action holds -2, which is negative"),
        ({"observations": [0], "actions": [0], "action_mask": [9]}, "action_mask: must be booleans"),
        ({"observations": [], "actions": []}, "there is no step"),
    ],
)
def test_bad_npz_content_is_named(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        ss.Demonstrations.load(npz(tmp_path, **columns))
    assert isinstance(caught.value, ss.SkillstreamError)
    assert "demos.npz" in str(caught.value)


# CSV


def test_a_csv_written_by_hand_is_read(tmp_path):
    text = (
        "\ufeffepisode, step, observation, action, reward\r\n7,0,3,1,1\r\n7,1,4,,0.5\r\n\r\n2,0, 5 ,2,0\r\n"
    )
    found = ss.Demonstrations.load(write(tmp_path, "demos.csv", text))
    assert found.observations.tolist() == [3, 4, 5]
    assert found.actions.tolist() == [1, 0, 2]
    assert found.action_mask.tolist() == [True, False, True]
    assert found.rewards.tolist() == [1, 0.5, 0]
    assert found.episode_lengths.tolist() == [2, 1]


def test_whole_numbers_are_observations_too_and_columns_come_in_any_order(tmp_path):
    text = "action_1,observation_1,action_0,observation_0\n1,2,0,1\n0,4.5,1,3\n"
    found = ss.Demonstrations.load(write(tmp_path, "demos.csv", text))
    assert found.observations.tolist() == [[1, 2], [3, 4.5]]
    assert found.actions.tolist() == [[0, 1], [1, 0]]
    assert (found.actions.dtype, found.num_episodes) == (np.int64, 1)


def test_one_column_of_numbers_with_points_is_one_number_a_step(tmp_path):
    found = ss.Demonstrations.load(write(tmp_path, "demos.csv", "observation,action\n0.5,1\n1,1.5\n"))
    assert found.observations.tolist() == [[0.5], [1.0]]
    assert found.actions.tolist() == [[1.0], [1.5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("observation,action\n1,2\n1,x\n", "line 3, column 'action': expected a whole number, found 'x'"),
        ("observation_0,action\n1.5,2\n,1\n", "line 3, column 'observation_0': expected a number, found ''"),
        ("observation_0,action\n1.5,2\nnan,1\n", "line 3: observation_0 holds nan, which is not finite"),
        ("observation,action\n\n1,2\n-1,1\n", "line 4: observation holds -1, which is negative"),
        (
            "observation,action\n1,2\n1\n",
            "line 3: found 1 cells, the header names 2; the line may be cut off",
        ),
        ("observation,action,reward\n1,2,\n", "line 2, column 'reward': .* only actions may be empty"),
        ("observation,action_0,action_1\n1,2,\n", "line 2, column 'action_1': .* all of an action's columns"),
        ("observation,action,true_option\n1,2,0.5\n", "column 'true_option': expected a whole number"),
        ("observation,action,action_mask\n1,2,maybe\n", "column 'action_mask': expected true or false"),
        ("observation,actoin\n1,2\n", "line 1: the column 'actoin' is not known; did you mean 'action'"),
        ("observation,action,done\n1,2,0\n", "the column 'done' is not known; known are episode, "),
        ("observation,reward\n1,2\n", "there is no column 'action' .*the first row must name the columns"),
        ("1,2\n3,4\n", "the column '1' is not known"),
        ("observation,action,action\n1,2,3\n", "the column 'action' is there twice"),
        ("observation,action,action_0\n1,2,3\n", "there are both 'action' and 'action_0'"),
        ("observation_0,observation_2,action\n1,2,3\n", "the column 'observation_1' is missing"),
        ("observation;action\n1;2\n", "separated by commas"),
        ("observation:int8,action\n1,2\n", "the type must be one of int64, float32, float64"),
        ("observation_0:float32,action\n1e300,2\n", "line 2: observation_0 holds inf"),
        ("episode,observation,action\n0,1,2\n1,1,2\n0,1,2\n", "line 4: episode 0 comes back"),
        (
            "episode,observation,action\nfirst,1,2\n",
            "column 'episode': expected a whole number, found 'first'",
        ),
        ("observation,action\n99999999999999999999,2\n", "found '99999999999999999999'|observation holds"),
        ("observation,action\n", "there is no step in it"),
    ],
)
def test_a_bad_csv_is_told_by_line_and_column(tmp_path, text, message):
    path = write(tmp_path, "demos.csv", text)
    for read in (ss.Demonstrations.load, lambda path: list(ss.stream_episodes(path))):
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert isinstance(caught.value, ss.SkillstreamError)
        assert "demos.csv" in str(caught.value)


@pytest.mark.usefixtures("small_blocks")
def test_the_first_rows_decide_what_the_numbers_are(tmp_path):
    text = "observation,action{}\n0,0\n0,1\n0,1\n0,0.5\n"
    with pytest.raises(ss.FileFormatError, match=r"line 5, column 'action'.*name the column action:float64"):
        ss.Demonstrations.load(write(tmp_path, "demos.csv", text.format("")))
    found = ss.Demonstrations.load(write(tmp_path, "demos.csv", text.format(":float64")))
    assert found.actions.tolist() == [[0], [1], [1], [0.5]]


# JSON lines


def test_json_lines_may_be_steps(tmp_path):
    lines = [
        {"episode": 0, "observation": [0, 1], "action": 1, "reward": 0.5, "true_option": 1},
        {"episode": 0, "observation": [0.5, 2], "action": None, "reward": 1, "true_option": 0},
        {"episode": 1, "observation": [1, 1], "reward": 0, "true_option": 0},
    ]
    text = "\n\n".join(json.dumps(line) for line in lines)
    wanted = ss.Demonstrations(
        [[0, 1], [0.5, 2], [1, 1]],
        [1, 0, 0],
        [2, 1],
        rewards=[0.5, 1, 0],
        action_mask=[True, False, False],
        true_options=[1, 0, 0],
    )
    assert_same(ss.Demonstrations.load(write(tmp_path, "demos.jsonl", text)), wanted)


def test_json_lines_may_be_episodes_of_ones_own(tmp_path):
    text = '{"observations": [0, 1], "actions": [1.5, null]}\n{"observations": [2], "actions": [1]}'
    found = ss.Demonstrations.load(write(tmp_path, "demos.jsonl", text))
    assert found.observations.tolist() == [0, 1, 2]
    assert found.actions.tolist() == [[1.5], [0], [1]]
    assert found.action_mask.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"observation": 1, "action": 0}\n{"observation": 1, "action"', "line 2: not JSON .*cut off"),
        ("[1, 2]", "line 1: not JSON|line 1: must be an object"),
        ("[" * 100_000, "line 1: not JSON"),
        ('{"observation": 1, "acton": 0}', "line 1: 'acton' is not known; did you mean 'action'"),
        ('{"action": 0}', "line 1: must hold 'observations' and 'actions'"),
        ('{"observation": 1, "action": 0}\n{"observations": [1], "actions": [1]}', "line 2: some lines are"),
        (
            '{"observation": [1, 2], "action": 0}\n{"observation": [1], "action": 0}',
            r"line 2: observation: .*\[1\]",
        ),
        (
            '{"observation": 1, "action": 0}\n{"observation": "a", "action": 0}',
            "line 2: observation: .* found 'a'",
        ),
        (
            '{"observation": 1, "action": 0}\n{"action": 0, "observation": null}',
            "line 2: 'observation' is missing",
        ),
        ('{"observation": 1, "action": 0, "reward": 1}\n{"observation": 1}', "line 2: 'reward' is missing"),
        ('{"observation": [NaN], "action": 0}', "line 1: observation_0 holds nan"),
        ('{"observation": 1, "action": -1}', "line 1: action holds -1"),
        ('{"observation": 1, "action": 99999999999999999999}', "line 1: action: must be numbers"),
        ('{"episode": 0.5, "observation": 1, "action": 1}', "line 1: episode: must be whole numbers"),
        ('{"observation": 1, "action": 1, "action_mask": 2}', "line 1: action_mask: must be true or false"),
        ('{"observations": [1]}', "line 1: 'actions' is missing"),
        ('{"observations": 1, "actions": 2}', "line 1: observations: must be a list"),
        ('{"observations": [1, 2], "actions": [0]}', "line 1: actions: has 1 steps, but observations 2"),
        ('{"observations": [1], "actions": [0], "action_mask": [true, true]}', "action_mask: has 2 steps"),
        ('{"observations": [1], "actions": [0], "dtypes": {"actions": "int8"}}', "dtypes: must give"),
        (
            '{"observations": [1], "actions": [0]}\n{"observations": [1], "actions": [0.5]}',
            "line 2, step 0: actions: ",
        ),
        (
            '{"observations": [1], "actions": [0]}\n{"observations": [[1.5]], "actions": [0]}',
            "observations: found",
        ),
        (
            '{"observations": [1], "actions": [0]}\n{"observations": [1], "actions": [0], "rewards": [1]}',
            "given here",
        ),
        ('{"observations": [], "actions": []}', "there is no step"),
    ],
)
def test_bad_json_lines_are_told_by_line(tmp_path, text, message):
    path = write(tmp_path, "demos.jsonl", text)
    for read in (ss.Demonstrations.load, lambda path: list(ss.stream_episodes(path))):
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert isinstance(caught.value, ss.SkillstreamError)
        assert "demos.jsonl" in str(caught.value)


# Parquet


def parquet(folder: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), folder / "demos.parquet")
    return folder / "demos.parquet"


def test_parquet_takes_lists_and_small_types(tmp_path):
    path = parquet(
        tmp_path,
        observation=pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
        action=pa.array([[1, 0], None, [2, 1]], pa.list_(pa.int8())),
        true_option=pa.array([0, 1, 1], pa.uint8()),
        episode=pa.array([5, 5, 3], pa.int32()),
    )
    found = ss.Demonstrations.load(path)
    assert found.observations.dtype == np.float32
    assert found.observations.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.actions.tolist() == [[1, 0], [0, 0], [2, 1]]
    assert found.action_mask.tolist() == [True, False, True]
    assert (found.true_options.tolist(), found.episode_lengths.tolist()) == ([0, 1, 1], [2, 1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"observation": [0, 1]}, "there is no column 'action'"),
        ({"observation": [0, 1], "action": [0, 1], "rewards": [0, 1]}, "did you mean 'reward'"),
        (
            {"observation": ["a", "b"], "action": [0, 1]},
            "observation: must hold numbers, found string",
        ),
        ({"observation": [0, None], "action": [0, 1]}, "row 1: observation is null; only actions may be"),
        (
            {"observation": [0, 1], "action_0": [0, 1], "action_1": [0, None]},
            "row 1: the action is null in a",
        ),
        ({"observation": [[0], [1, 2]], "action": [0, 1]}, "observation: lists from here on .* differ"),
        ({"observation": [[0], None], "action": [0, 1]}, "row 1: observation is null"),
        ({"observation": [0, 1], "action": [0, 1], "episode": [0.5, 1]}, "episode: must hold whole numbers"),
        ({"observation": [0, 1], "action": [0, 1], "action_mask": [0, 1]}, "action_mask: must hold booleans"),
        (
            {"observation": [0, 1, 2], "action": [0, 1, 2], "episode": [0, 1, 0]},
            "row 2: episode 0 comes back",
        ),
        ({"observation_0": [0.5, np.inf], "action": [0, 1]}, "row 1: observation_0 holds inf"),
        ({"observation": pa.array([], pa.int64()), "action": pa.array([], pa.int64())}, "there is no step"),
    ],
)
def test_bad_parquet_content_is_named(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        ss.Demonstrations.load(parquet(tmp_path, **columns))
    assert isinstance(caught.value, ss.SkillstreamError)
    assert "demos.parquet" in str(caught.value)


# Minari


def minari_data_set(observation_space, action_space, observations, actions, data_format="hdf5", **others):
    from minari.data_collector.episode_buffer import EpisodeBuffer

    steps = len(actions)
    flags = np.zeros(steps, bool)
    buffer = EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=np.ones(steps),
        terminations=flags,
        truncations=flags,
        **others,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="minari")  # it wants an author, and much more
        minari.create_dataset_from_buffers(
            "theirs-v0",
            [buffer],
            observation_space=observation_space,
            action_space=action_space,
            data_format=data_format,
        )
    return "minari:theirs-v0"


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_minari_spaces_become_columns(data_format):
    path = minari_data_set(
        spaces.Dict({"at": spaces.Box(-9, 9, (2,)), "door": spaces.Discrete(2, start=4)}),
        spaces.Discrete(3, start=1),
        {"at": np.arange(6, dtype=np.float32).reshape(3, 2), "door": np.array([4, 5, 4])},
        np.array([3, 1]),
        data_format,
        infos={"anything": np.zeros((3, 1))},  # Minari cannot read [3] from Arrow
    )
    found = ss.Demonstrations.load(path)
    assert found.observations.tolist() == [[0, 1, 1, 0], [2, 3, 0, 1]]
    assert (found.actions.tolist(), found.rewards.tolist()) == ([2, 0], [1, 1])


def test_minari_reads_what_was_saved(minari_root):
    KINDS["gaps"].save("minari:pole/expert-v0")
    theirs = minari.load_dataset("pole/expert-v0")
    assert (theirs.total_episodes, theirs.total_steps) == (3, 6)
    assert (minari_root / "pole" / "expert-v0").is_dir()
    assert [episode.truncations[-1] for episode in theirs] == [True] * 3
    with pytest.raises(FileExistsError, match="there is a Minari data set pole/expert-v0 already"):
        KINDS["gaps"].save("minari:pole/expert-v0")


def test_a_minari_data_set_that_is_not_there_is_not_downloaded(monkeypatch):
    monkeypatch.setattr("minari.storage.hosting.download_dataset", lambda *_: pytest.fail("downloaded"))
    with pytest.raises(FileNotFoundError, match=r"MINARI_DATASETS_PATH.*minari download pole/absent-v0"):
        ss.Demonstrations.load("minari:pole/absent-v0")
    for name in ("pole", "../../etc-v0", "", "a b-v0"):
        with pytest.raises(ss.InputError, match="is not a name of a Minari data set"):
            ss.Demonstrations.load(f"minari:{name}")


def saved_in(minari_root: Path) -> Path:
    KINDS["numbers"].save("minari:pole-v0")
    return minari_root / "pole-v0" / "data"


def test_a_damaged_minari_data_set_is_refused(minari_root):
    data = saved_in(minari_root)
    whole = (data / "main_data.hdf5").read_bytes()
    for kept in (0, 100, len(whole) // 2):
        (data / "main_data.hdf5").write_bytes(whole[:kept])
        with pytest.raises(ss.FileFormatError, match="minari:pole-v0: Minari cannot read it"):
            ss.Demonstrations.load("minari:pole-v0")
    (data / "metadata.json").write_text("{")
    with pytest.raises(ss.FileFormatError, match=r"metadata\.json: damaged"):
        ss.Demonstrations.load("minari:pole-v0")


def test_minari_runs_no_code_to_find_its_spaces(minari_root):
    data = saved_in(minari_root)
    metadata = json.loads((data / "metadata.json").read_text())
    metadata.pop("action_space")
    (data / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(ss.FileFormatError, match="its metadata have no action_space"):
        ss.Demonstrations.load("minari:pole-v0")


def test_a_false_size_in_a_minari_data_set_is_refused(minari_root):
    data = saved_in(minari_root)
    with h5py.File(data / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
        file.create_dataset("episode_1/rewards", shape=(10**12,), dtype=float, chunks=(1000,))
    with pytest.raises(ss.FileFormatError, match="episode_1/rewards claims"):
        ss.Demonstrations.load("minari:pole-v0")


def test_steps_that_do_not_belong_together_are_refused_in_minari(minari_root):
    data = saved_in(minari_root)
    with h5py.File(data / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
        file["episode_1/rewards"] = np.zeros(7)
    with pytest.raises(
        ss.FileFormatError, match="episode 1: 4 observations and 3 actions do not belong to 7"
    ):
        ss.Demonstrations.load("minari:pole-v0")


# The imitation library's trajectories


def imitation_folder(folder: Path, **columns) -> Path:
    """What `imitation.data.serialize.save` leaves there."""
    table = pa.table(columns)
    with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})
    )
    (folder / "dataset_info.json").write_text("{}")
    return folder


INFOS = [['{"py/object": "os.system"}'] * 2, ["{}"]]


def test_trajectories_of_imitation_are_read_from_their_folder(tmp_path):
    path = imitation_folder(
        tmp_path,
        obs=[[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0], [8.0, 9.0]]],
        acts=[[1, 0], [2]],
        infos=INFOS,
        terminal=[True, False],
        rews=[[0.5, 1.0], [2.0]],
    )
    wanted = ss.Demonstrations([[0, 1], [2, 3], [6, 7]], [1, 0, 2], [2, 1], rewards=[0.5, 1, 2])
    assert_same(ss.Demonstrations.load(path), wanted)
    assert [episode.num_steps for episode in ss.stream_episodes(path)] == [2, 1]


def test_their_discrete_observations_and_pictures_are_columns_too(tmp_path):
    path = imitation_folder(
        tmp_path, obs=[[3, 1, 2]], acts=[[[0.5], [1.5]]], infos=[["{}"] * 2], terminal=[True]
    )
    assert_same(ss.Demonstrations.load(path), ss.Demonstrations([3, 1], [[0.5], [1.5]]))
    path = imitation_folder(tmp_path, obs=[np.arange(8).reshape(2, 2, 2).tolist()], acts=[[0]])
    assert ss.Demonstrations.load(path).observations.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"obs": [[0, 1]]}, "there is no column 'acts'"),
        ({"obs": [[0, 1]], "acts": [[0, 1]]}, "trajectory 0: obs must hold one observation more than acts"),
        ({"obs": [[0, 1]], "acts": [[0]], "rews": [[0.0, 1.0]]}, "rews must hold one number an action"),
        ({"obs": [[[0], [0, 1]]], "acts": [[0]]}, "obs: the lists in it are empty or differ in length"),
        ({"obs": [["a", "b"]], "acts": [[0]]}, "obs: must be numbers, found string"),
        ({"obs": [[0, None]], "acts": [[0]]}, "obs: must be a list of numbers, with none missing"),
        ({"obs": [0], "acts": [[0]]}, "obs: must be a list of numbers"),
        ({"obs": [[[np.nan], [0.0]]], "acts": [[0]]}, "trajectory 0, step 0: observation_0 holds nan"),
    ],
)
def test_bad_trajectories_are_named(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        ss.Demonstrations.load(imitation_folder(tmp_path, **columns))
    assert isinstance(caught.value, ss.SkillstreamError)


@pytest.mark.parametrize("state", [None, "{", "[]", '{"_data_files": [{"filename": "../secret.arrow"}]}'])
def test_another_folder_is_refused(tmp_path, state):
    folder = imitation_folder(tmp_path, obs=[[0, 1]], acts=[[0]])
    (folder / "state.json").unlink() if state is None else (folder / "state.json").write_text(state)
    with pytest.raises(ss.FileFormatError, match=r"state\.json"):
        ss.Demonstrations.load(folder)


def test_a_truncated_arrow_file_is_refused(tmp_path):
    file = imitation_folder(tmp_path, obs=[[0, 1]] * 9, acts=[[0]] * 9) / "data-00000-of-00001.arrow"
    content = file.read_bytes()
    for kept in (0, 10, len(content) // 2):
        file.write_bytes(content[:kept])
        with pytest.raises(ss.FileFormatError, match="not a whole Arrow file"):
            ss.Demonstrations.load(tmp_path)


def trajectory(**columns):
    return types.SimpleNamespace(**columns)


def test_trajectories_in_memory():
    found = ss.Demonstrations.from_trajectories(
        [
            trajectory(obs=np.eye(3, 2), acts=np.array([1, 0]), infos=[object()] * 2, rews=np.ones(2)),
            trajectory(obs=np.zeros((2, 2)), acts=np.array([2]), infos=None, rews=np.zeros(1)),
        ]
    )
    wanted = ss.Demonstrations([[1, 0], [0, 1], [0, 0]], [1, 0, 2], [2, 1], rewards=[1, 1, 0])
    assert_same(found, wanted)


@pytest.mark.parametrize(
    ("trajectories", "message"),
    [
        ([], "trajectories: there is no step"),
        ([trajectory(obs=[0, 1])], "trajectory 0: a SimpleNamespace without 'acts'"),
        ([trajectory(obs=[0, 1], acts=[0, 1])], "trajectory 0: obs must hold one observation more"),
        ([trajectory(obs={"a": 1}, acts=[0])], "trajectory 0, step 0: obs: must be a list"),
        (
            [trajectory(obs=[0, 1], acts=[0]), trajectory(obs=[0, 1], acts=[0], rews=[1])],
            "rewards: given here",
        ),
    ],
)
def test_bad_trajectories_in_memory_are_named(trajectories, message):
    with pytest.raises(ss.InputError, match=message):
        ss.Demonstrations.from_trajectories(trajectories)
