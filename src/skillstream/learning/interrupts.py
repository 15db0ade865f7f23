"""Ctrl-C at a moment when a state is whole."""

import signal
import threading
from types import TracebackType
from typing import Any


class Uninterrupted:
    """A block that Ctrl-C ends after, not within: a compiled call takes its input's memory over.

    Only the main thread gets Ctrl-C, so elsewhere there is nothing to hold back.
    """

    def __enter__(self) -> "Uninterrupted":
        self._seen: tuple[Any, ...] | None = None
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._main:
            return
        signal.signal(signal.SIGINT, self._before)
        if self._seen is not None and callable(self._before):
            self._before(*self._seen)

    def _remember(self, *arguments: Any) -> None:
        self._seen = arguments
