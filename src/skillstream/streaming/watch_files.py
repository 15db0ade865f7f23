"""Reading the files of a stream that another process writes: whole, torn, damaged, cut or not there.

Nothing here raises for what a file holds. What cannot be read is told as such and left out.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_RECORD = 8 << 20  # bytes of a file that is read whole
LARGEST_LINE = 1 << 20
CHUNK = 2 << 20  # bytes of a file of lines that are read at once


def parse(data: bytes) -> dict[str, Any] | None:
    """The JSON object that `data` holds, or None if it holds something else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # numbers of thousands of digits and bad encodings are ValueErrors
        return None
    return found if isinstance(found, dict) else None


def read_record(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """The JSON object in a small file, and whether there is a file at all."""
    file = _open(path)
    if file is None:
        return None, os.path.lexists(path)
    with file:
        try:
            data = file.read(LARGEST_RECORD + 1)
        except OSError:
            return None, True
    return (parse(data) if len(data) <= LARGEST_RECORD else None), True


class Lines:
    """The JSON objects of a file that grows, each given once.

    A last line without its end is left for later. A file that was replaced or cut is read anew from its
    beginning, and `anew` counts how often that was.
    """

    def __init__(self, path: Path):
        self._path = path
        self._file: tuple[int, int] | None = None
        self._offset, self._size = 0, 0
        self._within_too_long = False
        self.damaged, self.anew = 0, 0

    @property
    def behind(self) -> bool:
        """Whether the last reading left more than its torn end."""
        return self._size - self._offset > LARGEST_LINE

    @property
    def share_read(self) -> float:
        """How much of the file has been read, of 1."""
        return self._offset / self._size if self._size else 1.0

    def read(self, limit: int = CHUNK) -> list[dict[str, Any]]:
        """What has come since the last call, at most `limit` bytes of it (no less than a line may have)."""
        file = _open(self._path)
        if file is None:
            self._size = self._offset
            return []
        with file:
            try:
                told = os.fstat(file.fileno())
                self._follow((told.st_dev, told.st_ino), told.st_size)
                file.seek(self._offset)
                return self._objects(file.read(min(limit, self._size - self._offset)))
            except OSError:
                return []

    def _follow(self, file: tuple[int, int], size: int) -> None:
        """Notice that the file is another one than before, or shorter than what was read of it."""
        if self._file is not None and (file != self._file or size < self._offset):
            self._offset, self.damaged, self._within_too_long = 0, 0, False
            self.anew += 1
        self._file, self._size = file, size

    def _objects(self, data: bytes) -> list[dict[str, Any]]:
        whole = data.rfind(b"\n") + 1
        if whole == 0 and len(data) >= LARGEST_LINE:
            self._within_too_long = True
            self._offset += len(data)
            return []
        self._offset += whole
        found = []
        for line in data[:whole].split(b"\n")[:-1]:
            if self._within_too_long:  # this is its end, and the rest was let go of
                self._within_too_long = False
                self.damaged += 1
            elif len(line) <= LARGEST_LINE and (read := parse(line)) is not None:
                found.append(read)
            elif line.strip():
                self.damaged += 1
        return found


def _open(path: Path) -> BinaryIO | None:
    """A regular file to read. A pipe in its place would make the reader wait: it counts as no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")
