"""Ways to damage a file: blindly, by its tokens, and by its structure with all checksums kept right."""

import ast
import io
import json
import math
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Files = dict[str, bytes]
MOST = 2**18  # bytes of an input

NUMBERS = [0, 1, -1, 2, 7, 63, 64, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**62]
NUMBERS += [2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**9, 10**12, 10**18, -(2**31), -(2**63), 10**400]
TOKENS = [
    *(str(number).encode() for number in NUMBERS),
    *b"NaN Infinity -Infinity nan inf -inf null true false".split(),
    *b"1e400 -1e400 1e-400 0.5 -0.0 1e308 0x10 1_000".split(),
    *b'[] {} [[]] "" "a" "\\ud800" "\\u0000" : , [ ] { } " \\'.split(),
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\r",
    b"\n\n",
    "\u0661\u0662".encode(),
    b"[" * 2000,
    b'{"a":' * 2000,
    b"9" * 5000,
    b'"' + b"x" * 20_000 + b'"',
    b"0," * 5000,
]
VALUES: list[Any] = [
    None,
    True,
    False,
    "",
    "a",
    "NaN",
    "x" * 5000,
    [],
    {},
    [0],
    [[]],
    {"a": 1},
    [[1, 2], [3]],
]
VALUES += [
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    "\ud800",
    "\x00",
    "../x",
    "a/b",
    *NUMBERS,
]


def blindly(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """One to a few changes that know nothing of the format."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        data = rng.choice(_BLIND)(rng, data, other)[:MOST]
    return data


def _flip(rng, data, other):
    changed = bytearray(data or b"\x00")
    at = rng.randrange(len(changed))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set(rng, data, other):
    changed = bytearray(data or b"\x00")
    changed[rng.randrange(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed)


def _cut(rng, data, other):
    return data[: rng.randrange(len(data) + 1)]


def _repeat(rng, data, other):
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    times = rng.choice([2, 2, 3, 20, 1000])
    return data[:first] + data[first:last][: MOST // times] * times + data[last:]


def _remove(rng, data, other):
    first = rng.randrange(len(data) + 1)
    return data[:first] + data[first + rng.choice([1, 2, 4, 8, 100]) :]


def _token(rng, data, other):
    at, token = rng.randrange(len(data) + 1), rng.choice(TOKENS)
    return data[:at] + token + data[at + rng.choice([0, 0, 1, len(token)]) :]


def _integer(rng, data, other):
    kind = rng.choice("bhiqBHIQ")
    size, value = struct.calcsize(kind), rng.choice(NUMBERS[:-1])
    least, most = (
        (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) if kind.islower() else (0, 2 ** (8 * size) - 1)
    )
    packed = struct.pack(rng.choice("<>") + kind, min(max(value, least), most))
    at = rng.randrange(max(len(data) - size, 0) + 1)
    return data[:at] + packed + data[at + size :]


def _splice(rng, data, other):
    if not other:
        return data
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other)) :]


_BLIND = [_flip, _flip, _set, _cut, _repeat, _remove, _token, _token, _integer, _integer, _splice]

_LITERAL = re.compile(rb'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|"[^"]*"|true|false|null|NaN')


def by_tokens(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Numbers and words of a text replaced, or whole lines doubled, moved or left out."""
    spots = list(_LITERAL.finditer(data))
    if rng.random() < 0.2 or not spots:
        lines = data.split(b"\n")
        lines.insert(rng.randrange(len(lines) + 1), lines.pop(rng.randrange(len(lines))))
        if rng.random() < 0.5:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        return rng.choice([b"\n", b"\n", b"\r\n"]).join(lines)[:MOST]
    for _ in range(rng.choice([1, 1, 2, 4])):
        spot = rng.choice(spots)
        token = rng.choice([*TOKENS, rng.choice(spots).group()])
        data = data[: spot.start()] + token + data[spot.end() :]
        spots = list(_LITERAL.finditer(data)) or spots
    return data[:MOST]


def tree(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """A JSON value with one place in it changed; text that is JSON itself is gone into."""
    if depth and rng.random() < 0.15:
        return _nested(rng) if rng.random() < 0.1 else rng.choice(VALUES)
    if isinstance(value, str) and value[:1] in ("{", "[") and rng.random() < 0.8:
        try:
            return json.dumps(tree(rng, json.loads(value), depth + 1))
        except (ValueError, RecursionError):
            return value
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        act = rng.random()
        if act < 0.1:
            return {name: part for name, part in value.items() if name != key}
        if act < 0.2:
            return {
                **value,
                rng.choice(["a", "", "structure", key + "0", rng.choice(list(value))]): value[key],
            }
        return {**value, key: tree(rng, value[key], depth + 1)}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        act = rng.random()
        if act < 0.1:
            return value[:at] + value[at + 1 :]
        if act < 0.2:
            return value[:at] + [value[at]] * rng.choice([2, 2, 100]) + value[at + 1 :]
        return [*value[:at], tree(rng, value[at], depth + 1), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 2])
    return rng.choice(VALUES)


def _nested(rng: random.Random) -> Any:
    value: Any = 0
    for _ in range(rng.choice([5, 70, 500])):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def json_text(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """A JSON file, or lines of JSON, one of them changed in one place of its tree."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(tree(rng, json.loads(lines[at]))).encode()
    except (ValueError, RecursionError):
        return by_tokens(rng, data, other)
    return b"\n".join(lines)[:MOST]


def whole_json(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """A JSON file of many lines, changed in one place of its tree."""
    try:
        return json.dumps(tree(rng, json.loads(data))).encode()[:MOST]
    except (ValueError, RecursionError):
        return by_tokens(rng, data, other)


def safetensors(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """A header changed in its tree, and its length put right; or numbers changed in the arrays."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        return blindly(rng, data, other)
    body, act = data[8 + size :], rng.random()
    if act < 0.35:
        body = _numbers(rng, body)
    elif act < 0.75 and "__metadata__" in header:
        header["__metadata__"] = tree(rng, header["__metadata__"])
    elif act < 0.85:
        header = _reshaped(rng, header)
    else:
        header = tree(rng, header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return (len(text).to_bytes(8, "little") + text + body)[:MOST]


def _reshaped(rng: random.Random, header: dict[str, Any]) -> dict[str, Any]:
    """An array whose shape holds as many numbers as before, in another order or type."""
    name = rng.choice([name for name in header if name != "__metadata__"] or ["none"])
    entry = header.get(name)
    if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
        return header
    shape = list(entry["shape"])
    rng.shuffle(shape)
    shape.insert(0, 1) if rng.random() < 0.5 else None
    types = {"F64": ["I64", "U64"], "I32": ["F32", "U32"], "F32": ["I32"], "U8": ["I8", "BOOL", "F8_E4M3"]}
    dtype = rng.choice([entry.get("dtype"), *types.get(str(entry.get("dtype")), ["BF16"])])
    return {**header, name: {**entry, "shape": shape, "dtype": dtype}}


def _numbers(rng: random.Random, body: bytes) -> bytes:
    """Eight or four bytes of an array become another number."""
    number = rng.choice(
        [np.nan, np.inf, -np.inf, -1.0, 0.0, 2.0, 1e308, -1e308, 5e-324, rng.choice(NUMBERS[:-1])]
    )
    if isinstance(number, float):
        packed = struct.pack(rng.choice(["<d", "<d", "<f"]), min(max(number, -3e38), 3e38))
        packed = struct.pack("<d", number) if len(packed) == 8 else packed
    else:
        packed = (number & (2**64 - 1)).to_bytes(8, "little")[: rng.choice([4, 8])]
    if len(body) < len(packed):
        return body + packed
    at = rng.randrange(0, len(body) - len(packed) + 1, rng.choice([1, 4, 8]))
    return body[:at] + packed + body[at + len(packed) :]


def npz(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """An archive with an array's header or numbers changed, and sums and sizes put right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info)[:MOST] for info in archive.infolist()}
    except Exception:
        return blindly(rng, data, other)
    if not members:
        return blindly(rng, data, other)
    name, act = rng.choice(list(members)), rng.random()
    if act < 0.6:
        members[name] = _npy(rng, members[name])
    elif act < 0.75:
        members[name] = blindly(rng, members[name])
    elif act < 0.85:
        members[rng.choice(["rewards.npy", "episode_lengths.npy", "action_mask.npy", "a", "actions"])] = (
            members[name]
        )
    else:
        members.pop(name)
    packings = [zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice(packings)) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    result = made.getvalue()
    return (blindly(rng, result, other) if rng.random() < 0.15 else result)[:MOST]


def _npy(rng: random.Random, member: bytes) -> bytes:
    size = int.from_bytes(member[8:10], "little")
    try:
        header = ast.literal_eval(member[10 : 10 + size].decode("latin1").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return blindly(rng, member)
    if not isinstance(header, dict) or not isinstance(header.get("shape", ()), tuple):
        return blindly(rng, member)
    body, act = member[10 + size :], rng.random()
    if act < 0.3:
        body = _numbers(rng, body)
    elif act < 0.6:
        descr = [
            ">f8",
            "<i4",
            "|b1",
            "|O",
            "<U1000",
            "|V0",
            "<U0",
            "<f2",
            "<f16",
            "<c16",
            "<M8[s]",
            "<u8",
            "|S8",
        ]
        header["descr"] = rng.choice(
            [*descr, [("a", "<f8")], [("a", "|V0")], "V1000000000", 5, "(2,)f8", "<i1000"]
        )
    elif act < 0.7:
        header["fortran_order"] = not header.get("fortran_order")
    else:
        shape = list(header.get("shape", ()))
        change = rng.random()
        if change < 0.3:
            shape.insert(rng.randrange(len(shape) + 1), rng.choice([0, 1, 1, 10**12, -1]))
        else:
            shape = [rng.choice([n, n, n - 1, n * 2, 0, *NUMBERS]) for n in shape]
        header["shape"] = tuple(shape)
    text = repr(header).encode("latin1")
    if rng.random() < 0.03:
        text = rng.choice([b"(" * 5000, b"-" * 9000 + b"1", b"{" + text])
    made = member[:8] + (min(len(text) + 1, 65535)).to_bytes(2, "little") + text + b"\n"
    shape = header.get("shape", ())
    if rng.random() < 0.5 and all(0 <= n < 2**16 for n in shape):  # the size it claims
        try:
            wanted = min(math.prod(shape) * np.dtype(header["descr"]).itemsize, MOST)
        except (TypeError, ValueError):
            return made + body
        body = (body * (wanted // max(len(body), 1) + 1))[:wanted] if body else body
    return made + body


Mutator = Callable[[random.Random, bytes, bytes], bytes]
