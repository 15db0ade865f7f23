"""NumPy's `.npz`: the columns of the data set under their own names. Object arrays are never read."""

import lzma
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import STEP_COLUMNS, Columns, Piece
from skillstream.errors import FileFormatError, SkillstreamError, shown
from skillstream.files import open_whole

_NAMES = (*STEP_COLUMNS, "episode_lengths")
_BLOCK = 2**23  # bytes a column is read by
_DEFLATE_LIMIT = 1032  # no deflated byte stands for more
_HEADER_LIMIT = 1024  # characters; that of an array of numbers has a hundred
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError)
_DAMAGE += (OSError, RuntimeError, ValueError, OverflowError)  # all of which zipfile lets out
_BAD_HEADER = (ValueError, KeyError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)


def write(path: Path, demos: Demonstrations) -> None:
    """Write the columns that are there."""
    columns = {name: getattr(demos, name) for name in _NAMES if getattr(demos, name) is not None}
    with open_whole(path) as file:
        np.savez(file, allow_pickle=False, **columns)


def read(path: Path) -> Iterator[Piece]:
    """The columns in blocks of steps."""
    try:
        with zipfile.ZipFile(path) as archive, ExitStack() as stack:
            members = _members(path, archive, stack)
            yield from _blocks(path, members)
    except SkillstreamError:
        raise
    except _DAMAGE as error:
        raise FileFormatError(f"{path}: not a whole .npz file ({error}); it may be truncated") from error


@dataclass(frozen=True)
class _Member:
    """An array in the archive, its header read and believed."""

    name: str
    file: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    def rows(self, count: int) -> np.ndarray:
        """The next rows."""
        shape = (count, *self.shape[1:])
        data = self.file.read(math.prod(shape) * self.dtype.itemsize)
        order: Any = "F" if self.fortran else "C"
        array = np.frombuffer(data, self.dtype).reshape(shape, order=order)
        if self.dtype.kind == "b":  # of which a file may hold other bytes than 0 and 1
            return array.view(np.uint8) != 0
        return array.astype(self.dtype.newbyteorder("="), copy=False)


def _members(path: Path, archive: zipfile.ZipFile, stack: ExitStack) -> dict[str, _Member]:
    found = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    missing = {"observations", "actions"} - set(found)
    unknown = set(found) - set(_NAMES)
    if missing or unknown:
        problem = f"{min(missing)} is missing" if missing else f"{shown(min(unknown))} is not known"
        raise FileFormatError(
            f"{path}: holds the arrays {shown(sorted(found))}, of which {problem}; save them with "
            "np.savez(path, observations=..., actions=..., episode_lengths=...), and if wanted "
            "rewards=, action_mask=, true_options="
        )
    if sum(info.compress_size for info in found.values()) > os.stat(path).st_size:
        raise FileFormatError(f"{path}: its arrays claim more bytes than the file has; it may be truncated")
    return {name: _open_member(f"{path}: {name}", name, archive, info, stack) for name, info in found.items()}


def _open_member(
    where: str, name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, stack: ExitStack
) -> _Member:
    """A member whose declared size agrees with the archive's, checked before any memory is taken."""
    file = stack.enter_context(archive.open(info))
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"its header has the version {version}, which arrays of numbers never need")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Python 2 has written it
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, _HEADER_LIMIT)
    except _BAD_HEADER as error:
        raise FileFormatError(f"{where}: not an array as NumPy writes it ({error})") from error
    if dtype.hasobject:
        raise FileFormatError(
            f"{where}: an object array, which only pickle could read, and skillstream never does; "
            "save it as an array of numbers"
        )
    if dtype.kind not in "iufb":
        raise FileFormatError(f"{where}: must be integers or floats (or booleans), found {dtype}")
    declared = math.prod(shape) * dtype.itemsize
    held = info.file_size - file.tell()
    if (
        min(shape, default=0) < 0
        or declared != held
        or info.file_size > _DEFLATE_LIMIT * max(info.compress_size, 1)
    ):
        raise FileFormatError(f"{where}: claims {list(shape)} {dtype}, which the file is too small for")
    if not shape or 0 in shape[1:]:  # else rows that take no bytes could be any number
        found = f"rows of the shape {list(shape[1:])}" if shape else "a single number"
        raise FileFormatError(f"{where}: {found}; must have one row a step")
    return _Member(name, file, shape, dtype, fortran and len(shape) > 1)


def _blocks(path: Path, members: dict[str, _Member]) -> Iterator[Piece]:
    steps = members["observations"].shape[0]
    lengths = members.pop("episode_lengths", None)
    for name, member in members.items():
        if member.shape[0] != steps:
            raise FileFormatError(
                f"{path}: {name}: must have one row a step; observations has {steps}, "
                f"{name} {member.shape[0]}"
            )
    if steps == 0:
        return
    starts = _starts(path, np.array([steps]) if lengths is None else lengths.rows(lengths.shape[0]), steps)
    widest = max(math.prod(m.shape[1:]) * m.dtype.itemsize for m in members.values())
    count = max(1, _BLOCK // max(widest, 1))
    # An array in Fortran's order has no rows to read one by one: it is read at once.
    whole = {name: member.rows(steps) for name, member in members.items() if member.fortran}
    for first in range(0, steps, count):
        size = min(count, steps - first)
        columns: Columns = {
            name: whole[name][first : first + size] if name in whole else member.rows(size)
            for name, member in members.items()
        }
        yield Piece(columns, starts[first : first + size], lambda row, first=first: f"step {first + row}")


def _starts(path: Path, lengths: np.ndarray, steps: int) -> np.ndarray:
    whole = lengths.ndim == 1 and lengths.dtype.kind in "iu"
    # None above the steps: else a sum of 64 bits could come round to them.
    if not whole or (lengths <= 0).any() or (lengths > steps).any() or lengths.sum() != steps:
        raise FileFormatError(
            f"{path}: episode_lengths: must be positive integers that add up to the {steps} steps, found "
            f"{lengths.dtype} {list(lengths.shape)}{f' with the sum {lengths.sum()}' if whole else ''}"
        )
    starts = np.zeros(steps, bool)
    starts[np.cumsum(lengths)[:-1]] = True
    starts[:1] = True
    return starts
