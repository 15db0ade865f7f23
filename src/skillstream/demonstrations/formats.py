"""Demonstrations on disk: which format a path means, and reading and writing whole or by episode.

A format is a module of this package with `read(path)`, which yields pieces, and, where it can be
written, `write(path, demos)`. A new one is a file and a line in `_FORMATS`.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import episodes, join
from skillstream.errors import FileFormatError, InputError

_MINARI, _FOLDER = "minari:NAME", "a folder"
_FORMATS = {
    ".npz": "npz_format",
    ".parquet": "parquet_format",
    ".csv": "csv_format",
    ".jsonl": "jsonl_format",
    _MINARI: "minari_format",
    _FOLDER: "imitation_format",
}
_BEGINNINGS = {b"PK\x03\x04": ".npz", b"PAR1": ".parquet", b"\x80": "pickle", b"{": ".jsonl"}


def load(path: str | os.PathLike[str]) -> Demonstrations:
    """The data set at `path`, whole."""
    module, source = _to_read(path)
    return join(os.fspath(path), module.read(source))


def stream_episodes(path: str | os.PathLike[str]) -> Iterator[Demonstrations]:
    """The episodes of a file one by one, as data sets of one episode each, in bounded memory.

    Takes what `Demonstrations.load` takes. No more is held than one episode and a block of steps, so the
    file may be larger than memory.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "demos.csv"
    >>> Demonstrations([0, 1, 2], [1, 1, 0], episode_lengths=[2, 1]).save(path)
    >>> [episode.num_steps for episode in stream_episodes(path)]
    [2, 1]
    """
    module, source = _to_read(path)
    return episodes(os.fspath(path), module.read(source))


def save(path: str | os.PathLike[str], demos: Demonstrations) -> None:
    """Write `demos` to `path`, whole or not at all."""
    key, text = check_can_save(path), os.fspath(path)
    target = text.removeprefix("minari:") if key == _MINARI else Path(text)
    _module(key).write(target, demos)


def check_can_save(path: str | os.PathLike[str]) -> str:
    """The format that `path` says, or an `InputError`: to be asked before there is work to lose."""
    text = os.fspath(path)
    key = _MINARI if text.startswith("minari:") else Path(text).suffix.lower()
    if key not in _FORMATS:
        raise InputError(f"path: {text!r} does not say a format that can be written; {_known(_FOLDER)}")
    return key


def _to_read(path: str | os.PathLike[str]) -> tuple[ModuleType, Path | str]:
    """The module that reads `path`, and what to give it."""
    text = os.fspath(path)
    if text.startswith("minari:"):
        return _module(_MINARI), text.removeprefix("minari:")
    file = Path(text)
    if file.is_dir():
        return _module(_FOLDER), file
    suffix = file.suffix.lower()
    if not file.exists() and (suffix in _FORMATS or not suffix):
        raise FileNotFoundError(f"path: there is no file or folder {file}")
    if suffix not in _FORMATS:
        raise InputError(f"path: the suffix of {text!r} is none that can be read; {_known()}")
    _refuse_other_format(file, suffix)
    return _module(suffix), file


def _refuse_other_format(file: Path, suffix: str) -> None:
    with file.open("rb") as opened:
        beginning = opened.read(4)
    if not beginning:
        raise FileFormatError(f"{file}: the file is empty")
    found = next((name for magic, name in _BEGINNINGS.items() if beginning.startswith(magic)), None)
    if found == "pickle":
        raise FileFormatError(f"{file}: this is a pickle, not {suffix}; skillstream never reads pickles")
    if found not in (None, suffix):
        raise FileFormatError(f"{file}: this looks like {found}, not {suffix}; rename it if it is")


def _module(key: str) -> ModuleType:
    return import_module(f"skillstream.demonstrations.{_FORMATS[key]}")


def _known(*without: str) -> str:
    return "known are " + ", ".join(name for name in _FORMATS if name not in without)
