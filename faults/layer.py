"""What a process does to the files of one folder, counted; an operation can be made to fail, or be the last.

Patches the functions of `os` and `io` that the package's files go through, in the process that installs it.
"""

import errno
import io
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from disk import Disk

_BY_PATH = ("replace", "unlink", "mkdir", "truncate")
_BY_DESCRIPTOR = ("fsync", "ftruncate", "pwrite")
Place = Literal["before", "torn", "after", "power"]


@dataclass(frozen=True)
class Plan:
    """What happens at which operations.

    Attributes
    ----------
    error
        The number of the error that is raised; None: the process is killed.
    place
        Before the operation, when a write is half done, or when all of it is done; `power`: before it, and
        what was not flushed to the disk may be gone too.
    first, last
        The numbers of the operations that this happens to, from 1.
    """

    error: int | None
    place: Place
    first: int
    last: int

    def __str__(self) -> str:
        what = "SIGKILL" if self.error is None else errno.errorcode[self.error]
        return f"{what} {self.place} operations {self.first} to {self.last}"


class Layer:
    """Between a process and the files of a folder.

    Attributes
    ----------
    count
        Operations so far.
    hit
        Those that something happened to, in words.
    """

    def __init__(self, folder: Path, plan: Plan | None, seen: Callable[[str], None] = lambda name: None):
        self._folder, self._plan, self._seen = os.path.abspath(folder), plan, seen
        self._disk = Disk()
        self.count = 0
        self.hit: list[str] = []

    @contextmanager
    def installed(self) -> Iterator["Layer"]:
        """While the block runs, every operation goes through this layer."""
        before = {name: getattr(os, name) for name in (*_BY_PATH, *_BY_DESCRIPTOR, "open")}
        opened = io.open
        for name in _BY_PATH:
            setattr(os, name, self._wrapped(name, before[name], os.fspath))
        for name in _BY_DESCRIPTOR:
            setattr(os, name, self._wrapped(name, before[name], _path_of))
        os.open = self._wrapped("open", before["open"], os.fspath)
        io.open = self._open_instead_of(opened)
        try:
            yield self
        finally:
            io.open = opened
            for name, function in before.items():
                setattr(os, name, function)

    def do(
        self,
        name: str,
        path: str,
        whole: Callable[[], Any],
        half: Callable[[], Any] | None = None,
        to: str | None = None,
    ) -> Any:
        """One operation, or what the plan makes of it; an error knows its path where the system tells it."""
        if not os.path.abspath(path).startswith(self._folder):
            return whole()
        self.count += 1
        short = f"{name} {os.path.relpath(path, self._folder)}"
        self._seen(short)
        plan = self._plan
        if plan is None or not plan.first <= self.count <= plan.last:
            self._disk.before(name, os.path.abspath(path), None if to is None else os.path.abspath(to))
            done = whole()
            self._disk.after(name, os.path.abspath(path))
            return done
        self.hit.append(short)
        if plan.place == "after":
            _close(whole())
        elif plan.place == "torn" and half is not None:
            half()
        elif plan.place == "power":
            self._disk.lose(random.Random(plan.first))
        if plan.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
            raise SystemExit("a killed process goes on")
        known = () if name in (*_BY_DESCRIPTOR, "write", "truncate") else (path,)
        raise OSError(plan.error, os.strerror(plan.error), *known)

    def _wrapped(self, name: str, function: Callable[..., Any], path: Callable[[Any], str]) -> Any:
        def wrapped(target: Any, *arguments: Any, **settings: Any) -> Any:
            to = os.fspath(arguments[0]) if name == "replace" else None
            return self.do(name, path(target), lambda: function(target, *arguments, **settings), to=to)

        return wrapped

    def _open_instead_of(self, function: Callable[..., Any]) -> Any:
        def opened(path: Any, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
            here = isinstance(path, str | Path) and os.path.abspath(path).startswith(self._folder)
            if not (here and "b" in mode and {*mode} & {*"xaw"}):
                return function(path, mode, *arguments, **settings)
            return self.do("create", str(path), lambda: io.BufferedWriter(_Raw(self, str(path), mode)))

        return opened


class _Raw(io.FileIO):
    """A file whose writes go through a layer."""

    def __init__(self, layer: Layer, path: str, mode: str):
        super().__init__(path, mode)
        self._layer, self._path = layer, path

    def write(self, data: Any, /) -> int:
        """All of it, half of it, or none."""
        block = bytes(data)
        return self._layer.do(
            "write",
            self._path,
            lambda: super(_Raw, self).write(block),
            lambda: super(_Raw, self).write(block[: len(block) // 2]),
        )

    def truncate(self, size: int | None = None, /) -> int:
        """To so many bytes."""
        return self._layer.do("truncate", self._path, lambda: super(_Raw, self).truncate(size))


def _close(opened: Any) -> None:
    """What the process will never hear of."""
    if isinstance(opened, io.IOBase):
        opened.close()


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")
