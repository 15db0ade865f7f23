"""Trials side by side: each is written as soon as it is there, and what is there is not run again."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from skillstream.errors import InputError, MissingExtraError
from skillstream.experiments.reproduction.trials import Failure, Outcome, Trial, attempt
from skillstream.files import write_whole

Backend = Literal["loky", "sequential", "ray", "dask"]


@dataclass(frozen=True)
class Workers:
    """Where trials run."""

    jobs: int
    backend: Backend = "loky"


def run_trials(
    trials: Sequence[Trial],
    folder: Path,
    workers: Workers,
    report: Callable[[Trial, Sequence[Failure]], None] | None = None,
) -> tuple[list[Outcome], list[Failure]]:
    """The outcomes of all trials in their order, and the trials that failed.

    What a trial gives is kept in `folder`, under a name made from all that decides it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {trial: _read(folder, trial) for trial in trials}
    left = [trial for trial in trials if done[trial] is None]
    failures: list[Failure] = []
    for trial, found in _run(left, folder, workers):
        if isinstance(found, Failure):
            failures.append(found)
        else:
            _write(folder, trial, found)
            done[trial] = found
        if report is not None:
            report(trial, failures)
    return [outcome for trial in trials for outcome in done[trial] or ()], failures


def unfinished(trials: Sequence[Trial], folder: Path) -> list[Trial]:
    """The trials that have not been run."""
    return [trial for trial in trials if _read(folder, trial) is None]


def _run(
    trials: Sequence[Trial], folder: Path, workers: Workers
) -> Iterator[tuple[Trial, list[Outcome] | Failure]]:
    """Trials and what came of them, as they finish."""
    from joblib import Parallel, delayed

    if not trials:
        return
    with _backend(workers), _one_thread():
        parallel: Any = Parallel(pre_dispatch="2*n_jobs", return_as="generator_unordered")
        cache = str((folder.parent / "compiled").resolve())
        yield from parallel(delayed(_told)(trial, cache) for trial in trials)


def _told(trial: Trial, cache: str) -> tuple[Trial, list[Outcome] | Failure]:
    """A trial's outcome with its trial: they come back in any order."""
    return trial, attempt(trial, cache)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Worker processes inherit what keeps each of them to a core of its own."""
    wanted = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update({name: value for name, value in wanted.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _backend(workers: Workers) -> Any:
    """Joblib's setting for the workers; those of a cluster are those it is connected to."""
    from joblib import parallel_config

    if workers.jobs < 1:
        raise InputError(f"--jobs: must be at least 1, found {workers.jobs}")
    try:
        if workers.backend == "ray":
            from ray.util.joblib import register_ray

            register_ray()
        if workers.backend == "dask":
            from distributed import Client

            Client()
    except ImportError as error:
        message = f"--backend: {workers.backend} is not installed: pip install skillstream[{workers.backend}]"
        raise MissingExtraError(message) from error
    return parallel_config(backend=workers.backend, n_jobs=workers.jobs)


def _file(folder: Path, trial: Trial) -> Path:
    return folder / f"{trial.task}-{trial.size}-{trial.learner}-{trial.seed}-{trial.key}.json"


def _write(folder: Path, trial: Trial, outcomes: list[Outcome]) -> None:
    record = {"trial": asdict(trial), "outcomes": [asdict(outcome) for outcome in outcomes]}
    write_whole(_file(folder, trial), (json.dumps(record) + "\n").encode())


def _read(folder: Path, trial: Trial) -> list[Outcome] | None:
    """What is kept of a trial; one that cannot be read is run again."""
    names = {field.name for field in fields(Outcome)}
    try:
        record = json.loads(_file(folder, trial).read_text())
        rows = record["outcomes"]
        if record["trial"] != asdict(trial) or not rows or any(set(row) != names for row in rows):
            return None
        return [Outcome(**row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
