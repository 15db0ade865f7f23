"""The service of `skillstream stream`: samples a second from JSON lines, where the time goes, memory."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from racing import publish, table

import skillstream as ss
from skillstream.streaming import lines
from skillstream.streaming.spaces import Space

STATES, ACTIONS, EPISODE = 100, 5, 200
SPACE = Space(None, STATES, "one", (ACTIONS,))
LONGEST = 1 << 20


def write_lines(path: Path, samples: int, episodes: bool = False) -> None:
    """Random samples, a step or an episode a line."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for first in range(0, samples, EPISODE):
            seen, done = rng.integers(0, STATES, EPISODE).tolist(), rng.integers(0, ACTIONS, EPISODE).tolist()
            if episodes:
                file.write(json.dumps({"observations": seen, "actions": done}) + "\n")
                continue
            name = first // EPISODE
            file.writelines(
                f'{{"episode": {name}, "observation": {state}, "action": {action}}}\n'
                for state, action in zip(seen, done, strict=True)
            )


def stream(path: Path, folder: Path, piped: bool, *flags: str) -> tuple[dict, list[dict], float]:
    """The whole command on a file or through a pipe: results, metrics, seconds with its start."""
    program = str(Path(sys.executable).with_name("skillstream"))
    command = [program, "stream", "-" if piped else str(path), "--json"]
    sizes = ["--states", str(STATES), "--actions", str(ACTIONS), "--once", "--state", str(folder)]
    began = time.perf_counter()
    with path.open("rb") as file:
        done = subprocess.run(
            [*command, *sizes, *flags], stdin=file if piped else None, capture_output=True, check=True
        )
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return json.loads(done.stdout), metrics, time.perf_counter() - began


def sustained(metrics: list[dict]) -> float:
    """Samples a second, after what XLA compiles at the start."""
    first = next(line for line in metrics if line["step"] >= 50_000)
    last = metrics[-1]
    return (last["step"] - first["step"]) / (last["seconds"] - first["seconds"])


def whole(folder: Path, samples: int) -> list[list[str]]:
    """The command from end to end, with a checkpoint every second."""
    rows = []
    for title, episodes, piped in (
        ("a step a line, from a file", False, False),
        ("a step a line, piped in", False, True),
        ("an episode of 200 steps a line, from a file", True, False),
    ):
        path = folder / f"{episodes}.jsonl"
        if not path.exists():
            write_lines(path, samples, episodes)
        flags = ["--checkpoint-seconds", "1"]
        result, metrics, seconds = stream(path, folder / f"state-{len(rows)}", piped, *flags)
        assert result["samples"] == samples, result
        rows.append([title, f"{sustained(metrics):,.0f}", f"{seconds:.1f}"])
    return rows


def parts(folder: Path) -> list[list[str]]:
    """Microseconds a sample of the parts alone, on one thread."""
    count = 100_000
    found = (folder / "False.jsonl").read_bytes().split(b"\n")[:count]
    blocks = [found[i : i + 5000] for i in range(0, count, 5000)]

    def seconds(run) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        return float(np.median(times)) / count * 1e6

    batches = [lines.parse(block, SPACE, LONGEST, None).batch for block in blocks]
    policy = ss.OptionPolicy.tabular(2, STATES, ACTIONS)
    learner = ss.OnlineLearner(policy, ss.OnlineConfig(pseudo_count=0.01))

    def learn(size: int) -> None:
        for batch in batches:
            for first in range(0, len(batch), size):
                part = batch[first : first + size]
                learner.partial_fit(part.observations, part.actions, part.starts)

    def parse(blocks: list[list[bytes]]) -> None:
        for block in blocks:
            lines.parse(block, SPACE, LONGEST, None)

    bad = [[*block[:2500], b'{"observation": -1, "action": 0}', *block[2501:]] for block in blocks]
    return [
        ["json.loads alone", f"{seconds(lambda: [json.loads(line) for line in found]):.2f}"],
        ["lines to checked columns", f"{seconds(lambda: parse(blocks)):.2f}"],
        ["the same, a bad line in every block of 5,000", f"{seconds(lambda: parse(bad)):.2f}"],
        ["learning in pieces of 250, as the drift test wants", f"{seconds(lambda: learn(250)):.2f}"],
        ["learning in pieces of 5,000", f"{seconds(lambda: learn(5000)):.2f}"],
    ]


def memory(folder: Path, samples: int = 10_000_000) -> list[str]:
    """Resident memory of one process after 10^5 samples and after so many."""
    path = folder / "long.jsonl"
    write_lines(path, samples)
    _, metrics, _ = stream(path, folder / "state-long", True)
    early = next(line for line in metrics if line["step"] >= 100_000)
    most = max(line["memory"] for line in metrics if line["step"] >= early["step"])
    os.remove(path)
    found = [line / 2**20 for line in (early["memory"], metrics[-1]["memory"], most)]
    return [f"{samples:.0e}", *(f"{x:.1f}" for x in found), f"{found[1] - found[0]:+.1f}"]


def main() -> None:
    """Measure and publish."""
    with tempfile.TemporaryDirectory() as name:
        folder, samples = Path(name), 2_000_000
        publish(
            "streaming",
            {
                f"The command, K = 2, {STATES} states, {samples:.0e} samples, a checkpoint a second": table(
                    ["source", "samples a second, sustained", "seconds in all, start and compiling included"],
                    whole(folder, samples),
                ),
                "Where the time goes, µs a sample": table(["part", "µs"], parts(folder)),
                "Memory of a long stream, MiB": table(
                    ["samples", "after 10^5", "at the end", "at most", "growth"], [memory(folder)]
                ),
            },
        )


if __name__ == "__main__":
    main()
