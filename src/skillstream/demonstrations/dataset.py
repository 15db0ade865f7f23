"""The columnar data set: checked once, on construction, and never changed afterwards."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skillstream.errors import InputError


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Many episodes of what an expert saw and did, end to end in one array per column.

    Parameters
    ----------
    observations
        Discrete: integers `[T]`, none negative. Continuous: finite numbers `[T, D]`.
    actions
        Discrete: integers `[T]` (or `[T, M]` for several at once), none negative.
        Continuous: finite floats `[T, M]`.
    episode_lengths
        Steps of each episode, in order; they add up to `T`. Default: one episode.
    rewards
        Finite floats `[T]`, kept for reports; learning does not use them.
    action_mask
        Booleans `[T]`: False where the action was not recorded (its value is then ignored).
    true_options
        Integers `[T]`, the expert's own options where they are known, to score against.

    Examples
    --------
    >>> demos = Demonstrations([0, 1, 2, 0, 1], [1, 1, 0, 1, 0], episode_lengths=[3, 2])
    >>> demos.num_episodes, demos.num_steps
    (2, 5)
    >>> demos[1].observations
    array([0, 1])
    """

    observations: np.ndarray
    actions: np.ndarray
    episode_lengths: np.ndarray
    rewards: np.ndarray | None
    action_mask: np.ndarray | None
    true_options: np.ndarray | None

    def __init__(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        episode_lengths: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        action_mask: ArrayLike | None = None,
        true_options: ArrayLike | None = None,
    ) -> None:
        seen = check_column("observations", observations)
        steps = len(seen)
        if steps == 0:
            raise InputError("observations: there is no step in it; give at least one")
        mask = None if action_mask is None else _check_mask(action_mask, steps)
        _refuse_rows_of_episodes(observations, actions)
        done = check_column("actions", actions, ignore=None if mask is None else ~mask)
        _check_length("actions", done, steps)
        columns = {
            "observations": seen,
            "actions": done,
            "episode_lengths": _check_episodes(episode_lengths, steps),
            "rewards": None if rewards is None else _check_rewards(rewards, steps),
            "action_mask": mask,
            "true_options": None if true_options is None else _check_options(true_options, steps),
        }
        for name, column in columns.items():
            if column is not None:
                column.flags.writeable = False
            object.__setattr__(self, name, column)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Demonstrations":
        """The data set at `path`: .npz, .parquet, .csv, .jsonl, "minari:NAME", or a folder by `imitation`.

        `stream_episodes` reads the same episode by episode. Nothing is downloaded, and no pickle is read.
        """
        from skillstream.demonstrations.formats import load

        return load(path)

    @staticmethod
    def from_episodes(episodes: Iterable[tuple[ArrayLike, ArrayLike]]) -> "Demonstrations":
        """A data set from one pair of observations and actions an episode, each as for a data set of its own.

        Examples
        --------
        >>> Demonstrations.from_episodes([([0, 1, 2], [1, 1, 0]), ([0, 1], [1, 0])])
        Demonstrations(2 episodes, 5 steps, observations discrete, up to 2, actions discrete, up to 1)
        """
        return Demonstrations.concatenate([Demonstrations(seen, done) for seen, done in episodes])

    @staticmethod
    def from_trajectories(trajectories: Iterable[Any]) -> "Demonstrations":
        """Trajectories as the `imitation` library has them, with `obs` `[T + 1, ...]` and `acts` `[T, ...]`.

        The observation after the last action is left out. `rews` are taken where they are there.
        """
        from skillstream.demonstrations.trajectories import from_trajectories

        return from_trajectories(trajectories)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `path`, whole or not at all: .npz, .parquet, .csv, .jsonl, or "minari:NAME"."""
        from skillstream.demonstrations.formats import save

        save(path, self)

    @property
    def num_steps(self) -> int:
        """Steps in all episodes together, `T`."""
        return len(self.observations)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return len(self.episode_lengths)

    @property
    def episode_starts(self) -> np.ndarray:
        """Booleans `[T]`, True at each episode's first step."""
        starts = np.zeros(self.num_steps, bool)
        starts[self._offsets()[:-1]] = True
        return starts

    def locate(self, step: int) -> tuple[int, int]:
        """The episode that row `step` belongs to, and the row's place in it."""
        if not 0 <= step < self.num_steps:
            raise IndexError(f"step: there are {self.num_steps} steps, found {step}")
        offsets = self._offsets()
        episode = int(np.searchsorted(offsets, step, side="right")) - 1
        return episode, step - int(offsets[episode])

    def __len__(self) -> int:
        return self.num_episodes

    def __iter__(self) -> Iterator["Demonstrations"]:
        return (self[episode] for episode in range(self.num_episodes))

    def __getitem__(self, episodes: int | slice | Sequence[int] | np.ndarray) -> "Demonstrations":
        """The chosen episodes, as a data set of their own."""
        try:
            chosen = np.atleast_1d(np.arange(self.num_episodes)[episodes])
        except IndexError as error:
            message = f"episodes: {episodes!r} does not choose among {self.num_episodes} episodes"
            raise IndexError(message) from error
        if len(chosen) == 0:
            raise InputError(f"episodes: {episodes!r} chooses none of the {self.num_episodes} episodes")
        offsets = self._offsets()
        rows = np.concatenate([np.arange(int(offsets[e]), int(offsets[e + 1])) for e in chosen])
        return self._rows(rows, self.episode_lengths[chosen])

    def head(self, steps: int) -> "Demonstrations":
        """The first steps; the last episode is cut where they run out.

        Examples
        --------
        >>> Demonstrations([0, 1, 2, 0, 1], [1, 1, 0, 1, 0], episode_lengths=[3, 2]).head(4).episode_lengths
        array([3, 1])
        """
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
            raise InputError(f"steps: must be a whole number from 1, found {steps!r}")
        return self.where(np.arange(self.num_steps) < steps)

    def where(self, steps: np.ndarray) -> "Demonstrations":
        """The steps that are marked True; an episode with a gap becomes several.

        Examples
        --------
        >>> demos = Demonstrations([0, 1, 2, 0, 1], [1, 1, 0, 1, 0], episode_lengths=[3, 2])
        >>> demos.where(demos.observations != 1).episode_lengths
        array([1, 1, 1])
        """
        marks = np.asarray(steps)
        if marks.dtype != bool or marks.shape != (self.num_steps,):
            found = f"{marks.dtype} {list(marks.shape)}"
            raise InputError(f"steps: must be {self.num_steps} booleans, one a step, found {found}")
        rows = np.flatnonzero(marks)
        if len(rows) == 0:
            raise InputError("steps: marks none of the steps")
        starts = np.flatnonzero(self.episode_starts[rows] | np.append(True, np.diff(rows) > 1))
        return self._rows(rows, np.diff(np.append(starts, len(rows))))

    def split(self, fraction: float, seed: int = 0) -> tuple["Demonstrations", "Demonstrations"]:
        """Two data sets: about `fraction` of the episodes, drawn at random, and the others.

        Episodes stay whole and keep their order; each side gets at least one.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InputError(f"seed: must be a whole number from 0, found {seed!r}")
        if not 0 < fraction < 1:
            raise InputError(f"fraction: must lie strictly between 0 and 1, found {fraction}")
        if self.num_episodes < 2:
            raise InputError("split: there is only one episode, and episodes are not cut; give at least two")
        count = min(max(round(fraction * self.num_episodes), 1), self.num_episodes - 1)
        order = np.random.default_rng(seed).permutation(self.num_episodes)
        return self[np.sort(order[:count])], self[np.sort(order[count:])]

    @staticmethod
    def concatenate(parts: Sequence["Demonstrations"]) -> "Demonstrations":
        """All episodes of `parts`, in order. A column must be there in all parts or in none."""
        if not parts:
            raise InputError("parts: the list is empty; give at least one data set")
        columns = {}
        for field in fields(Demonstrations):
            values = [getattr(part, field.name) for part in parts]
            missing = [value is None for value in values]
            if all(missing):
                continue
            if any(missing):
                raise InputError(
                    f"{field.name}: given in some of the parts but not in part {missing.index(True)}"
                )
            kinds = {(value.dtype.kind, value.shape[1:]) for value in values}
            if len(kinds) > 1:
                raise InputError(f"{field.name}: the parts hold columns of different kinds or sizes")
            columns[field.name] = np.concatenate(values)
        return Demonstrations(**columns)

    def _rows(self, rows: np.ndarray, episode_lengths: np.ndarray) -> "Demonstrations":
        """These steps, of episodes of these lengths."""
        columns: dict[str, Any] = {
            field.name: None if getattr(self, field.name) is None else getattr(self, field.name)[rows]
            for field in fields(self)
            if field.name != "episode_lengths"
        }
        return Demonstrations(episode_lengths=episode_lengths, **columns)

    def _offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.episode_lengths)])

    def __repr__(self) -> str:
        missing = 0 if self.action_mask is None else int((~self.action_mask).sum())
        return (
            f"Demonstrations({self.num_episodes} episode{'s' if self.num_episodes > 1 else ''}, "
            f"{self.num_steps} steps, observations {_describe(self.observations)}, actions "
            f"{_describe(self.actions)}{f', {missing} not recorded' if missing else ''})"
        )


def _refuse_rows_of_episodes(observations: ArrayLike, actions: ArrayLike) -> None:
    """Refuse episodes of one length given as rows, which would pass for a few steps of many numbers."""
    seen, done = np.asarray(observations), np.asarray(actions)
    rows = seen.ndim == 2 and seen.shape == done.shape and seen.shape[1] > seen.shape[0]
    if rows and seen.dtype.kind in "iu" and done.dtype.kind in "iu":
        raise InputError(
            f"observations: found {seen.shape[0]} rows of {seen.shape[1]} whole numbers, actions too; if "
            "each row is an episode, use Demonstrations.from_episodes, or lay them end to end and give "
            "episode_lengths"
        )


def check_column(name: str, values: ArrayLike, ignore: np.ndarray | None = None) -> np.ndarray:
    """A fresh, checked array of observations or actions; `ignore` marks rows whose value does not count."""
    array = _numeric(name, values)
    if array.dtype.kind == "f" and array.ndim == 1:
        raise InputError(
            f"{name}: found floats in one dimension; discrete {name} must be integers [T] "
            "(use .astype(int) if they are whole), continuous ones an array [T, D] (use [:, None] for D = 1)"
        )
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise InputError(
            f"{name}: must have the shape [T] or [T, D], found {array.shape}; give episodes one by one to "
            "Demonstrations.from_episodes, and images flattened"
        )
    if ignore is not None and len(ignore) == len(array):
        array[ignore] = 0
    if array.dtype.kind == "f":
        _refuse(name, ~np.isfinite(array), array, "is not finite; drop or repair the step")
    elif array.ndim == 1 or name == "actions":
        if array.size and array.min() < 0:
            _refuse(name, array < 0, array, _NEGATIVE[name])
    else:
        array = array.astype(np.float64)
    return array


_NEGATIVE = dict.fromkeys(("observations", "true_options"), "is negative; discrete values count from 0") | {
    "actions": "is negative; discrete values count from 0 (a missing action has False in action_mask; "
    "continuous ones must be floats)"
}


def _numeric(name: str, values: ArrayLike) -> np.ndarray:
    """A copy of `values` as int64 or float64 (float32 stays float32)."""
    try:
        array = np.array(values)
    except ValueError as error:
        raise InputError(
            f"{name}: the rows have different lengths; give one array of numbers, or episodes one by one to "
            "Demonstrations.from_episodes"
        ) from error
    if array.size == 0 and array.dtype.kind == "f" and array.ndim == 1:
        array = array.astype(np.int64)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
            raise InputError(f"{name}: found {array.max()}, which does not fit into 64 bits")
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
            return array if array.dtype == np.float32 else array.astype(np.float64)
    raise InputError(f"{name}: must be integers or floats, found {array.dtype}")


def _refuse(name: str, bad: np.ndarray, array: np.ndarray, problem: str) -> None:
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise InputError(f"{name}: step {row} holds {array[row]}, which {problem}")


def _check_length(name: str, array: np.ndarray, steps: int) -> None:
    if array.ndim == 0 or len(array) != steps:
        found = "a single number" if array.ndim == 0 else str(len(array))
        raise InputError(f"{name}: must have one row a step; observations has {steps}, {name} {found}")


def _check_episodes(lengths: ArrayLike | None, steps: int) -> np.ndarray:
    if lengths is None:
        return np.array([steps])
    array = _numeric("episode_lengths", lengths)
    if array.ndim != 1 or array.dtype.kind != "i":
        raise InputError(f"episode_lengths: must be integers [episodes], found {array.dtype} {array.shape}")
    if (array <= 0).any():
        episode = int(np.argmax(array <= 0))
        raise InputError(
            f"episode_lengths: episode {episode} has {array[episode]} steps; leave empty episodes out"
        )
    if (array > steps).any() or array.sum() != steps:
        raise InputError(f"episode_lengths: they add up to {array.sum()}, but there are {steps} steps")
    return array


def _check_rewards(rewards: ArrayLike, steps: int) -> np.ndarray:
    array = _numeric("rewards", rewards).astype(np.float64)
    _check_length("rewards", array, steps)
    if array.ndim != 1:
        raise InputError(f"rewards: must have the shape [T], found {array.shape}")
    _refuse("rewards", ~np.isfinite(array), array, "is not finite")
    return array


def _check_mask(mask: ArrayLike, steps: int) -> np.ndarray:
    array = np.array(mask)
    _check_length("action_mask", array, steps)
    if array.dtype != bool or array.ndim != 1:
        raise InputError(f"action_mask: must be booleans [T], found {array.dtype} {array.shape}")
    return array


def _check_options(options: ArrayLike, steps: int) -> np.ndarray:
    array = check_column("true_options", options)
    _check_length("true_options", array, steps)
    if array.ndim != 1 or array.dtype.kind != "i":
        raise InputError(f"true_options: must be integers [T], found {array.dtype} {array.shape}")
    return array


def _describe(array: np.ndarray) -> str:
    if array.dtype.kind == "i":
        return f"discrete, up to {array.max()}"
    return f"continuous [{array.shape[1]}]"
