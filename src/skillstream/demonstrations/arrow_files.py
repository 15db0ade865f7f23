"""A look at Arrow's files before Arrow reads them: it takes as much memory as compressed parts claim."""

import struct
from pathlib import Path
from typing import Any

from skillstream.errors import FileFormatError

_DICTIONARY, _BATCH = 2, 3  # kinds of messages
_BLOCK = 24  # bytes of a footer's entry


def refuse_compressed_stream(pa: Any, file: Path) -> None:
    """Refuse a compressed file of messages one after another, as Hugging Face's `datasets` writes them."""
    with pa.memory_map(str(file)) as source:
        messages = pa.ipc.MessageReader.open_stream(source)
        while True:
            try:
                head = messages.read_next_message().metadata.to_pybytes()
            except StopIteration:
                return
            _refuse_compressed(file, head)


def refuse_compressed_file(file: Path) -> None:
    """Refuse a compressed file with a footer that says where its messages are."""
    data = file.read_bytes()
    footer = data[-10 - struct.unpack_from("<i", data, len(data) - 10)[0] : -10] if len(data) > 10 else b""
    try:
        for number in (2, 3):  # dictionaries, batches
            field = _field(footer, struct.unpack_from("<I", footer, 0)[0], number)
            blocks = field + struct.unpack_from("<I", footer, field)[0] if field else 0
            for block in range(struct.unpack_from("<I", footer, blocks)[0] if field else 0):
                at, size = struct.unpack_from("<qi", footer, blocks + 4 + _BLOCK * block)
                _refuse_compressed(file, data[max(at, 0) + 8 : max(at, 0) + size])
    except struct.error as error:
        raise FileFormatError(f"{file}: not a whole Arrow file ({error}); it may be truncated") from error


def _refuse_compressed(file: Path, head: bytes) -> None:
    root = struct.unpack_from("<I", head, 0)[0]
    kind, header = _field(head, root, 1), _field(head, root, 2)
    if not kind or not header or head[kind] not in (_DICTIONARY, _BATCH):
        return
    batch = header + struct.unpack_from("<I", head, header)[0]
    if head[kind] == _DICTIONARY:
        inner = _field(head, batch, 1)
        batch = inner + struct.unpack_from("<I", head, inner)[0]
    if _field(head, batch, 3):
        raise FileFormatError(f"{file}: is compressed, and could unfold to any size; save it uncompressed")


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands, as Flatbuffers lays it out; 0 where it is left out."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    if layout < 0 or 4 + 2 * number >= struct.unpack_from("<H", data, layout)[0]:
        return 0
    place = struct.unpack_from("<H", data, layout + 4 + 2 * number)[0]
    return table + place if place and table + place < len(data) else 0
