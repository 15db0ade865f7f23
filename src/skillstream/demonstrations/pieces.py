"""What every reader gives: pieces of a data set, a bounded number of steps at a time, in order.

A piece may hold many episodes, or a part of one. Here pieces become one data set, or one episode after
another, and here their numbers are checked, so that a message can say where in the file they stand.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import FileFormatError, InputError, MissingExtraError, shown

STEP_COLUMNS = ("observations", "actions", "rewards", "action_mask", "true_options")
DTYPES = ("int64", "float32", "float64")

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Piece:
    """Some steps, one after another: the columns that are there, and which rows begin an episode.

    `place` says where in the file a row stands, as a reader would look for it ("line 7").
    """

    columns: Columns
    starts: np.ndarray
    place: Callable[[int], str]


def in_steps_of(place: str) -> Callable[[int], str]:
    """Names the rows of one episode."""
    return lambda row: f"{place}, step {row}"


def one_episode(columns: Columns, place: str) -> Piece:
    """A piece that is one whole episode."""
    starts = np.zeros(len(columns["observations"]), bool)
    starts[:1] = True
    return Piece(columns, starts, in_steps_of(place))


def join(where: str, pieces: Iterable[Piece]) -> Demonstrations:
    """One data set of all pieces; refused when it outgrows the machine's memory."""
    parts: list[Piece] = []
    size = 0
    for piece in _checked(where, pieces):
        parts.append(piece)
        size += sum(column.nbytes for column in piece.columns.values())
        if 2 * size > physical_memory():  # the parts, and the columns they are joined into
            raise InputError(f"{where}: does not fit into memory; read it with stream_episodes")
    return _data_set(where, parts)


def episodes(where: str, pieces: Iterable[Piece]) -> Iterator[Demonstrations]:
    """The episodes one by one, holding no more than one of them and one piece."""
    unfinished: list[Piece] = []
    empty = True
    for piece in _checked(where, pieces):
        cuts = [0, *np.flatnonzero(piece.starts).tolist(), len(piece.starts)]
        for first, last in pairwise(cuts):
            if first < last:
                if unfinished and piece.starts[first]:
                    yield _data_set(where, unfinished)
                    unfinished = []
                unfinished.append(_rows(piece, first, last))
                empty = False
    if empty:
        raise InputError(f"{where}: there is no step in it")
    yield _data_set(where, unfinished)


def numbers(name: str, place: Callable[[int], str], values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Numbers given as lists as an array, or an error that says in which row they are none."""
    try:
        array = np.array(values)
    except OverflowError:
        raise InputError(f"{place(0)}: {name}: from here on holds a number too large for a float") from None
    except ValueError:
        shapes = [_shape(value) for value in values]
        row = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        raise InputError(
            f"{place(row)}: {name}: found {shown(values[row])}, of another length than the steps before"
        ) from None
    if (
        array.dtype.kind == "f"
        and array.size
        and np.abs(array).max() >= _NO_INTEGER
        and not _with_point(values)
    ):
        raise InputError(
            f"{place(0)}: {name}: from here on holds a whole number that does not fit into 64 bits"
        )
    if array.ndim and array.size and array.dtype.kind not in "iuf":
        row = next((i for i, value in enumerate(values) if np.array(value).dtype.kind not in "iuf"), 0)
        raise InputError(f"{place(row)}: {name}: must be numbers, found {shown(values[row])}")
    if array.ndim == 0:
        raise InputError(f"{place(0)}: {name}: must be a list, found {shown(values)}")
    return array


def _with_point(values: Any) -> bool:
    """Whether any of the numbers in lists is a float, so that NumPy has not just made all whole ones so."""
    parts = [values]
    while parts:
        part = parts.pop()
        if isinstance(part, float | np.ndarray | np.generic):
            return True
        if isinstance(part, list | tuple):
            parts.extend(part)
    return False


_NO_INTEGER = 2.0**63


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return np.shape(value)
    except ValueError:
        return None


def as_columns(array: np.ndarray) -> np.ndarray:
    """Floats as `[T, D]`, whole numbers as `[T]` or `[T, D]`."""
    if array.ndim > 2 or (array.ndim == 1 and array.dtype.kind == "f"):
        return array.reshape(len(array), -1)
    return array


def place_of(name: str, column: np.ndarray, row: int) -> str:
    """Which number of a step it is that cannot be: `observation_2` or `reward`."""
    if column.ndim == 1:
        return name.removesuffix("s")
    bad = ~np.isfinite(column[row]) if column.dtype.kind == "f" else column[row] < 0
    return f"{name.removesuffix('s')}_{int(np.argmax(bad))}"


def optional(library: str, extra: str, purpose: str) -> Any:
    """A library that only an extra brings."""
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {library.partition('.')[0]}: pip install skillstream[{extra}]"
        ) from error


def refuse_false_size(where: str, claimed: int, held: int) -> None:
    """Raise a `FileFormatError` where a file of `held` bytes claims more than it is likely to stand for.

    Some formats say the same number a million times in a few bytes, so some excess is believed of every file.
    """
    if claimed > _ALWAYS + _TIMES * held:
        raise FileFormatError(f"{where}: claims {claimed} bytes of numbers, for which it is too small")


_ALWAYS, _TIMES = 2**28, 1032


def physical_memory() -> int:
    """Bytes of memory in this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _checked(where: str, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, each refused if it holds what no data set may, or differs in kind from the first."""
    first: Columns | None = None
    for piece in pieces:
        if len(piece.starts) == 0:
            continue
        place = f"{where}: {piece.place(0)}"
        signed = {name: _signed(place, name, column) for name, column in piece.columns.items()}
        columns = _tidied(signed)
        if first is None:
            first = {name: column[:1] for name, column in columns.items()}
        columns = {name: _like(place, name, first, column) for name, column in columns.items()}
        _same_names(place, first, columns)
        tidy = Piece(columns, piece.starts, piece.place)
        _refuse_values(where, tidy)
        yield tidy


def _signed(place: str, name: str, column: np.ndarray) -> np.ndarray:
    """Numbers that can be joined to other pieces': beside signed ones, NumPy makes floats of uint64."""
    if column.dtype.kind not in "iufb":
        raise InputError(f"{place}: {name}: must be integers or floats, found {shown(str(column.dtype))}")
    if column.dtype != np.uint64:
        return column
    if column.size and column.max() > np.iinfo(np.int64).max:
        raise InputError(f"{place}: {name}: found {column.max()}, which does not fit into 64 bits")
    return column.astype(np.int64)


def _tidied(columns: Columns) -> Columns:
    """Columns in the shapes of a data set; 0 for what the actions hold that were not recorded."""
    tidy = {**columns}
    for name in ("observations", "actions"):
        tidy[name] = as_columns(columns[name])
    if tidy["observations"].ndim == 2 and tidy["observations"].dtype.kind in "iu":
        tidy["observations"] = tidy["observations"].astype(np.float64)
    mask = tidy.get("action_mask")
    if mask is not None and mask.dtype == bool and mask.shape == tidy["actions"].shape[:1]:
        tidy["actions"] = tidy["actions"].copy()
        tidy["actions"][~mask] = 0
    return tidy


def _like(place: str, name: str, first: Columns, column: np.ndarray) -> np.ndarray:
    """`column` in the kind of the first piece's, if no number changes by that."""
    if name not in first:
        return column
    model = first[name]
    if model.dtype.kind == "f" and column.dtype.kind in "iu":
        column = as_columns(column.astype(model.dtype))
    elif model.dtype.kind in "iu" and column.dtype.kind == "f":
        raise InputError(
            f"{place}: {name}: found numbers with a fraction, but whole numbers before; "
            f"write those before with a point too (1.0)"
        )
    if model.shape[1:] != column.shape[1:]:
        raise InputError(
            f"{place}: {name}: found {_width(column)} a step, but {_width(model)} before; "
            "all steps must hold the same amount"
        )
    return column


def _same_names(place: str, first: Columns, columns: Columns) -> None:
    odd = (set(first) ^ set(columns)) - {"action_mask"}
    if odd:
        name = min(odd)
        here, before = ("given here", "not before") if name in columns else ("missing here", "given before")
        raise InputError(f"{place}: {name}: {here}, but {before}; give it everywhere or nowhere")


def _refuse_values(where: str, piece: Piece) -> None:
    for name, column in piece.columns.items():
        if column.dtype.kind == "f":
            bad, problem = ~np.isfinite(column), "is not finite; drop or repair the step"
        elif name != "rewards" and column.dtype.kind == "i":
            bad, problem = column < 0, "is negative; discrete values count from 0"
        else:
            continue
        if bad.any():
            row = int(np.argwhere(bad)[0][0])
            value = column[row][bad[row]].flat[0]
            which = place_of(name, column, row)
            raise InputError(f"{where}: {piece.place(row)}: {which} holds {value}, which {problem}")


def _rows(piece: Piece, first: int, last: int) -> Piece:
    columns = {name: column[first:last] for name, column in piece.columns.items()}
    return Piece(columns, piece.starts[first:last], piece.place)


def _data_set(where: str, parts: list[Piece]) -> Demonstrations:
    if not parts:
        raise InputError(f"{where}: there is no step in it")
    columns: dict[str, Any] = {}
    for name in STEP_COLUMNS:
        if any(name in part.columns for part in parts):
            columns[name] = np.concatenate([_column(part, name) for part in parts])
    starts = np.concatenate([part.starts for part in parts])
    parts.clear()
    starts[0] = True
    lengths = np.diff(np.append(np.flatnonzero(starts), len(starts)))
    try:
        return Demonstrations(episode_lengths=lengths, **columns)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _column(part: Piece, name: str) -> np.ndarray:
    """A column of a piece; all actions are recorded where nothing says otherwise."""
    if name == "action_mask" and name not in part.columns:
        return np.ones(len(part.starts), bool)
    return part.columns[name]


def _width(column: np.ndarray) -> str:
    return "one number" if column.ndim == 1 else f"{column.shape[1]} in a list"
