"""The command run again and again in one process, where nothing needs to die: all is compiled only once."""

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from judging import Verdict
from layer import Layer, Plan
from material import SIZES, Kind, tabular, write
from processes import start

SMALL = Kind("small", 700, (*SIZES, "--once"), False, tabular(700, 5, every=40))
_EVERY, _MOST = 150, 64


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    code: int | None
    said: str
    layer: Layer

    @property
    def verdict(self) -> Verdict:
        """What no run may do: raise, or fail without a word on why."""
        if self.code not in (0, 2):
            return Verdict(wrong=[f"exit code {self.code}: {self.said[-2000:]}"])
        if self.code == 2 and not any(line.startswith("skillstream: ") for line in self.said.splitlines()):
            return Verdict(wrong=[f"stopped without a word: {self.said[-2000:]}"])
        return Verdict()


def prepare_states(root: Path) -> None:
    """A state that is finished, and one of a process that was killed between two checkpoints."""
    write(root, SMALL)
    for name, plan in (("finished", None), ("running", Plan(None, "before", 62, 62))):
        (root / name).mkdir()
        code = start(arguments(root), root / name, plan, _MOST, cached=False).wait()
        if code != (0 if plan is None else -9):
            raise RuntimeError(f"{name}: exit code {code}: {(root / name / 'said.txt').read_text()}")


def arguments(states: Path) -> list[str]:
    """What reads the small stream, which lies beside the states."""
    return [
        "stream",
        str(states / "log"),
        "--state",
        "state",
        *SMALL.flags,
        "--checkpoint-every",
        str(_EVERY),
    ]


def fresh(folder: Path, of: Path | None) -> Path:
    """A folder, with a copy of a state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if of is not None:
        shutil.copytree(of / "state", folder / "state")
    return folder


def command(states: Path, folder: Path, plan: Plan | None = None) -> Ended:
    """Run it there, to its end."""
    from skillstream import cli
    from skillstream.streaming import service

    service._MOST = _MOST
    os.chdir(folder)
    words, nothing, code = io.StringIO(), io.StringIO(), None
    with (
        contextlib.redirect_stderr(words),
        contextlib.redirect_stdout(nothing),
        Layer(Path("state"), plan).installed() as layer,
    ):
        try:
            code = cli.main(arguments(states))
        except Exception as error:
            words.write(f"{type(error).__name__}: {error}")
    return Ended(code, words.getvalue(), layer)


def names_reason(said: str, plan: Plan) -> bool:
    """Whether an error is told in words, with the file that it is of."""
    reason = os.strerror(plan.error or 0)
    return any(reason in line and "state" in line.partition(":")[2] for line in said.splitlines())


ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)
Part = Callable[[Path, Path, int, int], list[tuple[str, Verdict]]]
