"""Minari data sets under Minari's local root (`MINARI_DATASETS_PATH`). Nothing is downloaded.

Spaces become columns as `spaces` says. What Minari has no place for is kept in its `infos`: `true_option`
and `action_mask`, one number a step and one more. Rewards that are not known are written as NaN.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.minari_checks import check_minari
from skillstream.demonstrations.pieces import Columns, Piece, one_episode, optional, refuse_false_size
from skillstream.demonstrations.spaces import flatten_actions, flatten_observations
from skillstream.errors import FileFormatError, InputError, SkillstreamError
from skillstream.files import not_written

if TYPE_CHECKING:
    from gymnasium import Space

_INFOS = {"true_option": "true_options", "action_mask": "action_mask"}
_BATCH = 256  # episodes written at a time
_EPISODE_BYTES = 2**15  # what HDF5 and Minari add to an episode's numbers
_DAMAGE = (OSError, KeyError, TypeError, AssertionError, AttributeError, IndexError, OverflowError)
_DAMAGE += (RuntimeError, ValueError)  # what Minari, h5py and pyarrow let out; deep nesting is a RuntimeError


def write(name: str, demos: Demonstrations) -> None:
    """Write a new data set beside its place, then move it there."""
    minari = _minari()
    final = _folder(name)
    if final.exists():
        raise FileExistsError(
            f"path: there is a Minari data set {name} already, in {final}; take another version"
        )
    with _whole_folder(final) as folder:
        _refuse_full_disk(folder, demos)
        spaces = _space_of(demos.observations, True), _space_of(demos.actions, False)
        storage = optional("minari.dataset.minari_storage", "minari", _PURPOSE).MinariStorage.new(
            folder / "data", observation_space=spaces[0], action_space=spaces[1]
        )
        storage.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
        for first in range(0, demos.num_episodes, _BATCH):
            storage.update_episodes(_buffer(episode) for episode in demos[first : first + _BATCH])


def read(name: str) -> Iterator[Piece]:
    """An episode at a time."""
    minari = _minari()
    folder = _folder(name)
    if not (folder / "data").is_dir():
        raise FileNotFoundError(
            f"path: there is no Minari data set {name} in {folder.parent} (set by MINARI_DATASETS_PATH); "
            f"skillstream downloads nothing: minari download {name}"
        )
    try:
        size = check_minari(f"minari:{name}", folder / "data")
        data_set = minari.load_dataset(name, download=False)
        width = _width(data_set.observation_space)
        for episode in data_set.iterate_episodes():
            refuse_false_size(f"minari:{name}", 8 * width * len(episode.rewards), size)
            yield _episode(name, data_set.observation_space, data_set.action_space, episode)
    except SkillstreamError:
        raise
    except _DAMAGE as error:
        raise _damaged(name, error) from error


_PURPOSE = "reading and writing Minari data sets"


def _minari() -> Any:
    optional("h5py", "minari", _PURPOSE)
    return optional("minari", "minari", _PURPOSE)


def _folder(name: str) -> Path:
    """Where Minari keeps the data set of this name."""
    parse = optional("minari.dataset.minari_dataset", "minari", _PURPOSE).parse_dataset_id
    try:
        parse(name)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"path: {name!r} is not a name of a Minari data set, like 'pole/expert-v0'"
        ) from error
    return optional("minari.storage.datasets_root_dir", "minari", _PURPOSE).get_dataset_path(name)


def _damaged(name: str, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"minari:{name}: Minari cannot read it ({type(error).__name__}: {error}); it may be damaged"
    )


@contextmanager
def _whole_folder(final: Path) -> Iterator[Path]:
    """A folder that becomes `final` when the block ends well, and else vanishes."""
    temporary = final.parent / f".{final.name}.{secrets.token_hex(8)}"
    try:
        (temporary / "data").mkdir(parents=True)
        yield temporary
        for file in (temporary / "data").iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        temporary.rename(final)
    except BaseException as error:
        with suppress(OSError):
            shutil.rmtree(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise not_written(final, error) from error
        raise


def _refuse_full_disk(folder: Path, demos: Demonstrations) -> None:
    """Fail before HDF5 does: it can bring the whole process down when the disk fills up under it."""
    columns = (getattr(demos, field.name) for field in fields(demos))
    size = (
        sum(column.nbytes for column in columns if column is not None) + demos.num_episodes * _EPISODE_BYTES
    )
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, "")


def _space_of(column: np.ndarray, observed: bool) -> "Space":
    from gymnasium import spaces

    if column.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, column.shape[1:], column.dtype.type)
    if column.ndim == 1:
        return spaces.Discrete(int(column.max()) + 1)
    return spaces.MultiDiscrete(column.max(0) + 1)


def _buffer(episode: Demonstrations) -> Any:
    """An episode as Minari takes it, its last observation repeated, since it needs one more."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    infos = {
        info: np.append(column, column[-1:])
        for info, name in _INFOS.items()
        if (column := getattr(episode, name)) is not None
    }
    unknown = np.full(episode.num_steps, np.nan)
    ends = np.arange(episode.num_steps) == episode.num_steps - 1
    return EpisodeBuffer(
        observations=np.concatenate([episode.observations, episode.observations[-1:]]),  # pyright: ignore[reportArgumentType]
        actions=episode.actions,  # pyright: ignore[reportArgumentType]
        rewards=unknown if episode.rewards is None else episode.rewards,  # pyright: ignore[reportArgumentType]
        terminations=np.zeros_like(ends),  # pyright: ignore[reportArgumentType]
        truncations=ends,  # pyright: ignore[reportArgumentType]
        infos=infos or None,
    )


def _width(observed: "Space") -> int:
    """Numbers in a step once its parts are laid flat: many more, perhaps, than stand in the file."""
    from gymnasium import spaces

    flat = not isinstance(observed, spaces.Discrete) and getattr(observed, "is_np_flattenable", False)
    return spaces.flatdim(observed) if flat else 1


def _episode(name: str, observed: "Space", done: "Space", episode: Any) -> Piece:
    steps = len(episode.rewards)
    place = f"episode {episode.id}"
    try:
        observations = flatten_observations(observed, episode.observations)
        columns: Columns = {"actions": flatten_actions(done, episode.actions)}
    except InputError as error:
        raise InputError(f"minari:{name}: {place}: {error}") from error
    if len(observations) != steps + 1 or len(columns["actions"]) != steps:
        raise FileFormatError(
            f"minari:{name}: {place}: {len(observations)} observations and {len(columns['actions'])} actions "
            f"do not belong to {steps} steps"
        )
    columns["observations"] = observations[:-1]
    if not np.isnan(episode.rewards).all():
        columns["rewards"] = episode.rewards
    for info, column in _INFOS.items():
        if episode.infos and info in episode.infos:
            columns[column] = np.asarray(episode.infos[info])[:steps]
    return one_episode(columns, place)
