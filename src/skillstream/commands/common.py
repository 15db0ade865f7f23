"""What the commands share: the console, progress, and finding demonstrations, policies and worlds."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillstream.errors import InputError
from skillstream.runs import RunDirectory

if TYPE_CHECKING:
    from rich.console import Console

    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.policies.policy import OptionPolicy

# What the functions that settings are handed to take for themselves.
_NOT_SETTINGS = {
    "name",
    "env",
    "num_envs",
    "render_mode",
    "policy",
    "episodes",
    "seed",
    "deterministic",
    "parallel",
    "progress",
}
DEMONSTRATIONS = "demonstrations.npz"
INTERRUPTED = 130


@dataclass(frozen=True)
class Source:
    """Demonstrations, and what is known of where they came from."""

    path: str
    name: str  # for the run directories made from it
    task: str | None = None  # the world they were collected in
    settings: tuple[str, ...] = ()


def find_source(path: str) -> Source:
    """A file, `minari:NAME`, a folder of trajectories, or a run of `collect`."""
    folder = Path(path)
    if (folder / "run.json").is_file():
        made = RunDirectory.open(folder).record["settings"]
        task = made.get("task")
        if not (folder / DEMONSTRATIONS).is_file():
            raise InputError(f"demonstrations: {path} is a run, but not one of collect")
        return Source(str(folder / DEMONSTRATIONS), task or folder.name, task, tuple(made.get("set") or ()))
    stem = path.removeprefix("minari:") if path.startswith("minari:") else folder.stem
    return Source(path, stem.replace("/", "-"))


def load(source: Source) -> "Demonstrations":
    """All the demonstrations of a source."""
    from skillstream.demonstrations.dataset import Demonstrations

    return Demonstrations.load(source.path)


def world_of(source: Source) -> Any:
    """The world that demonstrations were collected in, if it is known."""
    from skillstream.environments.catalogue import make_env

    return None if source.task is None else make_env(source.task, **parse_settings(source.settings))


def learning_run(command: str, settings: Any, source: Source) -> RunDirectory:
    """A new run of `fit` or `stream`, which remembers where its demonstrations came from."""
    default = f"runs/{command}-{source.name}"
    run = RunDirectory.create(settings.output, default, command, settings, settings.tensorboard)
    run.record |= {"task": source.task, "set": list(source.settings), "demonstrations": source.path}
    run.write()
    return run


def what_next(run: RunDirectory, demonstrations: str, resume: str) -> str:
    """What to do after a run of `fit` or `stream`; `resume` is the flag that goes on with a cut one."""
    if run.record["state"] == "interrupted":
        again = f"skillstream {run.record['command']} {demonstrations} {resume} {run.path}"
        return f"Interrupted. Go on with: {again}"
    known = run.record["task"] is not None
    first = f"evaluate {run.path}" if known else f"segment {run.path} {demonstrations}"
    return f"Next: skillstream {first}; skillstream report {run.path}"


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """`NAME=VALUE` as keyword arguments; what JSON can read is read as JSON."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise InputError(f"--set: must be NAME=VALUE, found {pair!r}")
        if name in _NOT_SETTINGS:
            raise InputError(f"--set: {name} is no setting of a task")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def load_policy(path: Path) -> "OptionPolicy":
    """The policy of a run directory, or of a file."""
    from skillstream.policies.policy import OptionPolicy
    from skillstream.runs import policy_file

    return OptionPolicy.load(policy_file(path))


def console(as_json: bool) -> "Console":
    """Where to print for people: nowhere, if a machine reads."""
    from rich.console import Console

    return Console(quiet=as_json, highlight=False, soft_wrap=True)


def print_json(**results: Any) -> None:
    """One object on one line of the standard output."""
    print(json.dumps(results))


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left, where there is a terminal; call it with how far it is."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=shown, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=total, note="")

        def report(done: int, note: str = "") -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, note=note or (f"{speed:,.0f}/s" if speed else ""))

        yield report
