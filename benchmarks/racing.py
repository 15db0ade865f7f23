"""Timing rivals side by side in one process, and writing down what came out."""

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from ctypes import CDLL
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

# glibc gives large blocks back to the kernel and takes them again, page by page, at every call: that
# would be timed with the rivals that allocate their results, and not with C, which writes into its own.
# The heaps of single threads go back whole, so all threads are to share one.
_MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_MMAP_MAX_": "0"}


def keep_memory() -> None:
    """Have malloc keep what is freed; it reads its settings at a program's start, so start anew."""
    if any(os.environ.get(name) != value for name, value in _MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_MALLOC})


def race(rivals: dict[str, Callable[[], object]], rounds: int = 11) -> dict[str, float]:
    """The median seconds of each rival, all run in turn in every round after three rounds to warm up.

    Each is timed right after a run of its own, so that it meets its own caches and memory.
    """
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(3 + rounds):
        for name, run in rivals.items():
            run()
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(times[3:])) for name, times in seconds.items()}


def compile_c(source: str, **constants: int) -> CDLL:
    """A C file of this folder, compiled on the spot with -O3 for this machine."""
    target = Path(tempfile.mkdtemp()) / "reference.so"
    defines = [f"-D{name}={value}" for name, value in constants.items()]
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-o", str(target)]
    subprocess.run(["cc", *flags, *defines, str(HERE / source), "-lm"], check=True)
    return CDLL(str(target))


def machine() -> str:
    """What the numbers were measured on, in a line."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    compiler = subprocess.run(
        ["cc", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {model}; Python {python}, JAX {version('jax')}, {compiler}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines)


def publish(name: str, sections: dict[str, str]) -> None:
    """Print the tables and write them to `results/NAME.md`."""
    text = f"Measured on: {machine()}\n\n" + "\n\n".join(
        f"## {title}\n\n{body}" for title, body in sections.items()
    )
    print(text)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.md").write_text(text + "\n")
