"""A file that grows: read to where it ends, followed as it grows, and over its rotation to the next.

Rotation is either a new file under the old name, the old one renamed (`log` becomes `log.1`), or the same
file copied elsewhere and cut to nothing. A restart finds its file again by its inode and its first bytes,
under its own name or a rotated one.
"""

import hashlib
import os
import re
import time
from pathlib import Path
from typing import Any

from skillstream.streaming.sources import BLOCK

_HEAD = 256  # first bytes, which tell a file from another


class GrowingFile:
    """The bytes of a file and of those that take its place.

    Parameters
    ----------
    path
        The file that is written now.
    follow
        Whether it may still grow; else its end is the end.
    at_end
        Whether to begin at its end, with what comes from now on.
    grace
        Seconds a renamed file may still grow, because its writer has not noticed.
    """

    keeps = True

    def __init__(self, path: Path, follow: bool = True, at_end: bool = False, grace: float = 1.0):
        self._path, self._follow, self._grace = path, follow, grace
        self._file = path.open("rb", buffering=0)
        self.ended = False
        self._quiet_since: float | None = None
        self._head = b""
        if at_end:
            self._begin_after_last_line()

    def read(self) -> bytes:
        """The next block."""
        if self.ended:
            return b""
        if self._was_cut():
            self.ended = True
            return b""
        block = self._file.read(BLOCK)
        if block:
            self._quiet_since = None
            return block
        self.ended = not self._follow or self._has_been_replaced()
        return b""

    def next_file(self) -> bool:
        """Open the file after this one, or this one again if it was cut."""
        if not self._follow:
            return False
        if self._was_cut():
            self._file.seek(0)
        else:
            following = self._successor()
            if following is None:
                return False
            self._open(following, 0)
        self.ended, self._quiet_since, self._head = False, None, b""
        return True

    def position(self, unread: int) -> dict[str, Any]:
        """Which file, and where in it."""
        about = os.fstat(self._file.fileno())
        head = self._first_bytes(min(_HEAD, self._file.tell()))
        return {
            "inode": about.st_ino,
            "offset": self._file.tell() - unread,
            "head": [len(head), hashlib.sha256(head).hexdigest()],
        }

    def go_to(self, position: dict[str, Any]) -> list[str]:
        """Find the file again, under whatever name, and go on in it."""
        offset, (size, digest) = position["offset"], position["head"]
        if not (0 <= offset < 2**62 and 0 <= size <= _HEAD):
            raise ValueError(f"the position is {position}")
        names = [self._path, *self._rotated()]
        same = [path for path in names if _begins(path, offset, size, digest)]
        mine = [path for path in same if path.stat().st_ino == position["inode"]]
        # A copy under the old name, as a restored backup is, will do if enough of it is known.
        copies = [path for path in same if path == self._path and size == _HEAD]
        if not (mine or copies):
            return [
                f"the file that was read up to byte {offset} is not there any more (cut, or rotated away); "
                f"going on at the start of {self._path}; what was added to the old one since then is lost"
            ]
        self._open((mine or copies)[0], offset)
        return []

    def wait(self, seconds: float) -> None:
        """A while: a file does not say when it grows."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def _open(self, path: Path, offset: int) -> None:
        self._file.close()
        self._file = path.open("rb", buffering=0)
        self._file.seek(offset)
        self._head = b""

    def _begin_after_last_line(self) -> None:
        """At the end, but not within a line."""
        end = self._file.seek(0, os.SEEK_END)
        while end > 0:
            first = max(0, end - BLOCK)
            place = os.pread(self._file.fileno(), end - first, first).rfind(b"\n")
            if place >= 0:
                end = first + place + 1
                break
            end = first
        self._file.seek(end)

    def _first_bytes(self, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, 0)

    def _was_cut(self) -> bool:
        """Whether the file is shorter than what was read of it, or begins with other bytes."""
        place = self._file.tell()
        if os.fstat(self._file.fileno()).st_size < place:
            return True
        if len(self._head) < min(_HEAD, place):
            self._head = self._first_bytes(min(_HEAD, place))
        return self._first_bytes(len(self._head)) != self._head

    def _has_been_replaced(self) -> bool:
        """Whether another file has the name now, and this one has not grown for a while."""
        try:
            replaced = self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:  # between the renaming and the new file
            return False
        now = time.monotonic()
        if not replaced:
            return False
        if self._quiet_since is None:
            self._quiet_since = now
        return now - self._quiet_since >= self._grace

    def _successor(self) -> Path | None:
        """The file that was begun after this one: a rotated one, or the one with the name."""
        mine = os.fstat(self._file.fileno())
        later = []
        for path in [*self._rotated(), self._path]:
            about = path.stat()
            if about.st_ino != mine.st_ino and (path == self._path or about.st_mtime_ns > mine.st_mtime_ns):
                later.append((path == self._path, about.st_mtime_ns, path))
        return min(later)[2] if later else None

    def _rotated(self) -> list[Path]:
        """Older files of the same log: the name and a number or a date."""
        pattern = re.compile(re.escape(self._path.name) + r"[.-]\d[\dT:._-]*")
        return [
            path for path in self._path.parent.iterdir() if pattern.fullmatch(path.name) and path.is_file()
        ]


def _begins(path: Path, offset: int, size: int, digest: str) -> bool:
    """Whether a file is at least so long and begins with the bytes of this digest."""
    if not path.is_file() or path.stat().st_size < offset:
        return False
    with path.open("rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest() == digest
