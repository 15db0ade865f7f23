"""Reading and writing demonstrations: seconds beside each format's bare library, and memory."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from racing import publish, table

import skillstream as ss

STEPS, EPISODE, SIZE = 1_000_000, 1000, 4
ROUNDS = 3
PEAK = """
import sys
import skillstream as ss
{what}
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
LOAD = "demos = ss.Demonstrations.load(sys.argv[1])"
STREAM = "steps = sum(episode.num_steps for episode in ss.stream_episodes(sys.argv[1]))"


def bare_npz(path: str) -> None:
    """All arrays."""
    with np.load(path) as arrays:
        for name in arrays:
            arrays[name]


def bare_parquet(path: str) -> None:
    """The table."""
    import pyarrow.parquet as pq

    pq.read_table(path)


def bare_csv(path: str) -> None:
    """All numbers, of a file without a gap."""
    np.loadtxt(path, delimiter=",", skiprows=1)


def bare_jsonl(path: str) -> None:
    """Every line."""
    with Path(path).open() as file:
        for line in file:
            json.loads(line)


def bare_minari(path: str) -> None:
    """Every episode."""
    import minari

    for _ in minari.load_dataset(path.removeprefix("minari:")):
        pass


BARE = {
    "demos.npz": ("np.load", bare_npz),
    "demos.parquet": ("pyarrow", bare_parquet),
    "demos.csv": ("np.loadtxt", bare_csv),
    "demos.jsonl": ("json.loads", bare_jsonl),
    "minari:pole/expert-v0": ("minari", bare_minari),
}


def seconds(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median of a few runs."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def peak(what: str, path: str) -> float:
    """MiB that a fresh process held at most."""
    run = [sys.executable, "-c", PEAK.format(what=what), path]
    return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) / 1024


def row(name: str, folder: str, demos: ss.Demonstrations) -> list[str]:
    """What a format takes."""
    path = name if name.startswith("minari:") else f"{folder}/{name}"
    written = seconds(lambda: demos.save(path), rounds=1)
    library, bare = BARE[name]
    times = {
        "load": seconds(lambda: ss.Demonstrations.load(path)),
        "stream": seconds(lambda: [episode.num_steps for episode in ss.stream_episodes(path)]),
        "bare": seconds(lambda: bare(path)),
    }
    return [
        name.partition(".")[2] or "Minari",
        f"{times['load']:.2f}",
        f"{times['bare']:.2f} ({library})",
        f"{times['load'] / times['bare']:.1f}",
        f"{times['stream']:.2f}",
        f"{written:.2f}",
        f"{peak(LOAD, path):.0f}",
        f"{peak(STREAM, path):.0f}",
    ]


def main() -> None:
    """Measure and publish."""
    rng = np.random.default_rng(0)
    demos = ss.Demonstrations(
        rng.normal(size=(STEPS, SIZE)),
        rng.integers(0, 4, STEPS),
        [EPISODE] * (STEPS // EPISODE),
        rewards=rng.normal(size=STEPS),
    )
    header = ["format", "load", "bare", "times", "by episode", "save", "load, MiB", "by episode, MiB"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = f"{folder}/minari"
        rows = [row(name, folder, demos) for name in BARE]
    nothing = peak("ss.Demonstrations([0], [0])", "")
    title = f"{STEPS:,} steps of {SIZE} float64 numbers, a discrete action and a reward, {EPISODE} an episode"
    memory = f"the most memory that a fresh process held (one that reads nothing: {nothing:.0f} MiB)"
    publish("formats", {title: f"Seconds, and {memory}.\n\n{table(header, rows)}"})


if __name__ == "__main__":
    main()
