"""The loop: samples from a source into a learner, checkpoints, metrics and status as time goes by."""

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import FileFormatError, ImpossibleSampleWarning, InputError
from skillstream.learning.online import OnlineLearner
from skillstream.streaming.drift import BLOCK
from skillstream.streaming.lines import Batch
from skillstream.streaming.progress import Event, Progress, Reaction
from skillstream.streaming.sources import Source
from skillstream.streaming.spaces import Space
from skillstream.streaming.state import StateDirectory
from skillstream.streaming.status import Watch, resident_memory

_UNREAD = "unread"
_MOST = 16_384  # samples taken at once
_TAKE_SECONDS = 0.2  # and no more than are learnt in about this time
_STATUS_SECONDS, _STATUS_SHARE = 1.0, 0.05  # between two, and of all time
_MOST_STATUS_SECONDS = 5.0  # between two, whatever they cost
_METRIC_SECONDS = 60.0
_WAIT = 0.2
_PATIENCE = 10.0
_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped"}


@dataclass(frozen=True)
class Pace:
    """When to write what, and when to stop."""

    checkpoint_every: int = 1_000_000
    checkpoint_seconds: float = 30.0
    on_drift: Reaction = "ignore"
    samples: int | None = None


class Service:
    """Learns from a source until it ends, or until it is told to stop.

    Parameters
    ----------
    state
        Where everything is kept; what is there already is gone on with.
    source
        Where the samples come from.
    name
        What the source is called; a state belongs to one source.
    make_learner
        Makes a learner from the first samples; or a learner, where they have nothing to tell.
    pace
        When to write and when to stop.
    show
        Called with a status now and then.
    say
        Called with what a user should know.
    """

    def __init__(
        self,
        state: StateDirectory,
        source: Source,
        name: str,
        make_learner: Callable[[Demonstrations], OnlineLearner] | OnlineLearner,
        pace: Pace | None = None,
        show: Callable[[dict[str, Any]], None] = lambda status: None,
        say: Callable[[str], None] = lambda note: None,
    ):
        self.state, self.source, self._name, self._make_learner = state, source, name, make_learner
        ready = make_learner if isinstance(make_learner, OnlineLearner) else None
        self.pace, self._show, self._say = pace or Pace(), show, say
        self._watch = Watch(name)
        self._ending: str | None = None
        self._whole = True  # whether learner and position agree
        self._checkpoint: int | None = None
        self._saved = (-1, -1)  # samples and rejects of the last checkpoint
        self._limit = 64
        self._status_cost = 0.0
        self._told_to_wait = False
        now = time.monotonic()
        self._last_saved = self._last_metric = now
        self._next_status = now
        self.progress = self.state.newest(self._restore) or Progress(ready, self.pace.on_drift)
        self._logged = self.progress.samples  # at the last line of the metrics
        self._set_space()
        if self._checkpoint is not None:
            self._attempt(self._write_policy)
            self._say(f"going on after {self.progress.samples} samples, from {self.state.path}")
        else:  # from now on the source's first file is known, should it be rotated before the first sample
            self._attempt(self.save)

    def run(self) -> str:
        """Until the end; how it ended: finished, interrupted (Ctrl-C) or stopped (SIGTERM)."""
        ending, reason = "failed", None
        try:
            with self._signals(), self._warnings():
                while self._ending is None:
                    self.step()
                ending = self._ending
        except KeyboardInterrupt:
            ending = "interrupted"
        except Exception as error:
            reason = str(error)
            raise
        finally:
            self._end(ending, reason)
        return ending

    def step(self) -> None:
        """Take what there is, learn from it, write what is due."""
        batch = self._take()
        if batch is None:
            self._ending = self._ending or "finished"
            return
        if len(batch) or batch.rejects:
            self._learn(batch)
        self._tell()
        self._write_what_is_due("running" if len(batch) else "waiting")
        if not len(batch) and not batch.rejects and self._ending is None:
            self.source.wait(_WAIT)

    def stop(self, ending: str = "stopped") -> None:
        """End after the batch that is being learnt."""
        self._ending = ending

    def save(self) -> None:
        """A checkpoint, and the policy beside it."""
        arrays, header = self.progress.pack()
        unread = self.source.unread()
        header |= {"position": self.source.position(), "source": self._name, "pace": asdict(self.pace)}
        self._last_saved = time.monotonic()
        self.state.save(self.progress.samples, arrays | ({_UNREAD: unread} if len(unread) else {}), header)
        self._checkpoint = self.progress.samples
        self._saved = (self.progress.samples, self.progress.rejected)
        self._write_policy()

    def _restore(self, where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Progress:
        if header["source"] != self._name:
            raise InputError(
                f"--state: {self.state.path} has learnt from {header['source']}, not from {self._name}; give "
                "another --state (and --start, to go on from its policy)"
            )
        unread = arrays.pop(_UNREAD, np.zeros(0, np.uint8))
        if unread.dtype != np.uint8 or unread.ndim != 1:
            raise FileFormatError(f"{where}: damaged: what was not read is {unread.dtype}")
        progress = Progress.unpack(where, arrays, header, self.pace.on_drift)
        self.source.go_to(header["position"], unread)
        self._checkpoint = progress.samples
        self._saved = (progress.samples, progress.rejected)
        return progress

    def _set_space(self) -> None:
        if self.progress.learner is not None:
            self.source.space = Space.of(self.progress.learner.policy)

    def _take(self) -> Batch | None:
        limit = self._limit
        if self.pace.samples is not None:
            limit = min(limit, self.pace.samples - self.progress.samples)
            if limit <= 0:
                return None
        if self.progress.learner is None and not isinstance(self._make_learner, OnlineLearner):
            demos = self.source.first()
            if demos is not None:
                self.progress.learner = self._make_learner(demos)
                self._set_space()
            elif not self._told_to_wait and time.monotonic() - self._last_saved > _PATIENCE:
                self._told_to_wait = True
                self._say(
                    "waiting for enough lines to tell how many states and actions there are; --states and "
                    "--actions say it at once, --first-lines how many are enough"
                )
        return self.source.take(limit)

    def _learn(self, batch: Batch) -> None:
        began, self._whole = time.perf_counter(), False
        self._attempt(lambda: self.state.reject(batch.rejects))
        for event in self.progress.learn(batch):
            if event is not None:
                self._log(event)
                self._say(f"the expert seems to have changed, at sample {self.progress.samples}")
            elif self.progress.samples % _mark(self.progress.samples) == 0:
                self._log({})
        self._watch.add(batch, self.progress.samples)
        self._whole = True
        if len(batch) >= self._limit or len(batch) >= 64:
            seconds = max(time.perf_counter() - began, 1e-6)
            within = int(len(batch) * _TAKE_SECONDS / seconds)
            self._limit = max(16, min(_MOST, 2 * self._limit, within))

    def _write_what_is_due(self, state: str) -> None:
        now, progress = time.monotonic(), self.progress
        new = (progress.samples, progress.rejected) != self._saved
        every = self.pace.checkpoint_every
        many = (
            progress.samples // every > self._saved[0] // every
            if self._saved[0] >= 0
            else progress.samples >= every
        )
        if new and (many or now - self._last_saved >= self.pace.checkpoint_seconds):
            self._attempt(self.save)
        if now - self._last_metric >= _METRIC_SECONDS and progress.samples != self._logged:
            self._log({})
        if now >= self._next_status:
            self._write_status(state)

    def _write_status(self, state: str) -> None:
        began = time.monotonic()
        status = self._watch.status(state, self.progress, self.source.position(), self._checkpoint)
        self._attempt(lambda: self.state.write_status(status))
        self._show(status)
        now = time.monotonic()
        # The lesser of two: one of them may have had something to compile.
        cost, self._status_cost = min(now - began, self._status_cost), now - began
        self._next_status = now + min(max(_STATUS_SECONDS, cost / _STATUS_SHARE), _MOST_STATUS_SECONDS)

    def _write_policy(self) -> None:
        if self.progress.learner is not None:
            self.progress.learner.policy.save(self.state.run.policy)

    def _log(self, event: Event) -> None:
        progress = self.progress
        self._last_metric, self._logged = time.monotonic(), progress.samples
        numbers = {
            "log_likelihood": progress.log_likelihood / max(progress.samples, 1),
            "recent_log_likelihood": progress.recent_log_likelihood,
            "rate": round(self._watch.rate(progress.samples), 1),
            "certificate": progress.certificate,
            "impossible": progress.impossible,
            "rejected": progress.rejected,
            "memory": resident_memory(),
            "usage": self._watch.usage(),
            **event,
        }
        self._attempt(lambda: self.state.run.log(progress.samples, **numbers))

    def _attempt(self, write: Callable[[], None]) -> None:
        """Write; a disk that is full or gone does not end the stream, what is not written is said."""
        try:
            write()
        except OSError as error:
            self._say(f"{error}; learning goes on")

    def _tell(self) -> None:
        for notes in (self.state.notes, self.source.notes):
            for note in notes:
                self._say(note)
            notes.clear()

    def _end(self, ending: str, reason: str | None = None) -> None:
        """The last checkpoint, if learner and position agree, and the last words."""
        self._tell()
        progress = self.progress
        try:
            new = (progress.samples, progress.rejected) != self._saved
            if self._whole and (new or len(self.source.unread())):
                if progress.samples != self._logged:
                    self._log({})
                self.save()
            self._write_status(ending)
            self.state.run.finish(
                ending,
                samples=progress.samples,
                predictive_log_likelihood=progress.log_likelihood / max(progress.samples, 1),
                certificate=progress.certificate,
                impossible=progress.impossible,
                rejected=progress.rejected,
                drifts=progress.drifts,
                **({} if reason is None else {"error": reason}),
            )
        finally:
            self.source.close()
            self.state.release()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the loop; a second Ctrl-C ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(number: int, frame: Any) -> None:
            self.stop(_SIGNALS[signal.Signals(number)])
            signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)

        before = {number: signal.signal(number, end) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    @contextmanager
    def _warnings(self) -> Iterator[None]:
        """Samples of probability zero are counted, not told one by one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImpossibleSampleWarning)
            yield


def _mark(samples: int) -> int:
    """Samples between two lines of the metrics: two digits of their number, in whole blocks."""
    return max(BLOCK, 10 ** len(str(samples)) // 100 // BLOCK * BLOCK)
