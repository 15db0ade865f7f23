"""One row a step: the columns of a CSV or Parquet file, and what they mean.

    episode, observation | observation_0, observation_1, ..., action | action_0, action_1, ...,
    reward, true_option, action_mask

Without `episode` all rows are one episode. A column `step` may be there and is not read. What was not
recorded of the actions is left empty (null).
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import Columns, Piece
from skillstream.errors import FileFormatError, shown

SINGLE = {"reward": "rewards", "true_option": "true_options", "action_mask": "action_mask"}
_OTHERS = ("episode", *SINGLE, "step")
_NUMBERED = re.compile(r"(observation|action)_(0|[1-9]\d*)")


@dataclass(frozen=True)
class Layout:
    """Which columns of a table hold what."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    others: frozenset[str]

    def names(self) -> list[str]:
        """Every column to be read."""
        return [*self.observations, *self.actions, *sorted(self.others - {"step"})]


def understand(where: str, names: Sequence[str]) -> Layout:
    """The layout that the names of a table's columns mean."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FileFormatError(f"{where}: the column {shown(twice[0])} is there twice; remove one")
    unknown = [
        n for n in names if n not in (*_OTHERS, "observation", "action") and not _NUMBERED.fullmatch(n)
    ]
    if unknown:
        raise FileFormatError(f"{where}: the column {shown(unknown[0])} is not known{_hint(unknown[0])}")
    groups = {kind: _group(where, names, kind) for kind in ("observation", "action")}
    return Layout(groups["observation"], groups["action"], frozenset(names) & frozenset(_OTHERS))


def _group(where: str, names: Sequence[str], kind: str) -> tuple[str, ...]:
    """`kind`, or `kind_0` to the last in the order of their numbers."""
    numbered = [name for name in names if _NUMBERED.fullmatch(name) and name.startswith(kind)]
    if kind in names and numbered:
        raise FileFormatError(f"{where}: there are both {kind!r} and {numbered[0]!r}; keep one way of naming")
    if kind in names:
        return (kind,)
    if not numbered:
        raise FileFormatError(
            f"{where}: there is no column {kind!r} (nor {kind}_0, {kind}_1, ...) among {shown(list(names))}; "
            "the first row must name the columns"
        )
    expected = tuple(f"{kind}_{i}" for i in range(len(numbered)))
    present = set(numbered)
    missing = [name for name in expected if name not in present]
    if missing:
        raise FileFormatError(f"{where}: the column {missing[0]!r} is missing; count from 0 without gaps")
    return expected


def _hint(name: str) -> str:
    known = [*_OTHERS, "observation", "action", "observation_0", "action_0"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if near:
        return f"; did you mean {near[0]!r}?"
    return "; known are " + ", ".join(known) + "; rename or remove it"


class StepPieces:
    """Makes pieces of blocks of rows: finds where episodes begin, and which actions are missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: int | None = None
        self._seen: set[int] = set()

    def piece(
        self,
        columns: Columns,
        missing: np.ndarray | None,
        ids: np.ndarray | None,
        place: Callable[[int], str],
    ) -> Piece:
        """The next block: its columns, the rows without an action, and the episode of each row.

        Without `ids` all rows are one episode.
        """
        steps = len(columns["observations"])
        if missing is not None:
            columns["action_mask"] = columns.get("action_mask", np.True_) & ~missing
        ids = np.zeros(steps, np.int64) if ids is None else ids
        starts = np.ones(steps, bool)
        starts[1:] = ids[1:] != ids[:-1]
        starts[:1] = ids[:1] != self._last
        for row in np.flatnonzero(starts).tolist():
            if int(ids[row]) in self._seen:
                raise FileFormatError(
                    f"{self._path}: {place(row)}: episode {ids[row]} comes back after another; keep the rows "
                    "of an episode together (sort the file by episode and step)"
                )
            self._seen.add(int(ids[row]))
        if steps:
            self._last = int(ids[-1])
        return Piece(columns, starts, place)


@dataclass(frozen=True)
class Field:
    """A column to be written: its numbers, and the rows that have none."""

    name: str
    values: np.ndarray
    missing: np.ndarray | None = None
    guessable: bool = True  # from numbers in text alone


def fields_of(demos: Demonstrations, rows: int) -> Iterator[list[Field]]:
    """The columns to be written, by blocks of `rows` steps."""
    ids = np.repeat(np.arange(demos.num_episodes), demos.episode_lengths)
    missing = None if demos.action_mask is None else ~demos.action_mask
    whole = [Field("episode", ids)]
    whole += _spread("observation", demos.observations, None)
    whole += _spread("action", demos.actions, missing)
    for name, column in SINGLE.items():
        values = getattr(demos, column)
        if values is not None:
            whole.append(Field(name, values))
    for first in range(0, demos.num_steps, rows):
        part = slice(first, first + rows)
        yield [
            Field(f.name, f.values[part], None if f.missing is None else f.missing[part], f.guessable)
            for f in whole
        ]


def _spread(kind: str, column: np.ndarray, missing: np.ndarray | None) -> list[Field]:
    guessable = column.dtype == np.int64 or (column.dtype == np.float64 and missing is None)
    if column.ndim == 1:
        return [Field(kind, column, missing, guessable)]
    return [Field(f"{kind}_{i}", column[:, i], missing, guessable) for i in range(column.shape[1])]
