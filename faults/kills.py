"""SIGKILL at random moments and at chosen operations, until a stream is done; nobody must be able to tell."""

import json
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from judging import Seen, Verdict, left_over
from layer import Plan
from material import Kind, write
from processes import PATIENCE, Running, start

_EXPECTED = re.compile(
    r"taken over from|going on after|the expert seems to have changed|waiting for enough lines|^\s*$"
)
_SHARES = {"once": 4, "guessed": 3, "grows": 6, "networks": 1, "world": 1}
_STOPPED = (143, -signal.SIGTERM)


@dataclass
class Killed:
    """A stream that was killed again and again: how often, how often at an operation, what was wrong."""

    kills: int
    planned: int
    stops: int
    verdict: Verdict


class Writer:
    """What adds to a log as time goes by, in pieces of any length, and rotates it at some ends of lines."""

    def __init__(self, folder: Path, text: str, rng: random.Random):
        self._folder, self._rng = folder, rng
        data = text.encode()
        ends = [found.end() for found in re.finditer(b"\n", data)]
        cuts = [0, *sorted(rng.sample(ends[:-1], 2)), len(data)]
        self._files = [data[first:last] for first, last in pairwise(cuts)]
        self._next = 0.0
        (folder / "log").touch()

    @property
    def done(self) -> bool:
        """Whether all of it is there."""
        return not any(self._files)

    def write(self) -> None:
        """The next piece, if it is time for it; no log is rotated before its reader has begun with it."""
        if self.done or time.monotonic() < self._next:
            return
        if not self._files[0]:
            if not list(self._folder.glob("state/checkpoints/checkpoint-*")):
                return
            self._rotate()
        size = self._rng.choice((1, 100, 3000, 20_000))
        piece, self._files[0] = self._files[0][:size], self._files[0][size:]
        with (self._folder / "log").open("ab") as file:
            file.write(piece)
        self._next = time.monotonic() + self._rng.uniform(0, 0.1)

    def _rotate(self) -> None:
        for number in (2, 1):
            older = self._folder / f"log.{number}"
            if older.exists():
                older.rename(self._folder / f"log.{number + 1}")
        (self._folder / "log").rename(self._folder / "log.1")
        (self._folder / "log").touch()
        self._files.pop(0)


class Trial:
    """One stream, killed until it is done.

    Parameters
    ----------
    look, compare
        `judging.look` and `judging.compare`, by another process.
    """

    def __init__(self, folder: Path, kind: Kind, whole: Path, seed: str, look: Any, compare: Any):
        self._folder, self._kind, self._whole, self._rng = folder, kind, whole, random.Random(seed)
        self._look, self._compare = look, compare
        self._verdict = Verdict()
        self._kills = self._planned = self._stops = self._before = 0
        self._writer: Writer | None = None

    def run(self) -> Killed:
        """All of it; what is well is taken away, what is wrong is kept."""
        if self._kind.follows:
            self._folder.mkdir(parents=True)
            self._writer = Writer(self._folder, self._kind.text, self._rng)
        else:
            write(self._folder, self._kind)
        wanted, done = self._rng.randint(6, 14), False
        while not done and self._kills < wanted and not self._verdict and not self._all_is_learnt():
            done = self._one()
        if not done and not self._verdict:
            self._finish()
        if not self._verdict:
            self._verdict.add(self._compare(self._folder / "state", self._whole))
            self._verdict.add(left_over(self._folder / "state"))
        return Killed(self._kills, self._planned, self._stops, self._verdict)

    def _start(self, plan: Plan | None) -> Running:
        rng = self._rng
        every, seconds = rng.choice((100, 250, 1000, 5000)), rng.choice(("0.02", "0.3", "30"))
        if self._kind.follows:
            seconds = "0.05"
        arguments = ["stream", self._kind.source, "--state", "state", *self._kind.flags]
        arguments += ["--checkpoint-every", str(every), "--checkpoint-seconds", seconds]
        arguments += ["--keep", str(rng.choice((2, 3, 5)))]
        return start(arguments, self._folder, plan, rng.choice((16, 64, 256, 4096)))

    def _one(self) -> bool:
        """A process until it is killed; whether it ended well before."""
        rng, chance = self._rng, self._rng.random()
        plan, number = None, signal.SIGKILL
        if chance < 0.5:
            first = 1 + int(200 * rng.random() ** 2)
            plan = Plan(None, rng.choice(("before", "torn", "after", "power")), first, first)
        elif self._kind.follows and chance < 0.6:
            number = signal.SIGTERM
        from_saving, delay = rng.random() < 0.7, rng.uniform(0, 0.8)
        running = self._start(plan)
        self._wait(running, None if plan else (from_saving, delay))
        self._planned += plan is not None and running.poll() is not None
        code = running.end(number)
        if plan is not None and plan.place == "power":  # the status is not flushed, as it is only looked at
            (self._folder / "state" / "status.json").unlink(missing_ok=True)
        self._kills += code == -signal.SIGKILL
        self._stops += number == signal.SIGTERM
        well = 0 if not self._kind.follows else None
        if code not in (-signal.SIGKILL, well, *(_STOPPED if number == signal.SIGTERM else ())):
            self._verdict.wrong.append(f"exit code {code}: {running.said.read_text()[-2000:]}")
        self._examine(running)
        return code == well

    def _wait(self, running: Running, when: tuple[bool, float] | None) -> None:
        """Until it has ended, has learnt all there is, or its time has come; the log grows meanwhile."""
        saving = running.began if when is None or not when[0] else None
        for _ in range(PATIENCE):
            if running.poll() is not None:
                return
            if saving is None and running.has_saved():
                saving = time.monotonic()
            if when is not None and saving is not None and time.monotonic() - saving >= when[1]:
                return
            if self._writer is not None:
                self._writer.write()
                if self._all_is_learnt():
                    return
            time.sleep(0.003)

    def _all_is_learnt(self) -> bool:
        """Of a log, which nothing else tells the end of."""
        if not self._kind.follows:
            return False
        folder = self._folder / "state" / "checkpoints"
        newest = max((path.name for path in folder.glob("checkpoint-*")), default="checkpoint-0")
        return int(newest[11:].split(".")[0]) >= self._kind.samples

    def _finish(self) -> None:
        """A last process that nothing happens to but, where it follows the file, the end of the trial."""
        running = self._start(None)
        self._wait(running, None)
        while self._kind.follows and running.poll() is None and not self._speaks(running):
            time.sleep(0.01)
        if self._kind.follows:
            time.sleep(0.3)  # what is counted twice would show
        code = running.end(signal.SIGTERM) if self._kind.follows else running.wait()
        if code != (143 if self._kind.follows else 0):
            self._verdict.wrong.append(f"exit code {code} in the end: {running.said.read_text()[-2000:]}")
        self._examine(running)

    def _speaks(self, running: Running) -> bool:
        """Whether it has come so far as to tell its status."""
        try:
            return json.loads((self._folder / "state" / "status.json").read_text())["pid"] == running.pid
        except FileNotFoundError:
            return False

    def _examine(self, running: Running) -> None:
        """What a killed process left can be read, and is not less than there was before."""
        notes = [line for line in running.said.read_text().splitlines() if not _EXPECTED.search(line)]
        if notes:
            self._verdict.wrong.append(f"it said: {notes[-20:]}")
        if not (self._folder / "state").exists():
            return
        seen: Seen = self._look(self._folder / "state")
        self._verdict.unloadable += seen.unloadable
        if (seen.samples or 0) < self._before:
            self._verdict.lost.append(f"{self._before} samples were in a checkpoint, now {seen.samples}")
        self._before = seen.samples or 0


def streams(seed: int, first: int, step: int) -> Iterator[tuple[int, str, str]]:
    """Number, kind and seed of every stream of a worker; the same for the same seed."""
    number = first
    while True:
        rng = random.Random(f"{seed}-{number}")
        name = rng.choices([*_SHARES], [*_SHARES.values()])[0]
        yield number, name, f"{seed}-{number}-trial"
        number += step


def clean_environment() -> None:
    """One thread each is enough, and leaves the machine to others."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
