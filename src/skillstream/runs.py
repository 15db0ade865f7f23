"""Run directories: what a command was asked, what came of it, step by step; never one over another.

A run directory holds `run.json` (command, settings, versions, state), `metrics.jsonl` (a line a step),
and what the command makes: `policy.safetensors`, tables, pictures, `report.html`.
"""

import json
import platform
import sys
import time
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.errors import FileFormatError, InputError, MissingExtraError, shown
from skillstream.files import Journal, read_json, write_whole

POLICY = "policy.safetensors"
REPORT = "report.html"
_RUN, _METRICS = "run.json", "metrics.jsonl"
# What the commands take from a record and from its settings, and from a line of the metrics.
_KINDS = {"task": str, "set": list, "command": str, "demonstrations": str, "learning": dict, "results": dict}
_KINDS |= {"arguments": list, "versions": dict}
_NUMBERS = ("step", "seconds", "start")
_MOST = 2**63
_PACKAGES = ("skillstream", "jax", "numpy", "gymnasium", "equinox", "optax")


class RunDirectory:
    """A run that is being made, or one that is read."""

    def __init__(self, path: Path, record: dict[str, Any]):
        self.path, self.record = path, record
        self.journal = Journal(path / _METRICS)
        self._began, self._tensorboard = time.time(), None

    @staticmethod
    def create(
        path: Path | None, default: str, command: str, settings: Any, tensorboard: bool = False
    ) -> "RunDirectory":
        """A new directory: `path`, which must not exist, or else `default` with a number if need be."""
        check_new(path)
        chosen = path or unused(Path(default))
        chosen.mkdir(parents=True)
        return RunDirectory.begin(chosen, command, settings, tensorboard)

    @staticmethod
    def begin(path: Path, command: str, settings: Any, tensorboard: bool = False) -> "RunDirectory":
        """A new run in a directory that is there already."""
        record = {
            "command": command,
            "arguments": sys.argv[1:],
            "settings": _plain(settings),
            "versions": _versions(),
            "machine": platform.platform(),
            "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "state": "running",
        }
        run = RunDirectory(path, record)
        if tensorboard:
            run.watch()
        run.write()
        return run

    @staticmethod
    def open(path: Path) -> "RunDirectory":
        """A run that some command made."""
        file = path / _RUN
        if not file.is_file():
            raise FileNotFoundError(f"run: {path} is no run directory (it holds no {_RUN})")
        record = read_json(file)
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise FileFormatError(f"{file}: damaged: it holds no settings")
        for told in (record, record["settings"]):
            for name, kind in _KINDS.items():
                if not isinstance(told.get(name), kind | None):
                    raise FileFormatError(f"{file}: damaged: its {name} is {shown(told[name])}")
            if not isinstance((told.get("results") or {}).get("certificate", 0), int | float):
                raise FileFormatError(f"{file}: damaged: its certificate is no number")
            pairs = told.get("set") or []
            if not all(isinstance(pair, str) for pair in pairs):
                raise FileFormatError(f"{file}: damaged: its settings are {shown(pairs)}")
        return RunDirectory(path, record)

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """A run that an error or Ctrl-C ends says so."""
        if error is not None and self.record["state"] == "running":
            with suppress(OSError):
                self.finish("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", error=error)

    def watch(self) -> None:
        """Write the metrics for TensorBoard too."""
        self._tensorboard = _tensorboard_writer(self.path)

    @property
    def policy(self) -> Path:
        """Where the policy is."""
        return self.path / POLICY

    def log(self, step: int, **numbers: Any) -> None:
        """Append a line to the metrics."""
        line = {"step": step, "seconds": round(time.time() - self._began, 3), **numbers}
        self.journal.add(json.dumps(line).encode() + b"\n")
        if self._tensorboard is not None:
            for name, number in numbers.items():
                if isinstance(number, int | float):
                    self._tensorboard.add_scalar(name, number, step)

    def metrics(self) -> list[dict[str, float]]:
        """All lines of the metrics but those that were cut off or damaged."""
        file, lines = self.path / _METRICS, []
        for line in file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else []:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_drawable(found):
                lines.append(found)
        return [line for line in lines if "step" in line]

    def finish(self, state: str = "finished", **results: Any) -> None:
        """Say how the run ended and what came of it."""
        self.record |= {"state": state, "seconds": round(time.time() - self._began, 3)}
        self.record["results"] = {**self.record.get("results", {}), **_plain(results)}
        self.write()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def write(self) -> None:
        """Write the record, whole."""
        write_whole(self.path / _RUN, (json.dumps(self.record, indent=2) + "\n").encode())


def check_new(path: Path | None) -> None:
    """Refuse a directory to make that is there; to be asked before there is work to lose."""
    if path is not None and path.exists():
        raise InputError(f"--output: {path} exists already; no run overwrites another, so name a new one")


def unused(path: Path) -> Path:
    """The path itself, or with the first number that makes it new."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def policy_file(path: Path) -> Path:
    """The policy that a run directory holds, or the file itself."""
    if not path.is_dir():
        return path
    if not (path / POLICY).is_file():
        raise FileNotFoundError(f"policy: {path} holds no {POLICY}; give a run of fit or stream, or a file")
    return path / POLICY


def _is_drawable(line: Any) -> bool:
    """Whether a line of the metrics is what reports take it for; a likelihood may be missing, or infinite."""
    if not isinstance(line, dict):
        return False
    likelihood = line.get("log_likelihood")
    numbers = [line.get(name, 0) for name in _NUMBERS]
    numbers += [] if likelihood is None or isinstance(likelihood, float) else [likelihood]
    return all(isinstance(number, int | float) and -_MOST < number < _MOST for number in numbers)


def _plain(value: Any) -> Any:
    """What JSON can hold of settings and results."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(part) for name, part in asdict(value).items()}
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _tensorboard_writer(path: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        message = "--tensorboard: needs a package that is not installed: pip install skillstream[tensorboard]"
        raise MissingExtraError(message) from error
    return SummaryWriter(str(path / "tensorboard"))
