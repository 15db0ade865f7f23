"""Named arrays on disk, whole or absent: safetensors for the numbers, JSON in its header for the rest.

Nothing read here can run code: safetensors holds plain arrays only, and every array and every
header entry is checked against what the reader expects.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from skillstream.errors import FileFormatError, shown

_HEADER, _CHECKSUM = "skillstream", "checksum"
_BLOCK = 1 << 16
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")
_DTYPES = {"F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}


@contextmanager
def open_whole(path: str | os.PathLike[str], durable: bool = True) -> Iterator[BinaryIO]:
    """A binary file to write that takes the place of `path` when the block ends well, and else vanishes.

    What is `durable` survives the machine's own crash too; what is not is whole or absent for readers.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"path: there is no folder {path.parent} to write {path.name} into; create it"
        )
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise not_written(path, error) from error
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    try:
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot flush {path} to the disk ({os.strerror(error.errno or 0)})"
        ) from error


def remove_unfinished(folder: Path) -> None:
    """Take away what writers that were killed in `open_whole` left; no other may be at work there."""
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


def not_written(path: str | os.PathLike[str], error: OSError) -> OSError:
    """`error`, of the same class, told so that a user knows what is on the disk now."""
    reason = os.strerror(error.errno or 0)
    return OSError(
        error.errno, f"cannot write {path} ({reason}); nothing was written, what was there is kept"
    )


def write_whole(path: str | os.PathLike[str], data: bytes, durable: bool = True) -> None:
    """Write `data` to `path` so that a crash leaves either the old file or the new one."""
    with open_whole(path, durable) as file:
        file.write(data)


class Journal:
    """A file that lines are only ever added to, by one writer.

    Attributes
    ----------
    length
        Bytes that are known to be whole; what a failed write left beyond them is taken away by the next.
    """

    def __init__(self, path: Path):
        self.path = path
        self.length = path.stat().st_size if path.is_file() else 0

    def add(self, data: bytes) -> None:
        """Write whole lines, or nothing that counts."""
        with self._told(), self.path.open("ab") as file:
            there = file.tell()
            if there > self.length:
                file.truncate(self.length)
            file.write(data)
        self.length = min(there, self.length)
        self.length += len(data)

    def cut(self, length: int) -> None:
        """Go back to when there were so many bytes, or to the whole lines that are left of them."""
        self.length = length if length <= self.length else self._whole_lines()
        if self.path.is_file():
            with self._told():
                os.truncate(self.path, self.length)

    def sync(self) -> None:
        """Have what was added survive a crash of the machine, and nothing else."""
        if self.path.is_file():
            with self._told(), self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) > self.length:
                    os.truncate(self.path, self.length)
                os.fsync(file.fileno())

    def _whole_lines(self) -> int:
        """Bytes up to the end of the last whole line."""
        if not self.path.is_file():
            return 0
        with self.path.open("rb") as file:
            end = self.length
            while end > 0:
                first = max(0, end - _BLOCK)
                file.seek(first)
                place = file.read(end - first).rfind(b"\n")
                if place >= 0:
                    return first + place + 1
                end = first
        return 0

    @contextmanager
    def _told(self) -> Iterator[None]:
        """An error of the disk names the file."""
        try:
            yield
        except OSError as error:
            raise not_written(self.path, error) from error


def read_json(path: Path) -> Any:
    """A file of JSON in text that can be written again; one that says a thing twice is refused."""
    try:
        found = json.loads(path.read_text("utf-8"), object_pairs_hook=_once)
        json.dumps(found, ensure_ascii=False).encode()  # no half of a character
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: damaged: not JSON as skillstream reads it ({error})") from error
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key of {shown(sorted(found))} is there twice")
    return found


def save_arrays(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
) -> None:
    """Save `arrays` and a JSON `header` under the name and version of a format, with a checksum of it all."""
    known = {"kind": kind, "version": version, **header}
    text = json.dumps({**known, _CHECKSUM: _checksum(arrays, known)}, sort_keys=True)
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    write_whole(path, to_safetensors(contiguous, metadata={_HEADER: text}))


def load_arrays(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    expected: Callable[[dict[str, Any]], set[str]] | None = None,
    checked: bool = False,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_arrays` wrote, refusing anything else.

    `expected` tells from the header which arrays the file must hold, no more and no fewer; without
    it, the caller looks at their names. A checksum must be right; files that are `checked` must have one,
    others may be of a time before there were any.
    """
    path = Path(path)
    if path.is_dir():
        raise FileNotFoundError(
            f"path: {path} is a folder, not a {kind} file (OnlineLearner.load reads a learner's folder)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata.get(_HEADER, "null"))
            found = set(file.keys())
            _check_header(path, header, kind, version)
            if expected is not None:
                check_names(str(path), kind, found, expected(header))
            strange = [name for name in found if file.get_slice(name).get_dtype() not in _DTYPES]
            if strange:
                raise FileFormatError(
                    f"{path}: the array {shown(strange[0])} is of a type that NumPy has not"
                )
            arrays = {name: file.get_tensor(name) for name in sorted(found)}
    except FileFormatError:
        raise
    except (SafetensorError, ValueError, RecursionError, OverflowError) as error:
        raise FileFormatError(
            f"{path}: not a whole skillstream {kind} file ({error}); it may be truncated, or a pickle, "
            "which skillstream never reads"
        ) from error
    if (checked or _CHECKSUM in header) and header.pop(_CHECKSUM, None) != _checksum(arrays, header):
        raise FileFormatError(f"{path}: damaged: its checksum is wrong")
    return arrays, header


def _checksum(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    """Of every name, type, shape and byte."""
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_names(where: str, kind: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    """Raise a `FileFormatError` unless a file holds the arrays that it must, no more and no fewer."""
    if set(found) != set(wanted):
        raise FileFormatError(
            f"{where}: a {kind} file holds the arrays {shown(sorted(wanted))}, "
            f"this one {shown(sorted(found))}; it was not written by skillstream"
        )


def _check_header(path: Path, header: Any, kind: str, version: int) -> None:
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else None
        found = str(found)[:100] if found else "something else"
        raise FileFormatError(f"{path}: expected a skillstream {kind} file, found {found}")
    if not isinstance(header.get("version"), int) or header["version"] < 1:
        raise FileFormatError(
            f"{path}: the format version {shown(header.get('version'))} is not a positive integer"
        )
    if header["version"] > version:
        raise FileFormatError(
            f"{path}: written by a newer skillstream ({kind} format {shown(header['version'])}, this one "
            f"reads up to {version}); upgrade skillstream to read it"
        )
