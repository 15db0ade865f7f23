"""How a stream is, told from what its writer says and from whether there still is a writer."""

import os
import socket
from dataclasses import dataclass
from typing import Any

from skillstream.streaming.watch_values import count, number, words

SILENT_AFTER = 30.0  # seconds without a word from a writer that says it runs; it speaks about once a second
GONE_AFTER = 3.0  # its process may end just before its last word is read

_SAID = {
    "running": ("good", "running", ""),
    "waiting": ("wait", "waiting", "The source has nothing to give just now."),
    "finished": ("done", "finished", "The source has ended, and all of it has been learnt from."),
    "interrupted": ("done", "interrupted", "It was stopped by hand; the same command goes on where it was."),
    "stopped": ("done", "stopped", "It was told to stop (SIGTERM); the same command goes on where it was."),
    "failed": ("bad", "failed", "An error ended it."),
}
_AGAIN = "The same command started again goes on from the last checkpoint."


@dataclass(frozen=True)
class Health:
    """A word for the state, its kind (`good`, `wait`, `done`, `bad`, `none`), and a sentence to say more."""

    kind: str
    word: str
    said: str


def no_status(there: bool, damaged: bool) -> Health:
    """How a stream is that has not said anything that can be read."""
    if not there:
        return Health("bad", "gone", "The directory is not there any more. This page goes on looking for it.")
    if damaged:
        return Health("bad", "unreadable", "The file status.json is damaged. What follows may be old.")
    return Health(
        "none", "nothing yet", "No stream has written here so far. The page fills as soon as one does."
    )


def judge(
    status: dict[str, Any], lock: dict[str, Any] | None, now: float, written: float = 0.0, error: Any = None
) -> Health:
    """How a stream is that last said `status`.

    Parameters
    ----------
    status
        The last word of the writer.
    lock
        What the lock file says of it: its process and machine.
    now
        The time, in Unix seconds.
    written
        When the writer last added to its metrics, which it may do more often than it tells its status.
    error
        What the run's record gives as the end's reason.
    """
    state = status.get("state")
    if not isinstance(state, str) or state not in _SAID:
        return Health(
            "bad", "unclear", f"The writer gives a state that is not known here: {words(state, 60)}."
        )
    kind, word, said = _SAID[state]
    if state == "failed" and error:
        said += f" It says: {words(error, 400)}"
    if kind not in ("good", "wait"):
        return Health(kind, word, said)
    age = now - max(number(status.get("updated")) or 0.0, written)
    process, here = count(status.get("pid")), _is_here(lock)
    if process and here and age > GONE_AFTER and not _is_alive(process):
        ended = f"Process {process} ended without a word: it was killed, or the machine was. {_AGAIN}"
        return Health("bad", "dead", ended)
    # A writer that waits may sleep, as long as it is known to be there.
    if age > SILENT_AFTER and not (state == "waiting" and process and here):
        return Health("bad", "silent", _silence(process, here, lock))
    return Health(kind, word, said)


def _silence(process: int | None, here: bool, lock: dict[str, Any] | None) -> str:
    if not process:
        return "It said that it runs, but writes nothing any more."
    if here:
        return f"Process {process} is there but writes nothing: it may be suspended, or busy."
    where = words((lock or {}).get("host"), 80)
    return f"Process {process} on {where} writes nothing any more; whether it lives cannot be seen from here."


def _is_here(lock: dict[str, Any] | None) -> bool:
    """Whether the writer runs on this machine, as far as its lock tells."""
    host = (lock or {}).get("host")
    return host is None or host == socket.gethostname()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's, but there
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
