"""What a Parquet file claims, read before Arrow does: it makes room for as much as a page's header says.

The footer and the headers of pages are Thrift's compact protocol. (pyarrow shows the footer too, but ends the
whole process on some damaged ones, and does not show pages.)
"""

import mmap
import struct
from pathlib import Path
from typing import Any

from skillstream.demonstrations.pieces import refuse_false_size
from skillstream.errors import FileFormatError

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_DEEPEST = 16
_SHORTEST_PAGE = 8  # bytes

Struct = dict[int, Any]


def refuse_false_sizes(where: str, path: Path, longest: int = 0) -> None:
    """Raise a `FileFormatError` unless the file may hold the numbers that it claims.

    `longest` are the numbers that a row takes even where nothing is recorded.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            footer = _struct(data, max(len(data) - 8 - struct.unpack_from("<I", data, len(data) - 8)[0], 0))[
                0
            ]
            claimed = _claimed(where, data, footer) + longest * footer[3]
        except (IndexError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise FileFormatError(f"{where}: not a whole Parquet file; it may be truncated") from error
        refuse_false_size(where, 8 * claimed, len(data))


def _claimed(where: str, data: mmap.mmap, footer: Struct) -> int:
    """The numbers in all pages, each of which must be of a size to be believed."""
    numbers, pages = 0, 0
    for group in footer[4]:
        for chunk in group[1]:
            about = chunk[3]
            start = about[9]
            if 0 < about.get(11, 0) < start:
                start = about[11]
            at, end, seen = start, min(start + about[7], len(data)), 0
            while at < end and seen < about[5]:  # as Arrow goes
                header, at = _struct(data, at)
                size, held = header[2], header[3]
                inside = header.get(5) or header.get(7) or header.get(8) or {}
                count = inside.get(1, 0)
                refuse_false_size(where, max(size, 8 * count), len(data))
                if held < 0 or size < 0 or count < 0 or pages > len(data) // _SHORTEST_PAGE:
                    raise FileFormatError(f"{where}: its pages claim sizes that cannot be")
                numbers, pages, at = numbers + count, pages + 1, at + held
                seen += count if 7 not in header else 0
    return numbers


def _struct(data: mmap.mmap, at: int, depth: int = 0) -> tuple[Struct, int]:
    """The fields of a struct by their numbers, and where it ends."""
    found, field = {}, 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return found, at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _whole(data, at)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            found[field] = kind == _TRUE
        else:
            found[field], at = _value(data, at, kind, depth)


def _value(data: mmap.mmap, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _STRUCT and depth < _DEEPEST:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET) and depth < _DEEPEST:
        return _list(data, at, depth + 1)
    if kind == _BINARY:
        size, at = _varint(data, at)
        return None, at + size  # names and statistics, which say nothing of sizes
    if _BYTE < kind < _DOUBLE:
        return _whole(data, at)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    raise IndexError(f"a value of the kind {kind}")  # a map, of which Parquet has none, or nonsense


def _list(data: mmap.mmap, at: int, depth: int) -> tuple[list[Any], int]:
    head, values = data[at], []
    size, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    for _ in range(size):
        value, at = _value(data, at, head & 15, depth)
        if at > len(data):
            raise IndexError("beyond the end")
        values.append(value)
    return values, at


def _whole(data: mmap.mmap, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
    raise IndexError("a number of more than 64 bits")
