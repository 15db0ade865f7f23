"""The state directory: one writer, checkpoints that are whole or absent, and what others may read.

    lock, checkpoints/, policy.safetensors, status.json, rejects.jsonl, run.json, metrics.jsonl

A checkpoint is one file that holds everything: the learner, the position in the source, the counts, the drift
test, and how long the lists of rejects and metrics were. A restart cuts those lists back to that.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.files import (
    Journal,
    load_arrays,
    not_written,
    remove_unfinished,
    save_arrays,
    write_whole,
)
from skillstream.runs import RunDirectory
from skillstream.streaming.lines import Reject

_VERSION = 1
_LOCK, _CHECKPOINTS, _STATUS, _REJECTS = "lock", "checkpoints", "status.json", "rejects.jsonl"
_RECORD = "run.json"
_CHECKPOINT = "checkpoint-[0-9]*.safetensors"
_DAMAGED = ".damaged"

Built = TypeVar("Built")


class Lock:
    """Held by the one process that writes to a directory; the kernel lets go of it when that one dies.

    Attributes
    ----------
    note
        What became of the writer before, where it did not say good-bye.
    """

    def __init__(self, path: Path):
        import fcntl

        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._text()
            os.close(self._descriptor)
            raise InputError(
                f"--state: {path.parent} is being written by {owner or 'another process'}; stop that one "
                "first, or give another directory"
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise InputError(
                f"--state: {path.parent} cannot be locked ({error.strerror}); use a local disk"
            ) from error
        before = self._text()
        self.note = f"taken over from {before}, which ended without a last checkpoint" if before else None
        began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "began": began})
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)
        except OSError as error:
            os.close(self._descriptor)
            raise not_written(path, error) from error

    def release(self) -> None:
        """Let go, with a good-bye if the disk takes one."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _text(self) -> str | None:
        """Who holds the lock, or held it last."""
        text = os.pread(self._descriptor, 1000, 0)
        if not text:
            return None
        try:
            told = json.loads(text)
            return (
                f"process {int(told['pid'])} on {str(told['host'])[:100]!s} (since {str(told['began'])[:40]})"
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return "another process"


class StateDirectory:
    """A state directory that this process writes to.

    Parameters
    ----------
    path
        Where it is, or is to be made.
    settings
        For `run.json`.
    keep
        How many checkpoints to keep.
    """

    def __init__(self, path: Path, settings: Any, keep: int = 3, tensorboard: bool = False):
        self.path, self._keep = path, keep
        self.notes: list[str] = []
        self._checkpoints = path / _CHECKPOINTS
        path.mkdir(parents=True, exist_ok=True)
        _refuse_others(path)
        self._lock = Lock(path / _LOCK)
        try:
            self.notes += [self._lock.note] if self._lock.note else []
            self._checkpoints.mkdir(exist_ok=True)
            for folder in (path, self._checkpoints):
                remove_unfinished(folder)
            self.run = self._run(settings, tensorboard)
            self.rejects = Journal(path / _REJECTS)
        except BaseException:
            self._lock.release()
            raise

    def newest(self, build: Callable[[str, dict[str, np.ndarray], dict[str, Any]], Built]) -> Built | None:
        """What `build` makes of the newest checkpoint that is whole; None if there is none at all.

        A damaged one is set aside, said, and the one before it is used.
        """
        found = self._found()
        for path in reversed(found):
            try:
                arrays, header = load_checkpoint(path)
                built = build(str(path), arrays, header)
                self._cut_back(header)
                return built
            except InputError:  # whole, but not for this source
                raise
            except (FileFormatError, KeyError, TypeError, ValueError) as error:
                aside = self._set_aside(path)
                self.notes.append(f"{error}; set aside as {aside}, using the checkpoint before it")
        if found:
            raise InputError(
                f"--state: no checkpoint in {self._checkpoints} can be read; name a new one to begin anew"
            )
        self._cut_back({"metrics": 0, "rejects": 0})
        return None

    def save(self, samples: int, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        """A checkpoint, whole or not at all; then the oldest ones go."""
        for journal in (self.run.journal, self.rejects):
            journal.sync()
        header = {**header, "metrics": self.run.journal.length, "rejects": self.rejects.length}
        path = self._checkpoints / f"checkpoint-{samples:015d}.safetensors"
        save_arrays(path, "stream", _VERSION, arrays, header)
        for old in self._found()[: -self._keep]:
            old.unlink(missing_ok=True)

    def reject(self, rejects: tuple[Reject, ...]) -> None:
        """List lines that were left out."""
        if rejects:
            self.rejects.add(b"".join(json.dumps(reject._asdict()).encode() + b"\n" for reject in rejects))

    def write_status(self, status: dict[str, Any]) -> None:
        """What others watch."""
        write_whole(self.path / _STATUS, json.dumps(status).encode() + b"\n", durable=False)

    def release(self) -> None:
        """Let another process write."""
        self._lock.release()

    def _run(self, settings: Any, tensorboard: bool) -> RunDirectory:
        """The run that this directory is of, which goes on; a record that is damaged is begun anew."""
        record = self.path / _RECORD
        if not record.is_file():
            return RunDirectory.begin(self.path, "stream", settings, tensorboard)
        try:
            run = RunDirectory.open(self.path)
        except FileFormatError as error:
            aside = self._set_aside(record)
            self.notes.append(f"{error}; set aside as {aside}, and begun anew")
            return RunDirectory.begin(self.path, "stream", settings, tensorboard)
        run.record["state"] = "running"
        run.record.get("results", {}).pop("error", None)
        if tensorboard:
            run.watch()
        run.write()
        return run

    def _set_aside(self, path: Path) -> str:
        """Give a damaged file another name."""
        aside = path.with_name(path.name + _DAMAGED)
        path.replace(aside)
        return aside.name

    def _found(self) -> list[Path]:
        return checkpoints(self.path)

    def _cut_back(self, header: dict[str, Any]) -> None:
        """Forget rejects and metrics that came after the checkpoint: they will come again."""
        for journal, name in ((self.run.journal, "metrics"), (self.rejects, "rejects")):
            if journal.length < header[name]:
                self.notes.append(
                    f"{journal.path} has lost {header[name] - journal.length} bytes; going on without"
                )
            journal.cut(header[name])


def _refuse_others(path: Path) -> None:
    """Refuse a folder that holds something else."""
    if any(path.iterdir()) and not any((path / name).exists() for name in (_LOCK, _CHECKPOINTS)):
        raise InputError(
            f"--state: {path} holds other files, and is no state of a stream; name a new directory"
        )


def checkpoints(directory: Path) -> list[Path]:
    """All that there are in a state directory, oldest first."""
    return sorted((directory / _CHECKPOINTS).glob(_CHECKPOINT))


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and header as they were saved, or a `FileFormatError`."""
    arrays, header = load_arrays(path, "stream", _VERSION, checked=True)
    header = {name: part for name, part in header.items() if name not in ("kind", "version")}
    if not all(type(header.get(name)) is int and header[name] >= 0 for name in ("metrics", "rejects")):
        raise FileFormatError(f"{path}: damaged: it does not say how long the lists were")
    return arrays, header
