"""CSV, as a person or a spreadsheet writes it: a header, then one row a step (see `step_table`).

Numbers without a point are whole; the first block of rows decides. A header can say it instead:
`action_0:float32`.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import DTYPES, Columns, Piece
from skillstream.demonstrations.step_table import (
    SINGLE,
    Layout,
    StepPieces,
    fields_of,
    understand,
)
from skillstream.errors import FileFormatError, shown
from skillstream.files import open_whole

_ROWS = 8192
_WHOLE = {"episode", "true_option"}
_TRUTH = {"1": True, "0": False, "true": True, "false": False}


def write(path: Path, demos: Demonstrations) -> None:
    """Write a header and one row a step, each number with all its digits."""
    with open_whole(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        for number, fields in enumerate(fields_of(demos, _ROWS)):
            if number == 0:
                writer.writerow(f.name if f.guessable else f"{f.name}:{f.values.dtype}" for f in fields)
            columns = []
            for field in fields:
                values: list[object] = field.values.tolist()
                if field.values.dtype == bool:
                    values = ["true" if value else "false" for value in values]
                if field.missing is not None:
                    values = ["" if m else v for v, m in zip(values, field.missing, strict=True)]
                columns.append(values)
            writer.writerows(zip(*columns, strict=True))
        text.detach()


def read(path: Path) -> Iterator[Piece]:
    """Blocks of rows."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            table = _Table(path, next(reader, []))
            while True:
                first = reader.line_num + 1
                rows = list(islice(reader, _ROWS))
                if not rows:
                    return
                yield table.piece(rows, first)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV file ({error})") from error


@dataclass
class _Block:
    """Rows as columns of text, and the line that each row stands in."""

    cells: dict[str, tuple[str, ...]]
    lines: Sequence[int]


class _Table:
    """Turns rows of text into pieces; what it learns from the first holds for all."""

    def __init__(self, path: Path, header: list[str]) -> None:
        self._path = path
        cells = [cell.strip() for cell in header]
        if len(cells) == 1 and (";" in cells[0] or "\t" in cells[0]):
            raise FileFormatError(
                f"{path}, line 1: the columns must be separated by commas, found {shown(cells[0])}"
            )
        names = [cell.partition(":")[0] for cell in cells]
        self._header = names
        self._layout: Layout = understand(f"{path}, line 1", names)
        self._dtypes = self._said(cells)
        self._pieces = StepPieces(path)

    def piece(self, rows: list[list[str]], first: int) -> Piece:
        """Rows that begin in the line `first` of the file."""
        block = self._block(rows, first)
        layout = self._layout
        missing = self._missing(block)
        columns: Columns = {
            "observations": self._group("observation", layout.observations, block, None),
            "actions": self._group("action", layout.actions, block, missing),
        }
        for name in layout.others & set(SINGLE):
            columns[SINGLE[name]] = self._single(name, block)
        ids = None
        if "episode" in layout.others:
            ids = self._numbers("episode", block, np.dtype(np.int64), None)
        lines = block.lines  # alone: a piece may live long, and the text of its rows should not
        return self._pieces.piece(columns, missing, ids, lambda row: f"line {lines[row]}")

    def _said(self, cells: list[str]) -> dict[str, np.dtype]:
        """The types that the header gives: `action_0:float32`."""
        said = {}
        for cell in cells:
            name, colon, dtype = cell.partition(":")
            if colon and dtype not in DTYPES:
                raise FileFormatError(
                    f"{self._path}, line 1: {shown(cell)}: the type must be one of {', '.join(DTYPES)}"
                )
            if colon:
                said[name.partition("_")[0]] = np.dtype(dtype)
        return said

    def _block(self, rows: list[list[str]], first: int) -> _Block:
        lines: Sequence[int] = range(first, first + len(rows))
        if not all(rows):  # empty lines
            lines = [line for line, row in zip(lines, rows, strict=True) if row]
            rows = [row for row in rows if row]
        width = len(self._header)
        try:
            columns = list(zip(*rows, strict=True)) or [()] * width
        except ValueError:
            columns = []
        if len(columns) != width:
            line, row = next((n, row) for n, row in zip(lines, rows, strict=True) if len(row) != width)
            raise FileFormatError(
                f"{self._path}, line {line}: found {len(row)} cells, the header names {width}; "
                "the line may be cut off, or hold a comma too many"
            )
        return _Block(dict(zip(self._header, columns, strict=True)), lines)

    def _missing(self, block: _Block) -> np.ndarray | None:
        """The rows without an action, or None if all have one."""
        names = self._layout.actions
        if not any("" in block.cells[name] for name in names):
            return None
        empty = np.array([[cell == "" for cell in block.cells[name]] for name in names])
        part = empty.any(0) & ~empty.all(0)
        if part.any():
            row = int(np.argmax(part))
            name = names[int(np.argmax(empty[:, row]))]
            raise self._cell(block, name, row, "a number", "leave all of an action's columns empty, or none")
        return empty[0]

    def _group(
        self, kind: str, names: tuple[str, ...], block: _Block, missing: np.ndarray | None
    ) -> np.ndarray:
        """The observations, or the actions."""
        if kind not in self._dtypes:
            discrete = kind == "action" or names[0] == kind
            whole = discrete and all(_are_whole(block.cells[name]) for name in names)
            self._dtypes[kind] = np.dtype(np.int64 if whole else np.float64)
        dtype = self._dtypes[kind]
        columns = [self._numbers(name, block, dtype, missing) for name in names]
        return columns[0] if names[0] == kind else np.stack(columns, 1)

    def _single(self, name: str, block: _Block) -> np.ndarray:
        if name != "action_mask":
            return self._numbers(name, block, np.dtype(np.int64 if name in _WHOLE else np.float64), None)
        try:
            return np.array([_TRUTH[cell.strip().lower()] for cell in block.cells[name]], bool)
        except KeyError:
            cells = block.cells[name]
            row = next(i for i, cell in enumerate(cells) if cell.strip().lower() not in _TRUTH)
            raise self._cell(block, name, row, "true or false", "write true or false") from None

    def _numbers(self, name: str, block: _Block, dtype: np.dtype, missing: np.ndarray | None) -> np.ndarray:
        cells = block.cells[name]
        if missing is not None:
            cells = ["0" if empty else cell for cell, empty in zip(cells, missing, strict=True)]
        convert = int if dtype.kind == "i" else float
        try:
            array = np.array(list(map(convert, cells)), np.int64 if convert is int else np.float64)
        except (ValueError, OverflowError):
            row = next(i for i, cell in enumerate(cells) if not _fits(cell, convert))
            wanted = "a whole number" if convert is int else "a number"
            fix = "repair the cell" if cells[row] else "fill it in: only actions may be empty"
            if convert is int and name not in _WHOLE and _fits(cells[row], float):
                fix = f"name the column {name}:float64 in line 1 if they are not whole"
            raise self._cell(block, name, row, wanted, fix) from None
        with np.errstate(over="ignore"):  # it becomes infinite, and is refused as such
            return array.astype(dtype)

    def _cell(self, block: _Block, name: str, row: int, wanted: str, fix: str) -> FileFormatError:
        return FileFormatError(
            f"{self._path}, line {block.lines[row]}, column {name!r}: expected {wanted}, found "
            f"{shown(block.cells[name][row])}; {fix}"
        )


def _are_whole(cells: Sequence[str]) -> bool:
    """Whether no cell holds a number with a point."""
    return not any(_parses(cell, float) and not _parses(cell, int) for cell in cells)


def _parses(cell: str, convert: Callable[[str], float]) -> bool:
    try:
        convert(cell)
    except ValueError:
        return False
    return True


def _fits(cell: str, convert: Callable[[str], float]) -> bool:
    """Whether the cell is a number, and if a whole one, of 64 bits."""
    return _parses(cell, convert) and (convert is float or -(2**63) <= int(cell) < 2**63)
