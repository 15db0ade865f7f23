"""Parquet, Arrow and HDF5 files made from a grammar: sound containers of what no reader expects."""

import io
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutating import MOST, NUMBERS, Files, blindly

_TYPES = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
]
_TYPES += [pa.null(), pa.binary(), pa.timestamp("ns"), pa.decimal128(10, 2), pa.date32(), pa.large_string()]


def _column(rng: random.Random, rows: int, depth: int = 0) -> pa.Array:
    """Any array of so many rows."""
    kind = rng.random()
    if depth < 3 and kind < 0.35:
        sizes = [rng.choice([0, 1, 2, 2, 2]) for _ in range(rows)]
        if rng.random() < 0.5:
            sizes = [2] * rows
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        values = _column(rng, int(offsets[-1]), depth + 1)
        if rng.random() < 0.3:
            return pa.LargeListArray.from_arrays(offsets.astype(np.int64), values)
        if rng.random() < 0.2 and set(sizes) <= {2}:
            return pa.FixedSizeListArray.from_arrays(values, 2)
        return pa.ListArray.from_arrays(offsets, values)
    if depth < 2 and kind < 0.4:
        return pa.StructArray.from_arrays([_column(rng, rows, depth + 1)], ["a"])
    plain = _plain(rng, rows)
    if kind < 0.45 and rows:
        return plain.dictionary_encode() if not pa.types.is_null(plain.type) else plain
    return plain


def _plain(rng: random.Random, rows: int) -> pa.Array:
    kind = rng.choice([pa.int64(), pa.float64(), rng.choice(_TYPES)])
    whole = [
        rng.choice([0, 0, 1, 1, 2, 3, -1, *NUMBERS[:-1]]) if rng.random() < 0.1 else rng.randrange(3)
        for _ in range(rows)
    ]
    gaps = [rng.random() < 0.03 for _ in range(rows)]
    for values in (
        whole,
        [rng.choice([0.5, float(n), float("nan")]) if rng.random() < 0.05 else 0.25 for n in whole],
        [n > 0 for n in whole],
        [str(n) for n in whole],
    ):
        try:
            return pa.array([None if gap else value for value, gap in zip(values, gaps, strict=True)], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            continue
    return pa.nulls(rows, kind)


def _table(rng: random.Random) -> pa.Table:
    rows = rng.choice([0, 1, 2, 5, 50])
    names = [
        "observation",
        "action",
        "observation_0",
        "action_0",
        "action_1",
        "episode",
        "reward",
        "true_option",
    ]
    names += ["action_mask", "step", "observation", "other"]
    chosen = ["observation", "action", *rng.sample(names, rng.choice([0, 0, 1, 2, 3]))]
    return pa.Table.from_arrays([_column(rng, rows) for _ in chosen], names=chosen)


def parquet(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """A Parquet file of other columns, or one whose pages are damaged with the footer whole."""
    if rng.random() < 0.4 and len(data) > 100:
        size = int.from_bytes(data[-8:-4], "little")
        cut = max(4, len(data) - 8 - size)
        return data[:4] + blindly(rng, data[4:cut])[: cut - 4].ljust(cut - 4, b"\0") + data[cut:]
    file = io.BytesIO()
    try:
        pq.write_table(
            _table(rng),
            file,
            compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
            use_dictionary=rng.random() < 0.5,
            data_page_version=rng.choice(["1.0", "2.0"]),
            write_page_checksum=rng.random() < 0.5,
        )
    except (pa.ArrowException, ValueError):
        return blindly(rng, data, other)
    made = file.getvalue()
    return (blindly(rng, made) if rng.random() < 0.3 else made)[:MOST]


def parquet_seeds() -> list[bytes]:
    """Files that others write: compressed in every way, without checksums."""
    made = []
    for compression in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        file = io.BytesIO()
        table = pa.table({"observation": [[0.5, 1.0]] * 40, "action": list(range(40)), "episode": [0] * 40})
        pq.write_table(table, file, compression=compression, data_page_version=(made and "2.0") or "1.0")
        made.append(file.getvalue())
    return made


def _arrow_bytes(table: pa.Table, compression: str | None = None) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(
        file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=2)
    return file.getvalue()


def _imitation(content: bytes) -> Files:
    return {
        "data-00000-of-00001.arrow": content,
        "state.json": json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}).encode(),
    }


def imitation_seeds(folder: Path) -> list[Files]:
    """Folders of trajectories, plain and compressed."""
    table = pa.table(
        {"obs": [[[0.5, 1.0]] * 3, [[2.0, 3.0]] * 2], "acts": [[1, 0], [2]], "rews": [[0.5, 1.0], [2.0]]}
    )
    plain = pa.table(
        {"obs": [[3, 1, 2]], "acts": [[[0.5], [1.5]]], "infos": [["{}"] * 2], "terminal": [True]}
    )
    made = [_arrow_bytes(table), _arrow_bytes(plain), _arrow_bytes(table, "zstd"), _arrow_bytes(table, "lz4")]
    return [_imitation(content) for content in made]


def arrow(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """An Arrow stream of other columns, or a damaged one."""
    if not data.startswith(b"\xff\xff\xff\xff") or rng.random() < 0.4:
        return blindly(rng, data, other)
    rows = rng.choice([0, 1, 2])
    names = rng.sample(["obs", "acts", "rews", "infos"], rng.choice([2, 3, 3, 4]))
    table = pa.Table.from_arrays([_column(rng, rows) for _ in names], names=names)
    try:
        return _arrow_bytes(table, rng.choice([None, None, "zstd", "lz4"]))[:MOST]
    except pa.ArrowException:
        return blindly(rng, data, other)


def minari_arrow(folder: Path) -> list[Files]:
    """A data set of Minari's in each of its formats of Arrow's."""
    import os
    import warnings

    import minari
    from gymnasium import spaces
    from minari.data_collector.episode_buffer import EpisodeBuffer

    made = []
    space = spaces.Dict({"at": spaces.Box(-9, 9, (2,)), "door": spaces.Discrete(2, start=4)})
    observations = {"at": np.arange(6, dtype=np.float32).reshape(3, 2), "door": np.array([4, 5, 4])}
    flags = np.zeros(2, bool)
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data_format in ("hdf5", "arrow", "parquet"):
            buffer = EpisodeBuffer(
                observations=observations,  # pyright: ignore
                actions=np.array([3, 1]),  # pyright: ignore
                rewards=np.ones(2),  # pyright: ignore
                terminations=flags,  # pyright: ignore
                truncations=flags,  # pyright: ignore
            )
            minari.create_dataset_from_buffers(
                f"{data_format}-v0",
                [buffer],
                observation_space=space,
                action_space=spaces.Discrete(3, start=1),
                data_format=data_format,
            )
            root = folder / f"{data_format}-v0"
            made.append(
                {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
            )
    if before is None:
        del os.environ["MINARI_DATASETS_PATH"]
    else:
        os.environ["MINARI_DATASETS_PATH"] = before
    return made


def hdf5(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """A sound HDF5 file in which one thing is what it should not be."""
    if not data.startswith(b"\x89HDF"):
        return blindly(rng, data, other)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as scratch:
        scratch.write(data)
        scratch.flush()
        try:
            with h5py.File(scratch.name, "a") as file:
                _replace(rng, file)
        except (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError):
            return blindly(rng, data, other)
        return Path(scratch.name).read_bytes()[:MOST]


def _replace(rng: random.Random, file: h5py.File) -> None:
    found: list[str] = []
    file.visit(found.append)
    name = rng.choice(found)
    parent, _, leaf = name.rpartition("/")
    group: Any = file[parent] if parent else file
    old = file[name]
    del group[leaf]
    kind = rng.randrange(9)
    if kind == 0:
        group[leaf] = h5py.SoftLink(rng.choice(["/", name, "/episode_0", "/nowhere"]))
    elif kind == 1:
        group[leaf] = h5py.ExternalLink(rng.choice(["/etc/passwd", "main_data.hdf5", "/dev/zero"]), "/")
    elif kind == 2:
        shape = rng.choice([(10**12,), (2**62, 2), (3, 10**9), (0,), (), (0, 10**12)])
        group.create_dataset(
            leaf, shape=shape, dtype=rng.choice("fdi?"), chunks=(1000,) if len(shape) == 1 else None
        )
    elif kind == 3:
        group.create_dataset(leaf, (8,), "u1", external=[(rng.choice(["/etc/passwd", "/dev/zero"]), 0, 8)])
    elif kind == 4:
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(rng.choice([".", "/etc/passwd"]), "/episode_0/rewards", (3,))
        group.create_virtual_dataset(leaf, layout)
    elif kind == 5:
        group.create_dataset(leaf, data=rng.choice([["a", "b"], [b"x" * 1000], "text"]))
    elif kind == 6:
        compression = rng.choice(["gzip", "lzf", None])
        size = rng.choice([2, 3, 4, 10**5])
        group.create_dataset(
            leaf, data=np.zeros((size, rng.choice([1, 2]))), chunks=True, compression=compression
        )
    elif kind == 7:
        group.create_group(leaf)
        group[leaf][leaf] = group[leaf]
    elif isinstance(old, h5py.Dataset):
        types = ["f8", "f2", "i1", "u8", "?", "c16", [("a", "f8")], h5py.vlen_dtype(np.uint8), h5py.ref_dtype]
        group.create_dataset(leaf, old.shape, rng.choice(types))
