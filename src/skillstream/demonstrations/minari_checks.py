"""What Minari would act on unchecked: spaces and arrays of any size, links out of the file, code to run."""

import json
import math
import mmap
from functools import partial
from pathlib import Path
from typing import Any

from skillstream.demonstrations.arrow_files import refuse_compressed_file
from skillstream.demonstrations.parquet_sizes import refuse_false_sizes
from skillstream.demonstrations.pieces import optional, refuse_false_size
from skillstream.errors import FileFormatError, shown
from skillstream.files import read_json

_PURPOSE = "reading and writing Minari data sets"
_GZIP_LIMIT, _SLACK = 1032, 2**20  # no compressed byte stands for more; arrays this small may claim anything
_FILTERS = {
    1,
    2,
    3,
    32000,
}  # deflate, shuffle, fletcher32, lzf: HDF5 would load code from elsewhere for others
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"float16", "float32", "float64", "bool"}
_DEPTH, _WIDEST = 16, 2**24  # of spaces: parts in parts, and numbers in a step
_VARIABLE = 2**30  # bytes that texts may come to if each were as long as the file


def check_minari(where: str, data: Path) -> int:
    """Refuse a data set whose files claim what they cannot hold, or point elsewhere; its bytes, if not."""
    metadata = read_json(data / "metadata.json")
    if not isinstance(metadata, dict):
        raise FileFormatError(f"{where}: its metadata are a {type(metadata).__name__}")
    for key in ("observation_space", "action_space"):
        if key not in metadata:  # Minari would make the environment to find it, which runs code
            raise FileFormatError(f"{where}: its metadata have no {key}; save it with a newer Minari")
        space = json.loads(metadata[key])
        _check_space(f"{where}: {key}", space)
        if metadata.get("jpeg_encoding", True) and _has_pictures(space):
            raise FileFormatError(
                f"{where}: {key}: its pictures are encoded, and decoding those of strangers is not safe; "
                "save it with jpeg_encoding=False"
            )
    files = [path for path in data.rglob("*") if path.is_file()]
    if any(path.is_symlink() or not path.resolve().is_relative_to(data.resolve()) for path in files):
        raise FileFormatError(f"{where}: one of its files is a link")
    if metadata.get("data_format") == "hdf5":
        most = _check_hdf5(where, data / "main_data.hdf5")
    else:
        most = sum(path.is_dir() for path in data.iterdir())
        _check_arrow(where, files)
    episodes = metadata.get("total_episodes")
    if type(episodes) is not int or not 0 <= episodes <= most:
        raise FileFormatError(f"{where}: claims {shown(episodes)} episodes, but holds {most}")
    return sum(path.stat().st_size for path in files)


def _check_space(where: str, space: Any, depth: int = 0) -> None:
    """Refuse a space that is no dictionary of a kind, or takes more room than its description is worth."""
    kind = space.get("type") if isinstance(space, dict) else None
    if not isinstance(kind, str) or depth > _DEPTH:
        raise FileFormatError(f"{where}: is no space that Minari writes: {shown(space)}")
    if space.get("dtype", "int64") not in _NUMBERS:
        raise FileFormatError(f"{where}: must hold numbers, found {shown(space['dtype'])}")
    parts = space.get("subspaces", [])
    for part in parts.values() if isinstance(parts, dict) else parts:
        _check_space(where, part, depth + 1)
    sizes = space.get("shape") if kind == "Box" else space.get("n") if kind == "MultiBinary" else 1
    numbers = 1
    for size in sizes if isinstance(sizes, list) else [sizes]:
        if type(size) is not int or not 0 <= size <= _WIDEST:
            raise FileFormatError(f"{where}: a part of it has the shape {shown(sizes)}")
        numbers *= size
    length = space.get("max_length", 1)
    if numbers > _WIDEST or type(length) is not int or length > _WIDEST:
        raise FileFormatError(f"{where}: claims {shown(max(numbers, length))} numbers a step")


def _has_pictures(space: dict[str, Any]) -> bool:
    """Whether Minari would take a part of it for pictures (a Box of at least 32 rows)."""
    parts = space.get("subspaces", [])
    if any(_has_pictures(part) for part in (parts.values() if isinstance(parts, dict) else parts)):
        return True
    shape = space.get("shape") or []
    return space["type"] == "Box" and len(shape) in (2, 3) and shape[0] >= 32


def _check_arrow(where: str, files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".arrow":
            refuse_compressed_file(path)
        if path.suffix == ".parquet":
            refuse_false_sizes(where, path, _WIDEST)


def _check_hdf5(where: str, path: Path) -> int:
    """Every array must hold in this file about as much as it claims to; how many episodes there are."""
    h5py = optional("h5py", "minari", _PURPOSE)
    look = _Look(where, path)
    _check_heaps(where, path)
    with h5py.File(path) as opened:
        problem = opened.id.links.visit(look.at_link, info=True)
        problem = problem or look.h5o.visit(opened.id, partial(look.at_object, opened.id), info=True)
        if problem:
            raise FileFormatError(f"{where}: {problem}")
        refuse_false_size(where, look.claimed, look.size)
        return len(opened)


def _check_heaps(where: str, path: Path) -> None:
    """Refuse a store of texts with an entry of no size: HDF5 (2.0) would look for the next one for ever."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at, left = data.find(b"GCOL"), len(data) // 4  # entries; those of sound stores do not overlap
        while at >= 0:
            end = at + int.from_bytes(data[at + 8 : at + 16], "little")
            if data[at + 4] == 1 and end <= len(data):
                entry = at + 16
                while entry + 16 <= end and left:
                    number = int.from_bytes(data[entry : entry + 2], "little")
                    size = int.from_bytes(data[entry + 8 : entry + 16], "little")
                    entry += 16 + (size + 7) // 8 * 8 if number else size
                    left -= 1
                    if (number == 0 and size < 16) or entry > end or not left:
                        raise FileFormatError(f"{where}: a store of texts in it is damaged")
            at = data.find(b"GCOL", at + 4)


class _Look:
    """Goes through an HDF5 file; what a method returns ends the walk and says why the file is refused.

    (HDF5 walks in C, through which no exception may pass.)
    """

    def __init__(self, where: str, path: Path):
        self.h5d, self.h5g, self.h5l, self.h5o, self.h5t = (
            optional(f"h5py.{part}", "minari", _PURPOSE) for part in ("h5d", "h5g", "h5l", "h5o", "h5t")
        )
        self.size, self.claimed = path.stat().st_size, 0
        self._folder: tuple[bytes | None, Any] = (None, None)

    def at_link(self, at: bytes, about: Any) -> str | None:
        """No link may lead out of the file, or twice to one place."""
        return None if about.type == self.h5l.TYPE_HARD else f"{_text(at)} is a link to somewhere else"

    def at_object(self, root: Any, at: bytes, about: Any) -> str | None:
        """No array may claim what the file is too small for."""
        if about.rc > 1 and at != b".":
            return f"{_text(at)} is there under several names"
        if about.type != self.h5o.TYPE_DATASET:
            return None
        try:
            folder, _, name = at.rpartition(b"/")
            if folder != self._folder[0]:  # a search from the root for every array takes long
                self._folder = folder, self.h5g.open(root, folder) if folder else root
            array = self.h5d.open(self._folder[1], name)  # h5py's own objects take four times as long to make
            return self._at_array(at, array, array.get_create_plist(), array.get_type())
        except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
            return f"{_text(at)} cannot be read ({error}); it may be damaged"

    def _at_array(self, at: bytes, array: Any, made: Any, kind: Any) -> str | None:
        numbers, width, group = (
            array.get_space().get_simple_extent_npoints(),
            kind.get_size(),
            kind.get_class(),
        )
        layout = made.get_layout()
        if layout == self.h5d.CHUNKED:  # the only layout with filters
            numbers = max(numbers, math.prod(made.get_chunk()))
            if any(made.get_filter(i)[0] not in _FILTERS for i in range(made.get_nfilters())):
                return f"{_text(at)} is packed in a way that this library does not know"
        elif layout == self.h5d.VIRTUAL or made.get_external_count():
            return f"{_text(at)} is kept in another file"
        any_length = group == self.h5t.VLEN or (group == self.h5t.STRING and kind.is_variable_str())
        if any_length and numbers * self.size > _VARIABLE:
            return f"{_text(at)} holds texts of any length, of which so many are not read"
        self.claimed += numbers * width
        if numbers * width > _GZIP_LIMIT * array.get_storage_size() + _SLACK:
            return f"{_text(at)} claims {numbers * width} bytes, which the file is too small for"
        return None


def _text(name: bytes) -> str:
    return shown(name.decode(errors="replace")).strip("'")
