"""The command as real processes that start in a moment: forked from one that has imported everything.

JAX is imported before a fork, but none of its backends begun; what XLA compiles comes from a cache on disk
that is filled by the first runs, and only read by those that are killed.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layer import Layer, Plan

_POLL = 0.003
PATIENCE = 40_000  # looks, of 3 ms and more, until a process that should have ended is taken to hang


def prepare(cache: Path) -> None:
    """Import all that the command imports, with a cache for what is compiled."""
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
    }
    import skillstream.acting.evaluation
    import skillstream.cli
    import skillstream.commands.models
    import skillstream.environments.catalogue
    import skillstream.experts.catalogue
    import skillstream.streaming.columns
    import skillstream.streaming.following
    import skillstream.streaming.service
    import skillstream.streaming.sources

    skillstream.cli._prepare_jax()


def only_read_cache() -> None:
    """A process that is killed must not leave half an entry behind."""
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)


@dataclass
class Running:
    """A process of the command.

    Attributes
    ----------
    pid
        Its number.
    began
        When it was started.
    busy
        A pipe that holds a byte from when it first wrote to the folder of checkpoints.
    said
        Where its standard error goes.
    """

    pid: int
    began: float
    busy: int
    said: Path
    code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative if a signal ended it; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                os.close(self.busy)
        return self.code

    def has_saved(self) -> bool:
        """Whether it has begun to write a checkpoint."""
        import select

        return self.code is None and bool(select.select([self.busy], [], [], 0)[0])

    def end(self, number: signal.Signals) -> int:
        """Send a signal, wait for the end."""
        if self.poll() is None:
            os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Its exit code; one that hangs is killed, which counts as -9."""
        looks = 0  # not a clock, which goes on where all of this is suspended
        while self.poll() is None:
            if looks == PATIENCE:
                os.kill(self.pid, signal.SIGKILL)
            looks += 1
            time.sleep(_POLL)
        assert self.code is not None
        return self.code


def start(arguments: list[str], folder: Path, plan: Plan | None, most: int, cached: bool = True) -> Running:
    """`skillstream ARGUMENTS` in a folder, at most so many samples at once, its state behind a layer."""
    said, (busy, tell) = folder / "said.txt", os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        return Running(pid, time.monotonic(), busy, said)
    code = 1
    try:
        os.chdir(folder)
        _redirect(said)
        if cached:
            only_read_cache()
        code = _command(arguments, Path("state"), plan, most, lambda: os.write(tell, b"."))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(said: Path) -> None:
    nothing, out = (
        os.open(os.devnull, os.O_RDWR),
        os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
    )
    for descriptor, to in ((0, nothing), (1, nothing), (2, out)):
        os.dup2(to, descriptor)


def _command(arguments: list[str], state: Path, plan: Plan | None, most: int, tell: Callable[[], Any]) -> int:
    from skillstream import cli
    from skillstream.streaming import following, service

    class Hasty(following.GrowingFile):
        """A file that counts as done soon after it was rotated, as its writer here never comes back to it."""

        def __init__(self, path: Path, follow: bool, at_end: bool):
            super().__init__(path, follow, at_end, grace=0.05)

    told = []

    def seen(operation: str) -> None:
        if not told and operation.startswith("create checkpoints"):
            told.append(tell())

    service._MOST, following.GrowingFile = most, Hasty
    with Layer(state, plan, seen).installed():
        return cli.main(arguments)
