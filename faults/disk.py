"""What a loss of power leaves of a folder: what was flushed, and of the rest what happened to be written."""

import os
import random
from collections.abc import Callable

# The system's own, where a layer has put others in their place.
_unlink, _truncate, _open = os.unlink, os.truncate, open


class Disk:
    """Follows the operations of one process on files that count as flushed when it begins."""

    def __init__(self) -> None:
        self._flushed: dict[str, int] = {}  # bytes, of files that were written to since
        self._names: list[tuple[str, str, Callable[[], None]]] = []  # folder, name, how it was before

    def before(self, name: str, path: str, to: str | None) -> None:
        """An operation that is about to be done; `to` is the new name of a file that is renamed."""
        if name in ("create", "write", "pwrite"):
            if not os.path.exists(path):
                self._remember(path)
            self._flushed.setdefault(path, os.path.getsize(path) if os.path.exists(path) else 0)
        elif name == "unlink" and os.path.exists(path):
            self._remember(path)
            self._flushed.pop(path, None)
        elif name == "replace" and to is not None:
            self._remember(to)
            self._flushed.pop(to, None)
            if path in self._flushed:
                self._flushed[to] = self._flushed.pop(path)

    def after(self, name: str, path: str) -> None:
        """An operation that is done."""
        if name in ("truncate", "ftruncate") and path in self._flushed:
            self._flushed[path] = min(self._flushed[path], os.path.getsize(path))
        if name == "fsync":
            self._flushed.pop(path, None)
            self._names = [known for known in self._names if known[0] != path]

    def lose(self, rng: random.Random) -> None:
        """Take back the last names that were not flushed, however many, and the ends of files."""
        kept = rng.randint(0, len(self._names))
        for _, path, undo in reversed(self._names[kept:]):
            undo()
            self._flushed.pop(path, None)
        for path, flushed in self._flushed.items():
            if os.path.exists(path):
                size = os.path.getsize(path)
                _truncate(path, rng.randint(min(flushed, size), size))
                if rng.random() < 0.3:  # the length was written, what is in it was not
                    _truncate(path, size)

    def _remember(self, path: str) -> None:
        """How a name is before it changes."""
        before = None
        if os.path.exists(path):
            with _open(path, "rb") as file:
                before = file.read()

        def undo() -> None:
            if before is None:
                if os.path.exists(path):
                    _unlink(path)
                return
            with _open(path, "wb") as file:
                file.write(before)

        self._names.append((os.path.dirname(path), path, undo))
