"""The state directory of a stream as the page shows it: every value checked, in memory that does not grow."""

import re
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from skillstream.streaming import watch_health
from skillstream.streaming.watch_files import Lines, read_record
from skillstream.streaming.watch_history import History, Point
from skillstream.streaming.watch_values import count, number, shares, words

POINTS, LATEST_POINTS = 2000, 600
_EVENTS, _REJECTS, _REASONS, _MOST_RECENT = 200, 20, 50, 400
_OTHER = "other reasons"
_NUMBERS = {  # of every line of the metrics; what an event has beside these is its own
    "event",
    "step",
    "seconds",
    "log_likelihood",
    "recent_log_likelihood",
    "rate",
    "certificate",
    "impossible",
    "rejected",
    "memory",
    "usage",
}
_MEASURED = {  # by name, the least it may be
    "began": 0.0,
    "updated": 0.0,
    "rate": 0.0,
    "log_likelihood": None,
    "recent_log_likelihood": None,
    "certificate": 0.0,
}
_COUNTED = (
    "pid",
    "samples",
    "episodes",
    "window",
    "impossible",
    "rejected",
    "memory",
    "option",
    "drifts",
    "last_drift",
    "checkpoint",
)


class Watched:
    """What is known of a stream; `refresh` reads what is new, `view` tells it. Threads may share it."""

    def __init__(self, directory: Path):
        self._directory, self._guard = directory, threading.Lock()
        self._metrics = Lines(directory / "metrics.jsonl")
        self._rejects = Lines(directory / "rejects.jsonl")
        self._whole, self._latest = History(POINTS, True), History(LATEST_POINTS, False)
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._rejected: deque[dict[str, Any]] = deque(maxlen=_REJECTS)
        self._reasons: Counter[str] = Counter()
        self._status: dict[str, Any] | None = None
        self._damaged, self._health = False, watch_health.no_status(True, False)
        self._checkpoint_time: float | None = None

    def refresh(self) -> bool:
        """Read what is new, a piece of it where that is much; True if there is more."""
        with self._guard:
            self._read_status()
            for line in self._metrics.read():
                self._add(line)
            before = self._rejects.anew
            lines = self._rejects.read()
            if self._rejects.anew != before:
                self._rejected.clear()
                self._reasons.clear()
            for line in lines:
                self._reject(line)
            return self._metrics.behind or self._rejects.behind

    def view(self, whole: tuple[str, int] = ("", 0), latest: tuple[str, int] = ("", 0)) -> dict[str, Any]:
        """All that the page shows; `whole` and `latest` say which points it has: their epoch and number."""
        with self._guard:
            return {
                "directory": words(str(self._directory), 400),
                "name": words(self._directory.name),
                "now": time.time(),
                "health": {
                    "kind": self._health.kind,
                    "word": self._health.word,
                    "said": self._health.said,
                },
                "status": self._status,
                "checkpointed": self._checkpoint_time,
                "reading": self._metrics.share_read if self._metrics.behind else None,
                "damaged": {
                    "status.json": int(self._damaged),
                    "metrics.jsonl": self._metrics.damaged,
                    "rejects.jsonl": self._rejects.damaged,
                },
                "rejects": {"reasons": self._reasons.most_common(), "latest": list(self._rejected)},
                "events": list(self._events),
                "whole": self._whole.since(*whole),
                "latest": self._latest.since(*latest),
            }

    def _read_status(self) -> None:
        status, there = read_record(self._directory / "status.json")
        self._damaged = there and status is None
        if status is None and not there:
            self._status = self._checkpoint_time = None
        if status is None:
            self._health = watch_health.no_status(self._directory.is_dir(), self._damaged)
            return
        self._status = _checked(status)
        lock, _ = read_record(self._directory / "lock")
        error = self._error() if status.get("state") == "failed" else None
        self._health = watch_health.judge(
            status, lock, time.time(), self._time_of("metrics.jsonl") or 0.0, error
        )
        checkpoint = count(status.get("checkpoint"))
        name = None if checkpoint is None else f"checkpoints/checkpoint-{checkpoint:015}.safetensors"
        self._checkpoint_time = None if name is None else self._time_of(name)

    def _error(self) -> Any:
        record, _ = read_record(self._directory / "run.json")
        results = (record or {}).get("results")
        return results.get("error") if isinstance(results, dict) else None

    def _time_of(self, name: str) -> float | None:
        """When a file was last written to."""
        try:
            return (self._directory / name).stat().st_mtime
        except OSError:
            return None

    def _add(self, line: dict[str, Any]) -> None:
        """A line of the metrics: numbers, or an event."""
        point = Point.of(line)
        if point is None:
            return
        if any(part is not None for part in point[2:]):
            self._whole.add(point)
            self._latest.add(point)
        if "event" not in line:
            return
        while self._events and self._events[-1]["step"] > point.step:
            self._events.pop()
        beside = [f"{words(name, 40)} {_told(line[name])}" for name in line if name not in _NUMBERS][:8]
        event = {"event": words(line["event"], 60), "step": point.step, "details": ", ".join(beside)}
        self._events.append(event)

    def _reject(self, line: dict[str, Any]) -> None:
        reason = words(line.get("reason"))
        kind = re.sub(
            r"-?\d[\d.,eE+-]*", "…", reason
        )  # "action 17 is ..." is the reason of "action 18 is ..."
        if kind not in self._reasons and len(self._reasons) >= _REASONS:
            kind = _OTHER
        self._reasons[kind] += 1
        shown = {"line": count(line.get("line")), "reason": reason, "text": words(line.get("text"))}
        self._rejected.append(shown)


def _checked(status: dict[str, Any]) -> dict[str, Any]:
    """The writer's last word with every value of the type it should have, or None."""
    known: dict[str, Any] = {name: number(status.get(name), *_least(low)) for name, low in _MEASURED.items()}
    known |= {name: count(status.get(name)) for name in _COUNTED}
    known |= {name: shares(status.get(name)) for name in ("option_probabilities", "usage")}
    known["source"] = words(status["source"], 400) if "source" in status else None
    known["position"] = words(status["position"], 300) if status.get("position") is not None else None
    known["recent"] = _recent(status.get("recent"))
    return known


def _told(value: Any) -> str:
    """A field of an event, with no more digits than are read."""
    return f"{value:.4g}" if isinstance(value, float) else words(value, 60)


def _least(low: float | None) -> tuple[float, ...]:
    return () if low is None else (low,)


def _recent(found: Any) -> dict[str, Any] | None:
    """The smoothed probabilities of the last samples, if they are all there."""
    if not isinstance(found, dict) or not isinstance(found.get("options"), list):
        return None
    given, starts, first = found["options"], found.get("starts"), count(found.get("first"))
    rows = [shares(row) for row in given[-_MOST_RECENT:]]
    if None in rows or len({len(row) for row in rows if row}) != 1:
        return None
    if not isinstance(starts, list) or len(starts) != len(given):
        starts = [False] * len(given)
    begun = [start is True for start in starts[-len(rows) :]]
    return {"options": rows, "starts": begun, "first": (first or 0) + len(given) - len(rows)}
