"""Streams for tests: lines, sources that give what they are told, services on small state directories."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import skillstream as ss
from skillstream.streaming.following import GrowingFile
from skillstream.streaming.service import Pace, Service
from skillstream.streaming.sources import LineSource
from skillstream.streaming.spaces import Space
from skillstream.streaming.state import StateDirectory

STATES, ACTIONS = 5, 3
SPACE = Space(None, STATES, "one", (ACTIONS,))
CONFIG = ss.OnlineConfig(min_samples=50, pseudo_count=0.01)


@contextmanager
def files_closed() -> Iterator[None]:
    """Close the files of sources that a test abandons."""
    opened, init = [], GrowingFile.__init__

    def remembered(self, *arguments, **settings):
        init(self, *arguments, **settings)
        opened.append(self)

    GrowingFile.__init__ = remembered
    try:
        yield
    finally:
        GrowingFile.__init__ = init
        for file in opened:
            file.close()


def steps(count, first=0, episode=40, seed=0):
    """Lines of steps, numbered from `first`."""
    rng = np.random.default_rng(seed)
    seen, done = rng.integers(0, STATES, first + count), rng.integers(0, ACTIONS, first + count)
    return [
        json.dumps({"episode": i // episode, "observation": int(seen[i]), "action": int(done[i])}).encode()
        for i in range(first, first + count)
    ]


def text(lines):
    return b"".join(line + b"\n" for line in lines)


class Told:
    """Bytes in blocks as they are given, then the end."""

    keeps = True

    def __init__(self, *blocks):
        self.blocks, self.given, self.ended = list(blocks), 0, False

    def read(self):
        if not self.blocks:
            self.ended = True
            return b""
        self.given += len(self.blocks[0])
        return self.blocks.pop(0)

    def next_file(self):
        return False

    def position(self, unread):
        return {"offset": self.given - unread}

    def go_to(self, position):
        skipped = b"".join(self.blocks)[position["offset"] :]
        self.blocks, self.given = [skipped] if skipped else [], position["offset"]
        return []

    def wait(self, seconds):
        pass

    def close(self):
        pass


def taken(source, limit=1000):
    """All samples and rejects there are now."""
    batches = []
    while (batch := source.take(limit)) is not None and (len(batch) or batch.rejects):
        batches.append(batch)
    seen = [int(state) for batch in batches for state in batch.observations]
    return seen, [reject for batch in batches for reject in batch.rejects]


def start(demos):
    return ss.OnlineLearner(ss.OptionPolicy.tabular(2, STATES, ACTIONS, seed=1), CONFIG)


def service(folder, path, source=None, make=start, keep=3, say=lambda note: None, **pace):
    """A service that reads a file once into `folder`."""
    given = source or LineSource(GrowingFile(path, follow=False), enough=20)
    state = StateDirectory(folder, {"source": str(path)}, keep)
    try:
        return Service(state, given, str(path), make, Pace(**pace), say=say)
    except BaseException:
        state.release()
        raise


def abandon(served):
    """What the kernel does to a process that is killed: nothing is written, the lock is free."""
    os.close(served.state._lock._descriptor)


def bits(learner):
    """All of a learner, to compare to the last bit."""
    arrays, header = learner.pack()
    return {name: array.tobytes() for name, array in arrays.items()}, header
