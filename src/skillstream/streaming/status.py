"""What a stream tells of itself while it runs: numbers, and the options of the last samples."""

import math
import os
import resource
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import SkillstreamError
from skillstream.policies.posteriors import smooth
from skillstream.streaming.lines import Batch
from skillstream.streaming.progress import Progress

RECENT = 400  # samples whose options are shown
_RATE_SECONDS = 10.0


class Watch:
    """Keeps what a status needs beside the progress: the last samples, and when how many there were."""

    def __init__(self, source: str):
        self._source, self._began = source, time.time()
        self._seen: deque[tuple[float, int]] = deque()
        self._last: Batch | None = None
        self._first = 0
        self._options: np.ndarray | None = None

    def add(self, batch: Batch, samples: int) -> None:
        """A batch that was learnt; `samples` is the number there are now."""
        if not len(batch):
            return
        if self._last is not None and len(batch) < RECENT:
            batch = self._last.then(batch)
        self._last = batch[-RECENT:]
        self._first = samples - len(self._last)

    def rate(self, samples: int) -> float:
        """Samples a second, recently."""
        now = time.monotonic()
        self._seen.append((now, samples))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        (began, before), seconds = self._seen[0], now - self._seen[0][0]
        return (samples - before) / seconds if seconds > 0 and began < now else 0.0

    def status(self, state: str, progress: Progress, position: dict[str, Any], checkpoint: int | None) -> Any:
        """All of it, for JSON."""
        learner, samples = progress.learner, progress.samples
        options = None if learner is None else learner.option_probabilities
        return finite(
            {
                "state": state,
                "pid": os.getpid(),
                "updated": time.time(),
                "began": self._began,
                "source": self._source,
                "position": position,
                "samples": samples,
                "episodes": progress.episodes,
                "rate": self.rate(samples),
                "log_likelihood": progress.log_likelihood / samples if samples else None,
                "recent_log_likelihood": progress.recent_log_likelihood,
                "certificate": progress.certificate,
                "window": 0 if learner is None else learner.window,
                "impossible": progress.impossible,
                "rejected": progress.rejected,
                "memory": resident_memory(),
                "option": None if options is None else int(np.argmax(options)),
                "option_probabilities": None if options is None else options.tolist(),
                "usage": self.usage(),
                "drifts": progress.drifts,
                "last_drift": progress.last_drift,
                "checkpoint": checkpoint,
                "recent": self._recent(progress),
            }
        )

    def usage(self) -> list[float] | None:
        """Each option's share of the last samples, as last looked at."""
        return None if self._options is None else self._options.mean(0).round(6).tolist()

    def _recent(self, progress: Progress) -> dict[str, Any] | None:
        if self._last is None or progress.learner is None:
            return None
        starts = np.flatnonzero(np.concatenate([[True], self._last.starts[1:], [True]]))
        last = self._last
        try:
            demos = Demonstrations(
                last.observations, last.actions, np.diff(starts), action_mask=last.recorded
            )
            self._options = smooth(progress.learner.policy, demos).options
        except SkillstreamError:  # impossible under what has been learnt since
            return None
        return {
            "options": self._options.round(4).tolist(),
            "starts": last.starts.tolist(),
            "first": self._first,
        }


def resident_memory() -> int:
    """Bytes of this process in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the most there ever were
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def finite(value: Any) -> Any:
    """The same with None for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
