"""The metrics of a stream of any length, in points of a number that does not grow.

A point stands for one line of the metrics or for several that were put together. When there are too many
points, a history of everything puts neighbours together by twos; one of the latest drops its older half.
"""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from skillstream.streaming.watch_values import count, number, shares


class Point(NamedTuple):
    """What was measured by a number of samples: means over its lines, or what the name says."""

    step: int  # of its last line
    lines: int
    overall: float | None  # log-likelihood, of the last line
    recent: float | None  # log-likelihood
    lowest: float | None  # of `recent`
    highest: float | None
    rate: float | None
    certificate: float | None  # the largest
    memory: float | None  # the largest
    usage: list[float] | None

    @staticmethod
    def of(line: Mapping[str, Any]) -> "Point | None":
        """The point of one line of the metrics, or None if the line does not say where it stands."""
        step = count(line.get("step"))
        if step is None:
            return None
        recent = number(line.get("recent_log_likelihood"))
        return Point(
            step,
            1,
            number(line.get("log_likelihood")),
            recent,
            recent,
            recent,
            number(line.get("rate"), 0),
            number(line.get("certificate"), 0),
            number(line.get("memory"), 0),
            shares(line.get("usage")),
        )

    def then(self, later: "Point") -> "Point":
        """This point and the next as one."""
        weights = self.lines, later.lines
        usage = later.usage or self.usage
        if self.usage and later.usage and len(self.usage) == len(later.usage):
            part = later.lines / sum(weights)
            usage = [one + part * (other - one) for one, other in zip(self.usage, later.usage, strict=True)]
        return Point(
            later.step,
            sum(weights),
            self.overall if later.overall is None else later.overall,
            _mean(self.recent, later.recent, weights),
            _chosen(min, self.lowest, later.lowest),
            _chosen(max, self.highest, later.highest),
            _mean(self.rate, later.rate, weights),
            _chosen(max, self.certificate, later.certificate),
            _chosen(max, self.memory, later.memory),
            usage,
        )


class History:
    """At most `limit` points, of all lines (`whole`) or of the latest."""

    def __init__(self, limit: int, whole: bool):
        self._limit, self._whole = limit, whole
        self._points: list[Point] = []
        self._stride = 1  # lines to a point
        # No other server of the same directory has this name: a page may have points of an earlier one.
        self._name, self._changes = secrets.token_hex(4), 0

    def add(self, point: Point) -> None:
        """Append a point. If it lies before the last, the stream went back: what lay after it is dropped."""
        while self._points and self._points[-1].step > point.step:
            self._points.pop()
            self._changes += 1
        if self._points and self._points[-1].lines < self._stride:
            self._points[-1] = self._points[-1].then(point)
            return
        self._points.append(point)
        if len(self._points) > self._limit:
            self._shorten()

    def since(self, epoch: str, known: int) -> dict[str, Any]:
        """The points for a page that had `known` of them in an epoch; the last of them may have grown.

        In another epoch the earlier points have changed, and the page gets them all.
        """
        now = f"{self._name}-{self._changes}"
        first = max(min(known, len(self._points)) - 1, 0) if epoch == now else 0
        return {"epoch": now, "first": first, "points": self._points[first:]}

    def _shorten(self) -> None:
        if self._whole:
            points, odd = self._points, len(self._points) % 2
            pairs = zip(points[0 : len(points) - odd : 2], points[1::2], strict=True)
            self._points = [one.then(other) for one, other in pairs] + points[len(points) - odd :]
            self._stride *= 2
        else:
            self._points = self._points[self._limit // 2 :]
        self._changes += 1


def _mean(one: float | None, other: float | None, weights: tuple[int, int]) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return (one * weights[0] + other * weights[1]) / sum(weights)


def _chosen(choose: Any, one: float | None, other: float | None) -> float | None:
    return choose((part for part in (one, other) if part is not None), default=None)
