"""Folders of trajectories as the `imitation` library saves them: Arrow files of Hugging Face `datasets`.

A row is a trajectory: `obs` (one more than `acts`), `acts`, perhaps `rews`. What could run code on being
read (`infos`, written by jsonpickle) is not touched.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.demonstrations.arrow_files import refuse_compressed_stream
from skillstream.demonstrations.pieces import Piece, one_episode, optional
from skillstream.demonstrations.trajectories import without_last
from skillstream.errors import FileFormatError, shown
from skillstream.files import read_json

_STATE = "state.json"


def read(folder: Path) -> Iterator[Piece]:
    """A trajectory at a time."""
    pa = optional("pyarrow", "parquet", "reading trajectories of imitation")
    index = 0
    for file in _arrow_files(folder):
        try:
            refuse_compressed_stream(pa, file)
            with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    batch.validate(full=True)
                    for row in range(batch.num_rows):
                        yield _trajectory(file, batch, row, index)
                        index += 1
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, struct.error) as error:
            raise FileFormatError(f"{file}: not a whole Arrow file ({error}); it may be truncated") from error


def _arrow_files(folder: Path) -> list[Path]:
    """The files that the folder's own list names, none of them outside."""
    try:
        names = [entry["filename"] for entry in read_json(folder / _STATE)["_data_files"]]
    except FileNotFoundError as error:
        raise FileFormatError(
            f"{folder}: has no {_STATE}, so not trajectories as the imitation library saves them"
        ) from error
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"{folder / _STATE}: damaged: it lists no data files ({error})") from error
    here = {path.name for path in folder.iterdir() if path.is_file()}
    for number, name in enumerate(names):
        if not isinstance(name, str) or name not in here:
            raise FileFormatError(f"{folder / _STATE}: names {shown(name)}, which is no file in the folder")
        if name in names[:number]:
            raise FileFormatError(f"{folder / _STATE}: names {shown(name)} twice")
    return [folder / name for name in names]


def _trajectory(file: Path, batch: Any, row: int, index: int) -> Piece:
    place = f"{file}: trajectory {index}"
    missing = [name for name in ("obs", "acts") if name not in batch.schema.names]
    if missing:
        raise FileFormatError(
            f"{file}: there is no column {missing[0]!r} among {shown(batch.schema.names)}; "
            "not trajectories as imitation writes them"
        )
    columns = ("obs", "acts", "rews") if "rews" in batch.schema.names else ("obs", "acts")
    twice = [name for name in columns if batch.schema.names.count(name) > 1]
    if twice:
        raise FileFormatError(f"{file}: the column {twice[0]!r} is there twice")
    limit = 8 * file.stat().st_size
    obs, acts, *rews = (_array(place, name, batch.column(name)[row], limit) for name in columns)
    return one_episode(without_last(place, obs, acts, *(rews or [None])), f"trajectory {index}")


def _array(place: str, name: str, scalar: Any, limit: int) -> np.ndarray:
    """Lists of numbers, perhaps of lists, as an array of `limit` at the most; no copies through Python."""
    values: Any = getattr(scalar, "values", None)
    shape: list[int] = []
    while hasattr(values, "value_lengths"):
        if len(values) > limit:  # lists of nothing, of which a file may hold any number
            raise FileFormatError(f"{place}: {name}: claims {len(values)} lists, for which it is too small")
        counts = values.value_lengths().to_numpy(zero_copy_only=False)
        if values.null_count or not len(counts) or counts[0] == 0 or (counts != counts[0]).any():
            raise FileFormatError(f"{place}: {name}: the lists in it are empty or differ in length")
        shape.append(int(counts[0]))
        values = values.flatten()
    if not hasattr(values, "to_numpy") or values.null_count:
        raise FileFormatError(f"{place}: {name}: must be a list of numbers, with none missing")
    array = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "iuf":
        raise FileFormatError(f"{place}: {name}: must be numbers, found {values.type}")
    return array.reshape(-1, *shape)
