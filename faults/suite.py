"""The faults that `skillstream stream` must stand: kills, writes that fail, files that are damaged.

    python faults/suite.py --kills 200 --writes 200 --damage 200 --seed 0

Prints a table; exits with 1 if anything was lost, counted twice, could not be loaded or was wrong. What went
wrong is said with its seed, and its folder is kept.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import damage
import inside
import judging
import writes
from judging import Verdict
from kills import Trial, streams
from material import Kind, kinds, write
from processes import only_read_cache, prepare, start

FORK = multiprocessing.get_context("fork")
WORKERS = 2


class Judge:
    """Another process that reads what is on the disk: it may use JAX, which the one that forks must not."""

    def __init__(self) -> None:
        self._mine, theirs = FORK.Pipe()
        self._process = FORK.Process(target=_judge, args=(theirs,), daemon=True)
        self._process.start()

    def look(self, state: Path) -> judging.Seen:
        """`judging.look`."""
        return self._ask("look", state)

    def compare(self, state: Path, whole: Path) -> Verdict:
        """`judging.compare`."""
        return self._ask("compare", state, whole)

    def _ask(self, *question: Any) -> Any:
        self._mine.send(question)
        return self._mine.recv()

    def close(self) -> None:
        """End it."""
        self._mine.close()
        self._process.join(5)


def _judge(questions: Any) -> None:
    only_read_cache()
    while True:
        try:
            name, *arguments = questions.recv()
        except EOFError:
            return
        questions.send(getattr(judging, name)(*arguments))


@dataclass
class Row:
    """A line of the table."""

    what: str
    trials: int = 0
    note: str = ""
    verdict: Verdict = field(default_factory=Verdict)


def references(root: Path) -> None:
    """A stream that nothing happens to, of each kind, and one that ends and goes on, for the cache."""
    workers = [FORK.Process(target=_reference, args=(root, kind)) for kind in kinds().values()]
    for first in range(0, len(workers), WORKERS):
        for process in workers[first : first + WORKERS]:
            process.start()
        for process in workers[first : first + WORKERS]:
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


def _reference(root: Path, kind: Kind) -> None:
    flags = [*(flag for flag in kind.flags if flag != "--once"), *["--once"] * bool(kind.text)]
    for name, ends in ((kind.name, ((),)), (f"{kind.name}-warm", (("--samples", "777"), ()))):
        write(root / name, kind)
        for end in ends:
            arguments = [
                "stream",
                kind.source,
                "--state",
                "state",
                *flags,
                *end,
                "--checkpoint-every",
                "1000",
            ]
            running = start(arguments, root / name, None, 256, cached=False)
            if running.wait() != 0:
                sys.exit(f"{kind.name} does not run by itself: {running.said.read_text()}")


def kill_streams(root: Path, seed: int, most: int, only: int | None) -> list[Row]:
    """Kill until there were enough, two streams at a time."""
    share, workers = [most // WORKERS, most - most // WORKERS], []
    for number in range(WORKERS if only is None else 1):
        mine, theirs = FORK.Pipe()
        given = (theirs, root, seed, share[number], number, only)
        workers.append((mine, FORK.Process(target=_kill_worker, args=given)))
    rows: dict[str, Row] = {}
    for _, process in workers:
        process.start()
    for mine, process in workers:
        for name, count, planned, verdict in mine.recv():
            row = rows.setdefault(name, Row(f"kills: {name}"))
            row.trials += count
            row.note = str(int(row.note or 0) + planned)
            row.verdict.add(verdict)
        process.join()
    for row in rows.values():
        row.note += " at chosen operations"
    return [rows[name] for name in sorted(rows)]


def _kill_worker(results: Any, root: Path, seed: int, most: int, first: int, only: int | None) -> None:
    judge, done, kills, known = Judge(), [], 0, kinds()
    for number, name, own in streams(seed, first if only is None else only, WORKERS):
        folder = root / f"stream-{number}"
        trial = Trial(folder, known[name], root / "whole" / name / "state", own, judge.look, judge.compare)
        found = trial.run()
        kills += found.kills
        done.append((name, found.kills, found.planned, found.verdict))
        if found.verdict:
            again = f"python faults/suite.py --seed {seed} --only {number}"
            print(
                f"{folder} ({name}): {json.dumps(asdict(found.verdict), indent=1)}\nagain: {again}",
                flush=True,
            )
        else:
            shutil.rmtree(folder)
        if kills >= most or only is not None:
            break
    results.send(done)
    judge.close()


def fault_trials(root: Path, seed: int, writing: int, damaging: int) -> list[Row]:
    """Failing writes and damaged files, in processes that run the command again and again."""
    inside.prepare_states(root / "states")
    workers = []
    for number in range(WORKERS):
        mine, theirs = FORK.Pipe()
        given = (theirs, root, seed, writing, damaging, number)
        workers.append((mine, FORK.Process(target=_fault_worker, args=given)))
        workers[-1][1].start()
    rows = {
        name: Row(name) for name, count in (("failing writes", writing), ("damaged files", damaging)) if count
    }
    for mine, process in workers:
        for name, verdict in mine.recv():
            rows[name].trials += 1
            rows[name].verdict.add(verdict)
        process.join()
    return [*rows.values()]


def _fault_worker(results: Any, root: Path, seed: int, writing: int, damaging: int, number: int) -> None:
    only_read_cache()
    states, folder, done = root / "states", root / f"inside-{number}", []
    tries: list[tuple[str, Callable[[], Verdict]]] = []
    if writing:
        tries += [
            ("failing writes", partial(writes.trial, states, folder, begun, plan))
            for begun, plan in writes.chosen(states, folder, writing, seed)
        ]
    tries += [
        ("damaged files", partial(damage.trial, states, folder, given))
        for given in damage.chosen(states, damaging, seed)
    ]
    for name, attempt in tries[number::WORKERS]:
        verdict = attempt()
        done.append((name, verdict))
        if verdict:
            kept = folder.rename(root / f"kept-{number}-{len(done)}")
            print(f"{kept} ({name}, seed {seed}): {json.dumps(asdict(verdict), indent=1)}", flush=True)
    results.send(done)


def table(rows: list[Row]) -> str:
    """What, trials, and what was wrong."""
    names = ["lost", "twice", "unloadable", "wrong"]
    lines = [["what", "trials", *names, ""]]
    lines += [
        [row.what, str(row.trials), *(str(len(getattr(row.verdict, name))) for name in names), row.note]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main() -> int:
    """All three parts, as many trials of each as asked for."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("kills", 200), ("writes", 200), ("damage", 200), ("seed", 0)):
        asked.add_argument(f"--{name}", type=int, default=count)
    asked.add_argument("--only", type=int, help="kill just the stream of this number")
    given = asked.parse_args()
    root, began = Path(tempfile.mkdtemp(prefix="faults-")), time.monotonic()
    prepare(root / "cache")
    if given.kills:
        references(root / "whole")
    print(f"references after {time.monotonic() - began:.0f} s", flush=True)
    rows: list[Row] = []
    parts: list[tuple[int, Callable[[], list[Row]]]] = [
        (given.writes + given.damage, lambda: fault_trials(root, given.seed, given.writes, given.damage)),
        (given.kills, lambda: kill_streams(root, given.seed, given.kills, given.only)),
    ]
    for count, part in parts:
        rows += part() if count else []
    print(table(rows))
    wrong = any(row.verdict for row in rows)
    print(f"seed {given.seed}, {time.monotonic() - began:.0f} s" + (f"; kept in {root}" if wrong else ""))
    if not wrong:
        shutil.rmtree(root)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
