"""Parquet: one row a step (see `step_table`), observations and actions as numbered columns or as lists."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.parquet_sizes import refuse_false_sizes
from skillstream.demonstrations.pieces import Columns, Piece, optional
from skillstream.demonstrations.step_table import (
    SINGLE,
    Layout,
    StepPieces,
    fields_of,
    understand,
)
from skillstream.errors import FileFormatError
from skillstream.files import open_whole

_ROWS = 2**16


def write(path: Path, demos: Demonstrations) -> None:
    """Write row groups of 65,536 steps, so that readers need not hold more."""
    pa, pq = _arrow()
    blocks = (
        pa.Table.from_arrays(
            [pa.array(f.values, mask=f.missing) for f in fields], names=[f.name for f in fields]
        )
        for fields in fields_of(demos, _ROWS)
    )
    first = next(blocks)
    with open_whole(path) as file, pq.ParquetWriter(file, first.schema, write_page_checksum=True) as writer:
        for table in chain([first], blocks):
            writer.write_table(table)


def read(path: Path) -> Iterator[Piece]:
    """Batches of rows."""
    pa, pq = _arrow()
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            layout = understand(str(path), file.schema_arrow.names)
            _check_types(pa.types, path, layout, file.schema_arrow)
            longest = max((getattr(field.type, "list_size", 0) for field in file.schema_arrow), default=0)
            refuse_false_sizes(str(path), path, longest)
            pieces, first = StepPieces(path), 0
            for batch in file.iter_batches(_ROWS, columns=layout.names()):
                yield _piece(path, layout, batch, first, pieces)
                first += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: not a whole Parquet file ({error}); it may be truncated") from error


def _check_types(types: Any, path: Path, layout: Layout, schema: Any) -> None:
    """Refuse columns of anything but numbers before a row is read: a word may be as long as the file."""
    for name in layout.names():
        kind = found = schema.field(name).type
        listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        if listed and name in ("observation", "action"):
            kind = kind.value_type
        if name == "action_mask":
            fits, wanted = types.is_boolean(kind), "booleans"
        elif name in ("episode", "true_option"):
            fits, wanted = types.is_integer(kind), "whole numbers"
        else:
            fits, wanted = types.is_integer(kind) or types.is_floating(kind), "numbers"
        if not fits:
            raise FileFormatError(f"{path}: {name}: must hold {wanted}, found {str(found)[:100]}")


def _arrow() -> tuple[Any, Any]:
    purpose = "reading and writing Parquet"
    return optional("pyarrow", "parquet", purpose), optional("pyarrow.parquet", "parquet", purpose)


def _piece(path: Path, layout: Layout, batch: Any, first: int, pieces: StepPieces) -> Piece:
    def place(row: int) -> str:
        return f"row {first + row}"

    table = _Batch(lambda row: f"{path}: {place(row)}", batch)
    columns: Columns = {"observations": table.group(layout.observations)}
    columns["actions"] = table.group(layout.actions, gaps=True)
    for name in layout.others & set(SINGLE):
        columns[SINGLE[name]] = table.numbers(name)
    ids = table.numbers("episode") if "episode" in layout.others else None
    return pieces.piece(columns, table.missing(layout.actions), ids, place)


class _Batch:
    """Some rows, given out as NumPy's arrays."""

    def __init__(self, place: Callable[[int], str], batch: Any) -> None:
        self._place = place
        self._batch = batch
        self._pa, _ = _arrow()

    def group(self, names: tuple[str, ...], gaps: bool = False) -> np.ndarray:
        """The observations, or the actions, which may have gaps."""
        if "_" in names[0]:
            return np.stack([self.numbers(name, gaps) for name in names], 1)
        column = self._batch.column(names[0])
        types = self._pa.types
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        if any(is_one(column.type) for is_one in lists):
            return self._lists(names[0], column, gaps)
        return self.numbers(names[0], gaps)

    def missing(self, names: tuple[str, ...]) -> np.ndarray | None:
        """The rows that hold no action, or None if all do."""
        columns = [self._batch.column(name) for name in names]
        if not any(column.null_count for column in columns):
            return None
        empty = np.array([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
        part = empty.any(0) & ~empty.all(0)
        if part.any():
            row = int(np.argmax(part))
            raise FileFormatError(
                f"{self._place(row)}: the action is null in a part of its columns; make it null in all"
            )
        return empty[0]

    def numbers(self, name: str, gaps: bool = False) -> np.ndarray:
        """A column of numbers; null becomes 0 where there may be gaps."""
        return self._plain(name, self._batch.column(name), gaps)

    def _plain(self, name: str, column: Any, gaps: bool) -> np.ndarray:
        if column.null_count and not gaps:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise FileFormatError(
                f"{self._place(row)}: {name} is null; only actions may be; fill it in or drop the row"
            )
        filled = column.fill_null(0) if column.null_count else column
        return filled.to_numpy(zero_copy_only=False)

    def _lists(self, name: str, column: Any, gaps: bool) -> np.ndarray:
        """A column of lists, all of the same length."""
        flat = self._plain(name, column.flatten(), gaps=False)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        if not gaps and not there.all():
            raise FileFormatError(f"{self._place(int(np.argmin(there)))}: {name} is null; fill it in")
        counts = column.drop_null().value_lengths().to_numpy(zero_copy_only=False)
        if not len(counts) or (counts != counts[0]).any() or counts[0] == 0:
            raise FileFormatError(
                f"{self._place(0)}: {name}: lists from here on are empty or differ in length; make them alike"
            )
        rows = np.zeros((len(there), int(counts[0])), flat.dtype)
        rows[there] = flat.reshape(-1, int(counts[0]))
        return rows
