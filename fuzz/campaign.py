"""Fuzz every reader: each input must load as something sound, or be refused in the library's own words.

    python fuzz/campaign.py --inputs 20000 --seed 0 [--only npz,csv] [--keep DIRECTORY]

Each reader runs in a process of its own that may take 1 GiB beyond what it has to begin with. An input that
kills the process, computes for over a second (twice in a row), takes more memory, or raises anything else is
a failure and is kept. So is one that made the reader say something new; later inputs are made from those too.
"""

import argparse
import gc
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from targets import Target

sys.path.insert(0, str(Path(__file__).parent))

SLOW, ROOM = 1.0, 2**30
PATIENCE = 60.0  # seconds after which a process that does not answer is killed
OWN = str(Path(__file__).parent.parent / "src" / "skillstream")


@dataclass
class Tally:
    """What became of a reader's inputs."""

    inputs: int = 0
    loaded: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: float = 0.0  # MiB beyond what the process began with
    kinds: int = 0  # different ways to load and to refuse
    failures: Counter = field(default_factory=Counter)


class Worker:
    """One reader in one process."""

    def __init__(self, name: str, seed: str, scratch: Path, keep: Path, target: "Target | None" = None):
        import targets

        self.targets, self.name, self.target = targets, name, target or targets.TARGETS[name]
        self.rng, self.keep = random.Random(f"{seed} {name}"), keep / name
        self.folder = scratch / "input"
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "seeds").mkdir(parents=True)
        self.corpus = self.target.seeds(scratch / "seeds")
        self.known: set[object] = set()
        self.tally = Tally()
        for number, files in enumerate(self.corpus):
            outcome = self.outcome(files)
            assert outcome[0] != "failed", f"{name}: seed {number}: {outcome}"
        self.seeds = list(self.corpus)
        self.corpus += [files_of(path) for path in sorted(self.keep.glob("new/*"))]

    def outcome(self, files: "dict[str, bytes]") -> tuple[str, object]:
        """Whether the input loads, is refused, or fails, and how."""
        self.write(files)
        try:
            sound = self.target.read(self.folder)
        except Exception as error:
            return self.judged(error)
        return "loaded", re.sub(r"\d+", "#", repr(sound))[:200]

    def judged(self, error: Exception) -> tuple[str, object]:
        """Whether an error is one that a user may see."""
        from skillstream.errors import SkillstreamError

        frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
        place = next((f for f in reversed(frames) if f[0].startswith(OWN)), frames[-1])
        told, kind = str(error), type(error).__name__
        told_alike = re.sub(r"\d+", "#", told)
        where = f"{Path(place[0]).name}:{place[1]}"
        chain, cause = [kind], error.__cause__ or error.__context__
        while cause is not None and len(chain) < 20:  # a chain may come back to itself
            chain.append(type(cause).__name__)
            cause = cause.__cause__ or cause.__context__
        if isinstance(error, self.targets.Unsound):
            return "failed", f"unsound: {told[:150]}"
        if any("Memory" in name for name in chain):
            return "failed", f"memory: {where}: {told[:150]}"
        in_our_words = isinstance(error, OSError) and (frames[-1][0].startswith(OWN) or "path: " in told)
        if not (in_our_words or isinstance(error, SkillstreamError)):
            return "failed", f"{kind} at {where}: {told_alike[:150]}"
        if self.target.name not in told:
            return "failed", f"the file is not named at {where}: {told[:150]}"
        if len(told) > 2500:
            return "failed", f"a long message at {where}"
        words = re.sub(r"'[^']*'|\"[^\"]*\"|\d+|\([^)]*\)|\[[^]]*\]", "#", told)[:200]
        return "refused", (tuple(f for f in frames if f[0].startswith(OWN)), tuple(chain), words)

    def write(self, files: "dict[str, bytes]") -> None:
        """Put the input where the reader looks."""
        if self.folder.exists():
            for path in [p for p in self.folder.rglob("*") if p.is_file()]:
                if str(path.relative_to(self.folder)) not in files:
                    path.unlink()
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def one(self) -> None:
        """Make an input and see."""
        files = dict(self.rng.choice(self.seeds if self.rng.random() < 0.4 else self.corpus))
        files = self.targets.mutated(self.target, self.rng, files, self.rng.choice(self.corpus))
        began = time.process_time()
        verdict, what = self.outcome(files)
        took = time.process_time() - began
        if took > SLOW:  # once more: the machine is shared
            began = time.process_time()
            verdict, what = self.outcome(files)
            took = time.process_time() - began
            if took > SLOW:
                verdict, what = "failed", "over a second"
        tally = self.tally
        tally.inputs += 1
        tally.slowest = max(tally.slowest, took)
        if verdict == "failed":
            tally.failures[str(what)] += 1
            if tally.failures[str(what)] <= 2:
                self.save("failed", files, f"{what}")
            return
        setattr(tally, verdict, getattr(tally, verdict) + 1)
        if what not in self.known:
            self.known.add(what)
            self.corpus.append(files)
            self.save("new", files, f"{what}")
        tally.kinds = len(self.known)

    def save(self, kind: str, files: "dict[str, bytes]", what: str) -> None:
        """Keep an input, and why."""
        folder = self.keep / kind / f"{self.tally.inputs:07}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (folder / "what").write_text(what, errors="replace")


def files_of(folder: Path) -> "dict[str, bytes]":
    """The files of a kept input."""
    root = folder / "files"
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def status(field_name: str) -> int:
    """Bytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field_name + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field_name)


def work(name: str, seed: str, count: int, scratch: Path, keep: Path, pipe) -> None:
    """The life of a process: warm up, limit itself, run, tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with scratch.with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 2)
    warnings.simplefilter("error")
    for quiet in ("gymnasium", "minari", "h5py", "jax"):
        warnings.filterwarnings("ignore", module=quiet)
    worker = Worker(name, seed, scratch, keep)
    gc.collect()
    base = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    limit = status("VmSize") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told = time.monotonic()
    for number in range(count):
        worker.one()
        if time.monotonic() - told > 0.5 or number == count - 1:
            worker.tally.memory = max(worker.tally.memory, (status("VmHWM") - base) / 2**20)
            pipe.send(vars(worker.tally))
            told = time.monotonic()
    pipe.send(None)


def run(name: str, seed: int, count: int, scratch: Path, keep: Path) -> Tally:
    """All inputs of a reader, in one process after another if some of them kill it."""
    total, lives = Tally(), 0
    while total.inputs < count and lives < 200:
        mine, theirs = multiprocessing.Pipe(duplex=False)
        life = f"{seed}.{lives}"
        context = multiprocessing.get_context("spawn")
        process = context.Process(
            target=work, args=(name, life, count - total.inputs, scratch / name, keep, theirs), daemon=True
        )
        process.start()
        theirs.close()
        last, ended = vars(Tally()), ""
        while not ended:
            try:
                if not mine.poll(PATIENCE if last["inputs"] else 120):
                    ended = "it hangs"
                    process.kill()
                    break
                told = mine.recv()
                if told is None:
                    ended = "well"
                else:
                    last = told
            except EOFError:
                process.join()
                ended = f"it dies ({process.exitcode})"
        process.join()
        add(total, last)
        if ended != "well":
            log = scratch / f"{name}.log"
            if not last["inputs"] and not (scratch / name / "input").exists():
                raise SystemExit(f"{name}: {ended}: {log.read_text()[-2000:]}")
            total.inputs += 1
            total.failures[ended] += 1
            kept = keep / name / "failed" / f"killed-{life}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            if (scratch / name / "input").exists():
                shutil.copytree(scratch / name / "input", kept / "files")
            elif (scratch / name / "hostile-v0").exists():
                shutil.copytree(scratch / name / "hostile-v0", kept / "files")
            (kept / "what").write_text(
                f"{ended}\n{log.read_text(errors='replace')[-3000:] if log.exists() else ''}"
            )
        lives += 1
    return total


def add(total: Tally, part: dict) -> None:
    """Sums of counts, the largest of the rest."""
    for name in ("inputs", "loaded", "refused"):
        setattr(total, name, getattr(total, name) + part[name])
    for name in ("slowest", "memory", "kinds"):
        setattr(total, name, max(getattr(total, name), part[name]))
    total.failures.update(part["failures"])


def main() -> int:
    """Run the campaign and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, default=Path(__file__).parent / "found")
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args()
    shares = json.loads(os.environ.get("FUZZ_SHARES", "{}")) or SHARES
    names = asked.only.split(",") if asked.only else list(shares)
    whole = sum(shares[name] for name in names)
    rows, failed = [], 0
    scratch = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"skillstream-fuzz-{os.getpid()}"
    scratch.mkdir()
    try:
        for name in names:
            began = time.monotonic()
            count = max(1, round(asked.inputs * shares[name] / whole))
            tally = run(name, asked.seed, count, scratch, asked.keep)
            failed += sum(tally.failures.values())
            rows.append(
                f"| {name} | {tally.inputs:,} | {tally.loaded:,} | {tally.refused:,} | {tally.kinds:,} | "
                f"{sum(tally.failures.values()):,} | {tally.slowest:.2f} | {tally.memory:.0f} | "
                f"{time.monotonic() - began:.0f} |"
            )
            print(rows[-1], flush=True)
            for what, times in tally.failures.most_common():
                print(f"    {times} x {what}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    header = "| reader | inputs | loaded | refused | kinds | failures | slowest, s | memory, MiB | took, s |"
    table = "\n".join([header, "| --- " * 9 + "|", *rows])
    print("\n" + table)
    if asked.table:
        asked.table.write_text(table + "\n")
    return 1 if failed else 0


SHARES = {
    "jsonl": 0.22,
    "csv": 0.2,
    "npz": 0.2,
    "parquet": 0.06,
    "minari": 0.03,
    "imitation": 0.06,
    "policy": 0.1,
    "learner": 0.03,
    "expert": 0.05,
    "run": 0.05,
}


if __name__ == "__main__":
    sys.exit(main())
