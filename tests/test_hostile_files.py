"""Files that claim what they cannot hold, or mean something else than they seem to; many found by fuzzing."""

import io
import json
import shutil
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import skillstream as ss
from skillstream.demonstrations import pieces
from skillstream.errors import shown
from skillstream.experts import trained
from skillstream.runs import RunDirectory

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture
def frugal():
    """Refusing must take neither a second nor much memory."""
    tracemalloc.start()
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 5  # a second, on a machine that does nothing else
    assert peak < 2**27


def refused(path, message: str, read=ss.Demonstrations.load) -> None:
    with pytest.raises((ss.FileFormatError, ss.InputError), match=message) as caught:
        read(path)
    assert Path(str(path).removeprefix("minari:")).name.partition("-v0")[0] in str(caught.value)
    assert len(str(caught.value)) < 2500


def test_what_a_message_quotes_is_short():
    deep = 0
    for _ in range(900):
        deep = [deep]
    for value in ("x" * 10**6, list(range(10**5)), deep, {"a": deep}, 10**5000):
        assert len(shown(value)) < 500
    assert len(str(ss.InputError("x" * 10**6))) < 2500
    assert str(ss.InputError("plain")) == "plain"


# NumPy's archives


def member(shape, dtype: str, data: bytes = b"", fortran: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return file.getvalue() + data


def archive(folder: Path, **members: bytes) -> Path:
    members = {
        "observations": member((8,), "<i8", bytes(64)),
        "actions": member((8,), "<i8", bytes(64)),
    } | members
    with zipfile.ZipFile(folder / "demos.npz", "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return folder / "demos.npz"


def header_of(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (member((10**12,), "|V0"), "must be integers or floats"),
        (member((10**12, 0), "<f8"), "rows of the shape"),
        (member((-1, -8), "<f8", bytes(64)), "claims"),
        (member((10**9, 8), "<f8", bytes(64), fortran=True), "claims"),
        (member((4,), "<M8[s]", bytes(32)), "must be integers or floats"),
        (header_of(b"-" * 1000 + b"1"), "not an array as NumPy writes it"),
        (header_of(b"(" * 60_000), "not an array as NumPy writes it"),
        (header_of(b"{'descr':" + b"[" * 300), "not an array as NumPy writes it"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 64, "version"),
    ],
)
def test_no_header_in_an_archive_is_believed(tmp_path, content, message):
    refused(archive(tmp_path, observations=content), message)


@pytest.mark.usefixtures("frugal")
def test_an_archive_cannot_claim_more_bytes_than_it_has(tmp_path):
    path = archive(tmp_path, observations=member((10**9, 8), "<f8", bytes(64), fortran=True))
    data, held = path.read_bytes(), struct.pack("<II", 192, 192)
    size = 64 * 10**9 + 128
    assert held in data  # the sizes of the first member: compressed, uncompressed
    path.write_bytes(data.replace(held, struct.pack("<II", size % 2**32, size % 2**32)))
    refused(path, "claim|not a whole")


def test_lengths_of_episodes_do_not_come_round(tmp_path):
    lengths = np.array([2**63 - 1, 2**63 - 1, 10], np.int64)
    assert lengths.sum() == 8
    refused(
        archive(tmp_path, episode_lengths=member((3,), "<i8", lengths.tobytes())), "add up to the 8 steps"
    )


def test_a_mask_of_other_bytes_than_0_and_1_is_one_of_booleans(tmp_path):
    path = archive(tmp_path, action_mask=member((8,), "|b1", bytes([0, 1, 2, 128, 255, 0, 1, 1])))
    mask = ss.Demonstrations.load(path).action_mask
    assert mask.view(np.uint8).tolist() == [0, 1, 1, 1, 1, 0, 1, 1]


# Text


def text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (",".join(f"observation_{i}" for i in range(30_000)) + ",action\n1\n", "found 1 cells"),
        (
            ",".join(f"observation_{i}" for i in range(1, 30_000)) + ",action\n1\n",
            "'observation_0' is missing",
        ),
        (",".join(["observation"] * 30_000) + "\n1\n", "is there twice"),
        ("observation,action\n" + "9" * 5000 + ",1\n", "holds inf"),
        ("observation,action\n" + "x" * 100_000 + ",1\n", "expected a whole number"),
        ("x" * 100_000 + ",action\n1,1\n", "is not known"),
    ],
)
def test_a_csv_costs_no_more_than_its_size(tmp_path, content, message):
    refused(text(tmp_path, "demos.csv", content), message)


NESTED = "[" * 900 + "]" * 900


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f'{{"observations": [{"1," * 10**5}"{"x" * 10**5}"], "actions": [1]}}',
            "observations: must be numbers",
        ),
        ('{"observations": [[1], ["a"]], "actions": [1, 1]}', "observations: must be numbers"),
        ('{"observation": 1, "action": {"a": 1}}', "action: must be numbers, found"),
        ('{"observation": 1, "observation": 2, "action": 0}', "a key is there twice"),
        ('{"observation": 1, "action": 0, "%s": 1}' % ("x" * 10**5), "is not known"),
        ('{"observations": [1], "actions": [1], "dtypes": {"actions": ["float32"]}}', "dtypes"),
        ('{"observations": [1], "actions": [1], "dtypes": {"actions": []}}', "dtypes"),
    ],
)
def test_text_among_numbers_makes_no_wide_columns(tmp_path, line, message):
    refused(text(tmp_path, "demos.jsonl", line), message)


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("number", ["9" * 4000, "1" + "0" * 400, f"0.5, {'9' * 400}", "NaN", "1e999", NESTED])
def test_no_number_in_json_is_too_large_to_be_refused(tmp_path, number):
    for line in ('{"observation": [%s], "action": 0}', '{"observations": [[%s]], "actions": [0]}'):
        path = text(tmp_path, "demos.jsonl", line % number)
        with pytest.raises(ss.SkillstreamError, match=r"demos\.jsonl[,:] line 1") as caught:
            ss.Demonstrations.load(path)
        assert len(str(caught.value)) < 2500


def test_numbers_of_64_bits_without_a_sign_stay_whole(tmp_path):
    lines = '{"observation": %d, "action": 0}\n{"observation": %d, "action": 1}'
    for numbers in ((1, 2**63), (2**63, 1), (2**63, 2**63), (2**64, 0)):
        path = text(tmp_path, "demos.jsonl", lines % numbers)
        with pytest.raises(ss.InputError, match=r"does not fit into 64 bits|must be numbers"):
            ss.Demonstrations.load(path)


# Arrow and Parquet


def parquet(folder: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), folder / "demos.parquet")
    return folder / "demos.parquet"


def test_words_are_refused_before_they_are_read(tmp_path):
    words = pa.array(["x" * 10**6] * 3).dictionary_encode()
    refused(parquet(tmp_path, observation=words, action=[0, 1, 2]), "observation: must hold numbers")


def test_a_file_that_ends_pyarrows_process_is_refused(tmp_path):
    shutil.copy(CORPUS / "level-histogram.parquet", tmp_path / "demos.parquet")
    refused(tmp_path / "demos.parquet", "not a whole Parquet file")


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_parquet_claims_is_counted(tmp_path, monkeypatch, compression, version):
    lists = pa.array([[0.0, 1.0]] * 20_000)
    table = pa.table({"observation": lists, "action": np.arange(20_000)})
    path = tmp_path / "demos.parquet"
    pq.write_table(table, path, compression=compression, data_page_version=version, row_group_size=6000)
    assert ss.Demonstrations.load(path).num_steps == 20_000
    monkeypatch.setattr(pieces, "_ALWAYS", 8 * 60_000 - 1)
    monkeypatch.setattr(pieces, "_TIMES", 0)
    refused(path, r"claims \d+ bytes of numbers")
    monkeypatch.setattr(pieces, "_ALWAYS", 8 * 200_000)
    assert ss.Demonstrations.load(path).num_steps == 20_000


def trajectories(folder: Path, table: pa.Table, **options) -> Path:
    file = folder / "data.arrow"
    with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    return folder


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_trajectories_are_refused_unseen(tmp_path, compression):
    table = pa.table({"obs": [[0, 1]], "acts": [[0]]})
    assert ss.Demonstrations.load(trajectories(tmp_path, table)).num_steps == 1
    refused(trajectories(tmp_path, table, compression=compression), "is compressed")


@pytest.mark.usefixtures("frugal")
def test_lists_of_nothing_are_not_counted_out(tmp_path):
    nothing = pa.Array.from_buffers(
        pa.list_(pa.int8(), 0), 2**31 - 1, [None], children=[pa.array([], pa.int8())]
    )
    lists = pa.LargeListArray.from_arrays(pa.array([0, 2**31 - 1]), nothing)
    refused(trajectories(tmp_path, pa.table({"obs": lists, "acts": [[0]]})), "claims 2147483647 lists")


@pytest.mark.parametrize(
    "names", [["data.arrow"] * 2, ["x" * 5000], ["a\0b"], ["\ud800"], [5], [None], ["../data.arrow"], ["."]]
)
def test_a_list_of_files_names_those_that_are_there_once(tmp_path, names):
    folder = trajectories(tmp_path, pa.table({"obs": [[0, 1]], "acts": [[0]]}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    refused(folder, r"state\.json")


# Minari


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder of a sound data set, `minari:pole-v0`."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rng = np.random.default_rng(0)
    ss.Demonstrations(rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), [1, 3, 2]).save("minari:pole-v0")
    return tmp_path / "pole-v0" / "data"


def replaced(data: Path, make) -> None:
    with h5py.File(data / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
        make(file["episode_1"])


def virtual(group: h5py.Group) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(".", "/episode_0/rewards", (3,))
    group.create_virtual_dataset("rewards", layout)


def twice(group: h5py.Group) -> None:
    group["rewards"] = np.zeros(3)
    group["infos"] = group


def link(group: h5py.Group, to) -> None:
    group["rewards"] = to


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda group: link(group, h5py.SoftLink("/episode_0/rewards")), "is a link to somewhere else"),
        (lambda group: link(group, h5py.ExternalLink("/etc/passwd", "/")), "is a link to somewhere else"),
        (
            lambda group: group.create_dataset("rewards", (3,), "f8", external=[("/dev/zero", 0, 24)]),
            "another file",
        ),
        (virtual, "is kept in another file"),
        (twice, "several names"),
        (
            lambda group: group.create_dataset("rewards", (3, 10**6, 10**6), "f8", chunks=(1, 10, 10)),
            "claims",
        ),
        (
            lambda group: group.create_dataset("rewards", (3,), "f8", maxshape=(None,), chunks=(2**28,)),
            "claims",
        ),
        (lambda group: link(group, np.zeros(3, [("a", "f8")])), "minari:pole"),
    ],
)
def test_hdf5_is_looked_over_before_it_is_read(data, make, message):
    replaced(data, make)
    refused("minari:pole-v0", message)


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("entry", [bytes(16), b"\1\0\1\0" + bytes(4) + b"\xf0" + b"\xff" * 7])
def test_a_store_of_texts_that_hdf5_would_walk_for_ever_is_refused(data, entry):
    path = data / "main_data.hdf5"
    with h5py.File(path, "a") as file:
        file["episode_1/infos/said"] = ["one", "two", "three"]
    assert ss.Demonstrations.load("minari:pole-v0").num_steps == 6
    content = path.read_bytes()
    at = content.index(b"GCOL") + 16
    path.write_bytes(content[:at] + entry + content[at + 16 :])
    refused("minari:pole-v0", "store of texts")


def box(**changed) -> dict:
    return {"type": "Box", "dtype": "float64", "shape": [3], "low": [0.0] * 3, "high": [1.0] * 3} | changed


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_episodes": 10**12}, "claims 1000000000000 episodes, but holds 3"),
        ({"total_episodes": -1}, "claims -1 episodes"),
        ({"observation_space": json.dumps(box(dtype="V1000000000"))}, "must hold numbers"),
        ({"observation_space": json.dumps(box(dtype="object"))}, "must hold numbers"),
        ({"observation_space": json.dumps(box(shape=[10**12]))}, "has the shape"),
        ({"observation_space": json.dumps(box(shape=[10**4] * 3))}, "numbers a step"),
        ({"observation_space": json.dumps(box(shape=[64, 64]))}, "its pictures are encoded"),
        ({"action_space": json.dumps({"type": "MultiBinary", "n": 10**12})}, "has the shape"),
        (
            {"action_space": '{"type": "Tuple", "subspaces": [' * 50 + "]}" * 50},
            "no space that Minari writes",
        ),
        ({"action_space": '{"type": "Tuple", "subspaces": [' * 5000}, "cannot read it|not JSON"),
        ({"action_space": "5"}, "no space that Minari writes"),
        ({"action_space": None}, "Minari cannot read it"),
    ],
)
def test_minaris_metadata_are_checked_before_minari_acts_on_them(data, changes, message):
    path = data / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refused("minari:pole-v0", message)


@pytest.mark.usefixtures("frugal")
def test_a_space_much_wider_than_its_numbers_is_refused(data):
    parts = {
        "type": "Dict",
        "subspaces": {"a": {"type": "Discrete", "dtype": "int64", "start": 0, "n": 10**12}},
    }
    path = data / "metadata.json"
    metadata = json.loads(path.read_text()) | {"observation_space": json.dumps(parts)}
    path.write_text(json.dumps(metadata))
    with h5py.File(data / "main_data.hdf5", "a") as file:
        for episode in range(3):
            del file[f"episode_{episode}/observations"]
            file[f"episode_{episode}/observations/a"] = np.zeros(4, int)
    refused("minari:pole-v0", "claims .* bytes of numbers")


# Policies, learners, experts


def edited(path: Path, change) -> Path:
    """The file with its arrays and its header changed, checksums and offsets right."""
    with safe_open(path, "numpy") as file:
        arrays, header = (
            {n: file.get_tensor(n) for n in sorted(file.keys())},
            json.loads(file.metadata()["skillstream"]),
        )
    change(arrays, header)
    save_file(
        {n: np.ascontiguousarray(a) for n, a in arrays.items()}, path, {"skillstream": json.dumps(header)}
    )
    return path


def structure(**changes):
    return lambda arrays, header: header["structure"].update(changes)


def array(name: str, change):
    def apply(arrays, header):
        arrays[name] = change(arrays[name])

    return apply


NETWORKS = {
    "options": structure(num_options=10**9),
    "hidden": structure(selection_hidden=[10**400]),
    "layers": structure(action_hidden=[1] * 1000),
    "observations": structure(observation_size=10**12),
    "actions": structure(num_actions=[10**9, 10**9]),
    "activation": structure(activation="__class__"),
    "range": structure(weight_range="1"),
    "dtype": structure(dtype="object"),
    "more": structure(other=1),
    "scale": array("observations.scale", np.zeros_like),
    "nan": array("selection.weights.0", lambda a: a * np.nan),
    "type": array("selection.weights.0", lambda a: a.astype(np.float64)),
    "initial": array("initial", lambda a: a * 2),
    "start": array("initial", lambda a: a[:1]),
}
GAUSSIANS = {
    "states": structure(num_states=10**12),
    "none": structure(num_states=0),
    "selection": array("selection", lambda a: a * 2),
    "scale": array("scale", lambda a: -a),
    "floor": array("floor", lambda a: a * 0),
}


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("change", [*NETWORKS.values(), *GAUSSIANS.values()], ids=[*NETWORKS, *GAUSSIANS])
def test_both_readers_of_policies_refuse_alike(tmp_path, change):
    network = ss.OptionPolicy.neural(
        2, 2, 2, selection_hidden=(3,), action_hidden=(2,), termination_hidden=()
    )
    policy = ss.OptionPolicy.tabular(2, 3, ss.GaussianActions(2)) if change in GAUSSIANS.values() else network
    policy.save(tmp_path / "policy")
    for load in (ss.OptionPolicy.load, ss.Agent.load):
        load(tmp_path / "policy")
    edited(tmp_path / "policy", change)
    for load in (ss.OptionPolicy.load, ss.Agent.load):
        refused(tmp_path / "policy", "damaged|holds the arrays", load)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "BF16", "F4", "C64"])
def test_types_that_numpy_has_not_are_refused(tmp_path, dtype):
    head = {
        "a": {
            "dtype": dtype,
            "shape": [8],
            "data_offsets": [0, {"C64": 64, "BF16": 16, "F4": 4}.get(dtype, 8)],
        }
    }
    head["__metadata__"] = {"skillstream": '{"kind": "expert", "version": 1}'}
    encoded = json.dumps(head).encode()
    path = tmp_path / "expert"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + bytes(head["a"]["data_offsets"][1]))
    refused(path, "a type that NumPy has not|holds the arrays", lambda path: trained.read(path, "cart-pole"))


@pytest.mark.parametrize(
    "head", ["[" * 50_000, '{"kind": %s}' % ("9" * 5000), '{"kind": ["x"], "version": 1}', "5"]
)
def test_headers_that_are_no_headers(tmp_path, head):
    path = tmp_path / "policy"
    save_file({"a": np.zeros(1)}, path, {"skillstream": head})
    for load in (ss.OptionPolicy.load, ss.Agent.load):
        refused(path, "policy", load)


LEARNERS = {
    "window": lambda arrays, header: header["config"].update(window=10**12, max_window=10**12),
    "filled": array("state.window.filled", lambda a: a * 0 + 4),
    "below": array("state.window.filled", lambda a: a * 0 - 1),
    "nan": array("state.counts.base", lambda a: a * np.nan),
    "negative": array("state.counts.base", lambda a: a - 1),
    "states": array("state.samples.tags", lambda a: a + 1000),
    "chances": array("state.window.chi", lambda a: a * 3),
    "samples": lambda arrays, header: header["numbers"].update(num_samples=2**62),
    "absorbed": lambda arrays, header: header["numbers"].update(absorbed=2**40),
    "block": lambda arrays, header: header["numbers"].update(block=5),
    "decay": lambda arrays, header: header["numbers"].update(log2_decay=-1e300),
    "more": lambda arrays, header: header["config"].update(other=1),
    "policy": lambda arrays, header: header["policy"].update(model="neural", structure={}),
}
SAMPLED = {
    "parameters": array("state.moving.parameters.selection", lambda a: a * 2),
    "links": array("state.window.links", lambda a: a * 0 + 1e308),
    "unseen": lambda arrays, header: (arrays.pop("state.used"), header.update(engine={"capacity": 0})),
    "weight": array("state.totals", lambda a: a * 0),
    "batch": lambda arrays, header: header["config"].update(batch_size=2**40),
    "capacity": lambda arrays, header: header["engine"].update(capacity=10**12),
    "huge": lambda arrays, header: header["engine"].update(capacity=10**400),
    "rows": lambda arrays, header: header["engine"]["observations"].update(shape=[10**9]),
    "used": array("state.used", lambda a: a * 0 + 10**6),
    "queue": array("state.queue.row", lambda a: a + 5000),
    "states": array("state.store.observations", lambda a: a + 77),
}


@pytest.fixture(scope="module")
def learners(tmp_path_factory):
    """A learner of tables and one that keeps samples, each after a few samples, in their folders."""
    config = ss.OnlineConfig(window=4, max_window=8, min_samples=99)
    kinds = {
        "tables": ss.OptionPolicy.tabular(2, 3, 2),
        "samples": ss.OptionPolicy.tabular(2, 3, ss.GaussianActions(1)),
    }
    folder = tmp_path_factory.mktemp("learners")
    for name, policy in kinds.items():
        actions = [0, 1, 0] if name == "tables" else [[0.0], [1.0], [0.5]]
        ss.OnlineLearner(policy, config).partial_fit([0, 1, 2], actions).save(folder / name)
    return folder


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    ("kind", "change"),
    [*[("tables", c) for c in LEARNERS.values()], *[("samples", c) for c in SAMPLED.values()]],
)
def test_a_learner_goes_on_from_no_state_that_cannot_be(tmp_path, learners, kind, change):
    shutil.copytree(learners / kind, tmp_path / "learner")
    ss.OnlineLearner.load(tmp_path / "learner")
    edited(tmp_path / "learner" / "learner.safetensors", change)
    refused(tmp_path / "learner", "damaged|header", ss.OnlineLearner.load)


@pytest.mark.parametrize(
    "change",
    [
        array("actions", lambda a: a + 2),
        array("actions", lambda a: a * 0.5),
        array("actions", lambda a: a[:0]),
        lambda arrays, header: header.update(score=float("nan")),
    ],
)
def test_an_experts_table_is_checked(tmp_path, change):
    path = tmp_path / "expert.safetensors"
    shutil.copy(next(trained.PACKAGED.glob("cart-pole*")), path)
    trained.read(path, "cart-pole")
    refused(edited(path, change), "damaged", lambda path: trained.read(path, "cart-pole"))


# Runs


def run_with(folder: Path, record: str, metrics: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(record.encode("utf-8", "surrogatepass"))
    (folder / "metrics.jsonl").write_text(metrics)
    return folder


@pytest.mark.parametrize(
    "record",
    [
        "[" * 50_000,
        '{"settings": {}, "state": %s}' % ("9" * 5000),
        '{"settings": {}, "task": "\\ud800"}',
        '{"settings": {}, "task": "\ud800"}',
        '{"settings": {}, "settings": {"task": "a"}}',
        '{"settings": {"learning": 5}}',
        '{"settings": {}, "results": [1]}',
        '{"settings": {}, "results": {"certificate": "x"}}',
        '{"settings": {}, "demonstrations": ["a"]}',
        '{"settings": {}, "set": [["a"]]}',
        "null",
    ],
)
def test_a_record_of_a_run_is_checked(tmp_path, record):
    assert RunDirectory.open(run_with(tmp_path / "run", '{"settings": {}}')).record == {"settings": {}}
    with pytest.raises(ss.FileFormatError, match=r"run\.json: damaged"):
        RunDirectory.open(run_with(tmp_path / "run", record))


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize(
    "line",
    [
        "[" * 50_000,
        '{"step": %s}' % ("9" * 5000),
        '{"step": "1"}',
        '{"step": Infinity}',
        '{"step": 1, "start": null}',
        '{"step": 1, "log_likelihood": {"a": 1}}',
        '{"step": 1, "log_likelihood": [1]}',
        "[1]",
    ],
)
def test_damaged_lines_of_the_metrics_are_left_out(tmp_path, line):
    sound = '{"step": 1, "log_likelihood": -0.5}\n{"step": 2, "log_likelihood": null, "note": "x"}\n'
    run = RunDirectory.open(run_with(tmp_path / "run", '{"settings": {}}', f"{sound}{line}\n{sound}"))
    assert [found["step"] for found in run.metrics()] == [1, 2, 1, 2]
