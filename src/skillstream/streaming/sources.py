"""Where samples come from, and the bytes of those that come as lines.

A source gives samples in order, no more than it is asked for, and knows its position: what it needs to give
the next one again after a restart. Nothing is read ahead but a block of bytes.
"""

import os
import select
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import InputError
from skillstream.streaming import lines
from skillstream.streaming.lines import Batch, Name, Reject
from skillstream.streaming.spaces import Space

BLOCK = 1 << 18
_FIRST_BYTES = 8 << 20


class Source(Protocol):
    """What the loop asks of every source."""

    space: Space | None
    """What samples look like; set once there is a policy."""
    notes: list[str]
    """What a user should be told; the loop says it and empties the list."""

    def first(self) -> Demonstrations | None:
        """The first samples, which stay to be taken: they tell what policy to start from. None: not yet."""
        ...

    def take(self, limit: int) -> Batch | None:
        """At most so many samples; empty if there is none now, None if there will be none."""
        ...

    def position(self) -> dict[str, Any]:
        """Where the next sample is, as JSON."""
        ...

    def unread(self) -> np.ndarray:
        """Bytes that were read, not taken, and cannot be read again."""
        ...

    def go_to(self, position: dict[str, Any], unread: np.ndarray) -> None:
        """Go on from there."""
        ...

    def wait(self, seconds: float) -> None:
        """Until there may be more, but no longer than this."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class Bytes(Protocol):
    """What lines are cut from: one file after another."""

    keeps: bool
    """Whether what was read can be read again."""
    ended: bool
    """Whether this file has been read to its end and will not grow."""

    def read(self) -> bytes:
        """The next block; empty if there is nothing now."""
        ...

    def next_file(self) -> bool:
        """Go on with the file after this one, if there is one."""
        ...

    def position(self, unread: int) -> dict[str, Any]:
        """Where this many bytes before the next block lie."""
        ...

    def go_to(self, position: dict[str, Any]) -> list[str]:
        """Go on from there; says what a user should know."""
        ...

    def wait(self, seconds: float) -> None:
        """Until there may be more, but no longer than this."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class Pipe:
    """Standard input, or a named pipe: it cannot go back."""

    keeps = False

    def __init__(self, descriptor: int = 0):
        self._descriptor, self.ended = descriptor, False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self) -> bytes:
        """What there is now."""
        if self.ended or not self._ready(0.0):
            return b""
        block = os.read(self._descriptor, BLOCK)
        self.ended = not block
        return block

    def next_file(self) -> bool:
        """There is only one."""
        return False

    def position(self, unread: int) -> dict[str, Any]:
        """None of its own: lines are counted."""
        return {}

    def go_to(self, position: dict[str, Any]) -> list[str]:
        """What comes next comes after what was taken."""
        return []

    def wait(self, seconds: float) -> None:
        """Until there is something to read."""
        self._ready(seconds)

    def close(self) -> None:
        """Leave it open: it is not ours."""

    def _ready(self, seconds: float) -> bool:
        return bool(self._poll.poll(1000 * seconds))


class LineSource:
    """Samples from lines of JSON.

    Parameters
    ----------
    source
        Where the bytes come from.
    longest
        Bytes of the longest line that is read; a longer one is not kept in memory either.
    strict
        Whether to stop at a line that is no sample, instead of leaving it out.
    enough
        Lines that tell what policy to start from.
    states, actions
        How many there are, where the user says so.
    replayed
        Whether what comes begins anew with lines that were taken before.
    """

    def __init__(
        self,
        source: Bytes,
        longest: int = 1 << 20,
        strict: bool = False,
        enough: int = 1000,
        states: int | None = None,
        actions: int | None = None,
        replayed: bool = False,
    ):
        self._source, self._longest, self._strict, self._enough = source, longest, strict, enough
        self._states, self._actions, self._replayed = states, actions, replayed
        self.space: Space | None = None
        self.notes: list[str] = []
        self._lines: list[bytes] = []  # whole ones, without their ends
        self._sizes: list[int] = []  # bytes of each in the source
        self._partial, self._partial_size = b"", 0
        self._unread = 0
        self._line, self._within, self._skip = 0, 0, 0
        self._name: Name = None
        self._a_line = 1.0  # samples in it, about

    def first(self) -> Demonstrations | None:
        """What the first lines hold, once there are enough of them or no more will come."""
        while len(self._lines) < self._enough and self._unread < _FIRST_BYTES:
            if not self._read():
                break
        enough = len(self._lines) >= self._enough or self._unread >= _FIRST_BYTES or self._source.ended
        found = self._lines[: self._enough]
        if not (found and enough):
            return None
        space = lines.guess(found, self._longest)
        if space is None:
            raise InputError(f"source: the first {len(found)} lines hold no action; give a policy as --start")
        space = space.limited(self._states, self._actions)
        batch = lines.parse(found, space, self._longest, None).batch
        if not batch.recorded.any():
            raise InputError(
                f"source: the first {len(found)} lines hold no sample of up to {space.num_states} states and "
                f"{space.action_limits} actions; say how many there are with --states and --actions"
            )
        lengths = np.diff(np.flatnonzero(np.concatenate([[True], batch.starts[1:], [True]])))
        mask = None if batch.recorded.all() else batch.recorded
        return Demonstrations(batch.observations, batch.actions, lengths, action_mask=mask)

    def take(self, limit: int) -> Batch | None:
        """Samples of the next lines; before the space is known, lines that are no samples in any space."""
        wanted = max(1, int(limit / self._a_line))
        while len(self._lines) < wanted and self._read():
            pass
        if self._skip:
            self._skip_taken()
        if not self._lines:
            return None if self._source.ended and not self._read() else _nothing(self.space)
        if self.space is None:
            return self._take_hopeless()
        found = self._lines[:wanted]
        return self._take_parsed(lines.parse(found, self.space, self._longest, self._name), len(found), limit)

    def _take_parsed(self, parsed: lines.Parsed, count: int, limit: int) -> Batch:
        """What may be taken of some parsed lines: no more than `limit`, nothing twice."""
        line_of, used, first, within = parsed.line_of, count, self._within, 0
        end = len(line_of)
        if end:
            self._a_line = max(1.0, 0.5 * self._a_line + 0.5 * end / count)
        if end > first + limit:
            end = first + limit
            used = int(line_of[end])
            within = end - int(np.searchsorted(line_of, used))
        rejected = [reject for reject in parsed.rejected if reject[0] < used]
        if self._strict and rejected:
            used, within = rejected[0][0], 0
            end = int(np.searchsorted(line_of, used))
            if end <= first:
                reject = self._reject(*rejected[0])
                raise InputError(f"line {reject.line}: {reject.reason}: {reject.text!r}")
            rejected = []
        rejects = tuple(self._reject(*reject) for reject in rejected)
        name = parsed.names[used - 1] if used else self._name
        self._consume(used, name, within)
        return replace(parsed.batch[first:end], rejects=rejects)

    def _take_hopeless(self) -> Batch:
        """Lines at the front that are no sample, whatever the space."""
        rejects = []
        for line in self._lines:
            if not line.strip():
                rejects.append(None)
            elif lines.could_be_sample(line, self._longest):
                break
            else:
                problem = lines.decode([line], self._longest)[0]
                reason = problem if isinstance(problem, str) else "wrong type: not a step, nor an episode"
                rejects.append((len(rejects), reason))
        found = tuple(self._reject(*reject) for reject in rejects if reject is not None)
        if self._strict and found:
            raise InputError(f"line {found[0].line}: {found[0].reason}: {found[0].text!r}")
        self._consume(len(rejects), self._name, 0)
        return replace(_nothing(None), rejects=found)

    def _reject(self, line: int, reason: str) -> Reject:
        text = self._lines[line][: 4 * lines.SHOWN].decode(errors="replace")[: lines.SHOWN]
        return Reject(self._line + line + 1, reason, text)

    def _consume(self, used: int, name: Name, within: int) -> None:
        self._unread -= sum(self._sizes[:used])
        del self._lines[:used], self._sizes[:used]
        self._line, self._name, self._within = self._line + used, name, within

    def _skip_taken(self) -> None:
        """Leave out lines of a producer that begins again."""
        known = min(self._skip, len(self._lines))
        self._unread -= sum(self._sizes[:known])
        del self._lines[:known], self._sizes[:known]
        self._skip -= known

    def _read(self) -> bool:
        """Read a block and cut it into lines; False if there was nothing."""
        block = self._source.read()
        if block:
            self._unread += len(block)
            self._cut(block)
            return True
        if not self._source.ended:
            return False
        if self._partial_size:  # the last line of a file that will not grow is whole
            self._add_line(self._partial, self._partial_size)
            self._partial, self._partial_size = b"", 0
            return True
        return not self._lines and self._source.next_file()

    def _cut(self, block: bytes) -> None:
        parts = block.split(b"\n")
        head = parts[0]
        size = self._partial_size + len(head)
        # Of a line that is too long no more is kept than tells that it is.
        head = self._partial + head[: max(self._longest + 1 - len(self._partial), 0)]
        if len(parts) == 1:
            self._partial, self._partial_size = head, size
            return
        self._add_line(head, size + 1)
        whole, rest = parts[1:-1], parts[-1]
        self._lines += whole
        self._sizes += [len(line) + 1 for line in whole]
        self._partial, self._partial_size = rest[: self._longest + 1], len(rest)

    def _add_line(self, line: bytes, size: int) -> None:
        self._lines.append(line)
        self._sizes.append(size)

    def position(self) -> dict[str, Any]:
        """Lines taken, samples taken of the next one, and where that one begins."""
        own = {"line": self._line, "within": self._within, "episode": self._name}
        return {**own, **self._source.position(self._unread)}

    def unread(self) -> np.ndarray:
        """Lines of a pipe that were read and not taken."""
        if self._source.keeps:
            return np.zeros(0, np.uint8)
        whole = b"".join(line + b"\n" for line in self._lines)
        return np.frombuffer(whole + self._partial, np.uint8)

    def go_to(self, position: dict[str, Any], unread: np.ndarray) -> None:
        """Go on from there."""
        self._line, self._within, name = position["line"], position["within"], position["episode"]
        if min(self._line, self._within) < 0 or not (name is None or isinstance(name, int | str)):
            raise ValueError(f"the position is {position}")
        self._name = name
        self.notes += self._source.go_to(position)
        if self._replayed and not self._source.keeps:
            self._skip = self._line
        elif len(unread):
            self._unread = len(unread)
            self._cut(unread.tobytes())

    def wait(self, seconds: float) -> None:
        """Until there may be more."""
        self._source.wait(seconds)

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()


def line_source(path: str, **settings: Any) -> LineSource:
    """`-`, a named pipe or a file, read to its end (`follow=False`) or followed as it grows."""
    from skillstream.streaming.following import GrowingFile

    follow, at_end = settings.pop("follow", True), settings.pop("at_end", False)
    if path == "-":
        return LineSource(Pipe(), **settings)
    if not Path(path).exists():
        raise FileNotFoundError(f"source: there is no file {path}; what grows must have begun")
    if stat.S_ISFIFO(os.stat(path).st_mode):
        # Without waiting for a writer: until one comes there is nothing to read.
        return LineSource(Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK)), **settings)
    return LineSource(GrowingFile(Path(path), follow, at_end), **settings)


def _nothing(space: Space | None) -> Batch:
    seen, done = (np.zeros(0, np.int64),) * 2 if space is None else space.empty(0)
    return Batch(seen, done, np.zeros(0, bool), np.zeros(0, bool))
