"""What a stream has learnt: all of it that must be the same after a restart.

Nothing here looks at a clock. Samples may come in batches of any size; the drift test and what follows from
it happen at sample numbers that are multiples of its block.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from skillstream.errors import FileFormatError
from skillstream.learning.online import OnlineLearner
from skillstream.streaming.drift import BLOCK, Drift
from skillstream.streaming.lines import Batch
from skillstream.streaming.state import checkpoints, load_checkpoint

Reaction = Literal["ignore", "forget", "restart"]
Event = dict[str, Any]

_RECENT = 4  # blocks that the recent likelihood is of
_FORGET_TO = 1000  # samples that the past counts as, once it is forgotten
_LEARNER = "learner."


class Progress:
    """A learner and the counts around it, over all its restarts.

    Attributes
    ----------
    samples, episodes, rejected
        How many there were.
    """

    def __init__(self, learner: OnlineLearner | None, reaction: Reaction = "ignore"):
        self.learner, self.reaction = learner, reaction
        self.samples = self.episodes = self.rejected = self.drifts = 0
        self.last_drift: int | None = None
        self.drift = Drift()
        self.recent: list[float] = []  # mean log-likelihoods of the last blocks
        self._earlier = {"log_likelihood": 0.0, "impossible": 0, "certificate": 0.0}  # of learners given up
        self._block_began = 0.0  # log-likelihood before this block

    @property
    def log_likelihood(self) -> float:
        """The predictive log-likelihood of all samples."""
        return self._earlier["log_likelihood"] + (self.learner.log_likelihood if self.learner else 0.0)

    @property
    def impossible(self) -> int:
        """Samples that had probability zero when they came."""
        return self._earlier["impossible"] + (self.learner.num_impossible if self.learner else 0)

    @property
    def certificate(self) -> float:
        """The most that any settled posterior could still have changed by."""
        return max(self._earlier["certificate"], self.learner.certificate if self.learner else 0.0)

    @property
    def recent_log_likelihood(self) -> float | None:
        """A sample, over the last blocks; over all, before there was one."""
        if self.recent:
            return float(np.mean(self.recent))
        return self.log_likelihood / self.samples if self.samples else None

    def learn(self, batch: Batch) -> Iterator[Event | None]:
        """Learn from a batch; stops after every block and at the end, with what happened."""
        self.rejected += len(batch.rejects)
        done = 0
        while done < len(batch):
            assert self.learner is not None
            part = batch[done : done + BLOCK - self.samples % BLOCK]
            mask = None if part.recorded.all() else part.recorded
            self.learner.partial_fit(part.observations, part.actions, part.starts, mask)
            self.episodes += int(part.starts.sum()) + int(self.samples == 0 and not part.starts[0])
            self.samples += len(part)
            done += len(part)
            yield self._end_block() if self.samples % BLOCK == 0 else None

    def _end_block(self) -> Event | None:
        total = self.log_likelihood
        mean, self._block_began = (total - self._block_began) / BLOCK, total
        usual = self.drift.mean
        self.recent = [*self.recent, mean][-_RECENT:]
        if not self.drift.update(mean):
            return None
        self.drifts += 1
        self.last_drift = self.samples
        self._react()
        return {"event": "drift", "usual": usual, "block": mean, "reaction": self.reaction}

    def _react(self) -> None:
        assert self.learner is not None
        if self.reaction == "forget":
            self.learner.forget(_FORGET_TO)
        if self.reaction == "restart":
            self._earlier = {
                "log_likelihood": self.log_likelihood,
                "impossible": self.impossible,
                "certificate": self.certificate,
            }
            fresh = self.learner.policy.redrawn(seed=self.learner.config.seed + self.drifts)
            self.learner = OnlineLearner(fresh, self.learner.config)
            self._block_began = self.log_likelihood

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything, as arrays and JSON."""
        arrays, kind = self.learner.pack() if self.learner else ({}, None)
        names = ("samples", "episodes", "rejected", "drifts", "last_drift", "recent")
        counts = {name: getattr(self, name) for name in names}
        own = {"earlier": self._earlier, "block_began": self._block_began, "drift": self.drift.saved()}
        return {_LEARNER + name: x for name, x in arrays.items()}, {"counts": counts, "learner": kind, **own}

    @staticmethod
    def unpack(
        where: str, arrays: dict[str, np.ndarray], header: dict[str, Any], reaction: Reaction
    ) -> "Progress":
        """What `pack` gave, or a `FileFormatError` that begins with `where`."""
        named = {name.removeprefix(_LEARNER): x for name, x in arrays.items() if name.startswith(_LEARNER)}
        learner = None if header["learner"] is None else OnlineLearner.unpack(where, named, header["learner"])
        progress = Progress(learner, reaction)
        try:
            for name, value in header["counts"].items():
                _check(name, value)
                setattr(progress, name, value)
            progress._earlier, progress._block_began = header["earlier"], header["block_began"]
            progress.drift = Drift.restored(header["drift"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{where}: damaged: {error}") from error
        return progress


def _check(name: str, value: Any) -> None:
    """Raise a `ValueError` unless this is a count as `pack` gives it."""
    checks: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("samples", "episodes", "rejected", "drifts"), lambda x: type(x) is int and x >= 0),
        "last_drift": lambda x: x is None or type(x) is int,
        "recent": lambda x: isinstance(x, list) and len(x) <= _RECENT and all(type(y) is float for y in x),
    }
    if not checks[name](value):
        raise ValueError(f"{name} is {value!r}")


def load_learner(directory: str | os.PathLike[str]) -> OnlineLearner:
    """The learner of a state directory's newest whole checkpoint; a stream may be writing to it meanwhile."""
    for path in reversed(checkpoints(Path(directory))):
        with suppress(FileFormatError, FileNotFoundError):
            learner = Progress.unpack(str(path), *load_checkpoint(path), "ignore").learner
            if learner is not None:
                return learner
    raise FileNotFoundError(f"directory: {directory} holds no checkpoint of a learner")
