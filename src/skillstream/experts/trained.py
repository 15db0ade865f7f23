"""Experts that Q-learning trains: how each is trained, and where its table is kept.

The tables of seed 0 come with the package (`python -m skillstream.experts.training` writes them anew); those
of other seeds are trained when they are first asked for, in seconds, and kept in the cache
directory: `$SKILLSTREAM_CACHE`, or the one that the platform has for it.
"""

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skillstream.environments.discretising import Bins
from skillstream.errors import FileFormatError
from skillstream.experts.classic_control import (
    AcrobotWorld,
    BatchWorld,
    CartPoleWorld,
    MountainCarWorld,
    PendulumWorld,
)
from skillstream.experts.q_learning import Learnt, QLearningConfig, learn
from skillstream.files import load_arrays, save_arrays

PACKAGED = Path(__file__).parent / "trained_tables"
_KIND, _VERSION = "expert", 1


@dataclass(frozen=True, eq=False)
class Training:
    """A world, how it is cut into boxes, and how Q-learning goes about it."""

    world: BatchWorld
    bins: Bins
    config: QLearningConfig

    def key(self, seed: int) -> str:
        """A name that changes with whatever changes the outcome."""
        thresholds = [np.asarray(values, float).round(12).tolist() for values in self.bins.thresholds]
        told = repr((_VERSION, self.world, thresholds, self.config, seed))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def _even(low: float, high: float, bins: int) -> np.ndarray:
    """Thresholds of `bins` bins of equal width."""
    return np.linspace(low, high, bins + 1)[1:-1]


def _centred(limit: float, bins: int, power: float) -> np.ndarray:
    """Thresholds that lie closer together near zero."""
    places = _even(-1, 1, bins)
    return limit * np.sign(places) * np.abs(places) ** power


def _pendulum_angle(observations: np.ndarray) -> np.ndarray:
    cosine, sine, speed = np.moveaxis(observations, -1, 0)
    return np.stack([np.arctan2(sine, cosine), speed], -1)


def _acrobot_angles(observations: np.ndarray) -> np.ndarray:
    first, first_sine, second, second_sine, turn, bend = np.moveaxis(observations, -1, 0)
    return np.stack([np.arctan2(first_sine, first), np.arctan2(second_sine, second), turn, bend], -1)


_DEGREE = np.pi / 180

TRAININGS = {
    "cart-pole": Training(
        CartPoleWorld(),
        Bins(
            [
                [-0.8, 0.8],
                [-0.5, 0.5],
                np.array([-6, -1, 0, 1, 6]) * _DEGREE,
                np.array([-50, -17, 0, 17, 50]) * _DEGREE,
            ]
        ),
        QLearningConfig(
            steps=20_000, evaluations=100, exploration=(0.3, 0.02), patience=2000, evaluation_episodes=200
        ),
    ),
    "pendulum": Training(
        PendulumWorld(),
        Bins([_centred(np.pi, 31, 1.5), _centred(8.0, 31, 1.5)], _pendulum_angle),
        QLearningConfig(steps=20_000, evaluations=40, discount=0.98, wandering=0.3, evaluation_episodes=500),
    ),
    "mountain-car": Training(
        MountainCarWorld(),
        Bins([_even(-1.2, 0.6, 80), _even(-0.07, 0.07, 80)]),
        QLearningConfig(
            steps=60_000,
            evaluations=80,
            discount=1.0,
            learning_rate=(0.5, 0.005),
            exploration=(0.2, 0.005),
            wandering=0.7,
            evaluation_episodes=500,
        ),
    ),
    "acrobot": Training(
        AcrobotWorld(),
        Bins(
            [_even(-np.pi, np.pi, 14), _even(-np.pi, np.pi, 14), _even(-7, 7, 12), _even(-12, 12, 12)],
            _acrobot_angles,
        ),
        QLearningConfig(
            steps=40_000,
            copies=512,
            evaluations=40,
            discount=1.0,
            learning_rate=(0.5, 0.01),
            exploration=(0.2, 0.005),
            wandering=0.7,
            evaluation_episodes=300,
        ),
    ),
}


def trained(name: str, seed: int = 0) -> Learnt:
    """The greedy policy that Q-learning finds for a task, from the package, the cache, or by training now."""
    file = f"{name}-{TRAININGS[name].key(seed)}.safetensors"
    cached = cache_directory() / file
    for path in (PACKAGED / file, cached):
        if path.is_file():
            try:
                return read(path, name)
            except FileFormatError as error:
                warnings.warn(f"{error}; it is trained anew", stacklevel=2)
    learnt = train(name, seed)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        write(cached, learnt, name)
    except OSError as error:
        warnings.warn(
            f"the {name} expert is trained, but cannot be kept in {cached.parent} ({error}); set "
            "SKILLSTREAM_CACHE to a directory that can be written",
            stacklevel=2,
        )
    return learnt


def train(name: str, seed: int = 0) -> Learnt:
    """Train a task's expert, with a progress bar where there is a terminal."""
    task = TRAININGS[name]
    with _progress(f"Training the {name} expert") as report:
        return learn(task.world, task.bins, task.config, seed, report)


def write(path: Path, learnt: Learnt, name: str) -> None:
    """Keep a greedy policy in a file."""
    actions = learnt.actions.astype(np.uint8)
    save_arrays(path, _KIND, _VERSION, {"actions": actions}, {"score": learnt.score, "task": name})


def read(path: Path, name: str) -> Learnt:
    """Read what `write` wrote for the task `name`."""
    arrays, header = load_arrays(path, _KIND, _VERSION, lambda _: {"actions"})
    actions, task, score = arrays["actions"], TRAININGS[name], header.get("score")
    sound = actions.shape == (task.bins.num_states,) and actions.dtype == np.uint8
    sound = sound and actions.max() < task.world.num_actions
    if not sound or header.get("task") != name or not (isinstance(score, float) and np.isfinite(score)):
        raise FileFormatError(f"{path}: damaged: it does not hold a policy for {name}")
    return Learnt(actions.astype(np.int64), score)


def cache_directory() -> Path:
    """Where trained experts are kept."""
    if chosen := os.environ.get("SKILLSTREAM_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "skillstream"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "skillstream" / "Cache"
        )
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillstream"


@contextmanager
def _progress(title: str) -> Iterator[Callable[[float], None]]:
    """A bar on the terminal's error output; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)
