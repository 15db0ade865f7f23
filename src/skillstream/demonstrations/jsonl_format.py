"""JSON lines: an episode a line, or a step a line.

    {"observations": [[0.1, 0.2], ...], "actions": [0, null, ...], "rewards": [...], "true_options": [...]}
    {"episode": 0, "observation": [0.1, 0.2], "action": 0, "reward": 1.0, "true_option": 1}

`null`, or no action in a step's line, is an action that was not recorded. An episode's line may say what
digits cannot: `"dtypes": {"observations": "float32"}`.
"""

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import (
    STEP_COLUMNS,
    Columns,
    Piece,
    in_steps_of,
    numbers,
    one_episode,
)
from skillstream.demonstrations.step_table import SINGLE, StepPieces
from skillstream.errors import FileFormatError, shown
from skillstream.files import open_whole

_LINES = 8192
_FLOATS = ("float32", "float64")
_STEP_KEYS = ("episode", "observation", "action", *SINGLE, "step")
_EPISODE_KEYS = ("episode", *STEP_COLUMNS, "dtypes")

Record = dict[str, Any]
Place = Callable[[int], str]


def write(path: Path, demos: Demonstrations) -> None:
    """Write an episode a line."""
    dtypes = {}
    for name in ("observations", "actions"):
        dtype = getattr(demos, name).dtype
        if dtype == np.float32 or (
            name == "actions" and dtype == np.float64 and demos.action_mask is not None
        ):
            dtypes[name] = str(dtype)
    with open_whole(path) as file:
        for episode in demos:
            record: Record = {
                name: getattr(episode, name).tolist()
                for name in STEP_COLUMNS
                if getattr(episode, name) is not None
            }
            if episode.action_mask is not None:
                gap = None if episode.actions.ndim == 1 else [None] * episode.actions.shape[1]
                pairs = zip(record["actions"], record["action_mask"], strict=True)
                record["actions"] = [action if there else gap for action, there in pairs]
            if dtypes:
                record["dtypes"] = dtypes
            file.write(json.dumps(record).encode() + b"\n")


def read(path: Path) -> Iterator[Piece]:
    """Episodes, or blocks of steps."""
    steps: list[tuple[int, Record]] = []
    pieces = StepPieces(path)
    whole: bool | None = None
    for line, record in _records(path):
        if whole not in (None, "observations" in record):
            raise FileFormatError(f"{path}, line {line}: some lines are episodes, others steps; keep one way")
        whole = "observations" in record
        if whole:
            yield _episode(path, line, record)
            continue
        steps.append((line, record))
        if len(steps) == _LINES:
            yield _steps(path, steps, pieces)
            steps = []
    if steps:
        yield _steps(path, steps, pieces)


def _records(path: Path) -> Iterator[tuple[int, Record]]:
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                problem = f"not JSON ({error}); the line may be cut off"
                raise FileFormatError(f"{path}, line {line}: {problem}") from error
            if not isinstance(record, dict):
                raise FileFormatError(
                    f"{path}, line {line}: must be an object {{...}}, found a {type(record).__name__}"
                )
            _check_keys(f"{path}, line {line}", record)
            if text.count(b'"') != 2 * len(record):
                _check_words(f"{path}, line {line}", record, text.count(b'"') // 2)
            yield line, record


def _check_keys(where: str, record: Record) -> None:
    known = _EPISODE_KEYS if "observations" in record else _STEP_KEYS
    if not record.keys() <= set(known):
        odd = min(record.keys() - set(known))[:100]
        near = difflib.get_close_matches(odd, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(known)
        raise FileFormatError(f"{where}: {shown(odd)} is not known; {hint}")
    if "observations" not in record and "observation" not in record:
        raise FileFormatError(
            f"{where}: must hold 'observations' and 'actions' of an episode, or 'observation' and 'action' "
            f"of a step; found {sorted(record)}"
        )


def _check_words(where: str, record: Record, words: int) -> None:
    """Refuse text among the numbers, of which NumPy would make columns as wide as the longest word.

    There are as many words as keys (and as `dtypes` has), unless a key is there twice.
    """
    dtypes = record.get("dtypes")
    if words == len(record) + (2 * len(dtypes) if isinstance(dtypes, dict) else 0):
        return
    for name, value in record.items():
        if name != "dtypes" and _holds_text(value):
            raise FileFormatError(f"{where}: {name}: must be numbers, found {shown(value)}")
    raise FileFormatError(f"{where}: a key is there twice, or 'dtypes' holds more than names and types")


def _holds_text(value: Any) -> bool:
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, str | dict):
            return True
        if isinstance(part, list):
            parts.extend(part)
    return False


def _episode(path: Path, line: int, record: Record) -> Piece:
    where = f"{path}, line {line}"
    if "actions" not in record:
        raise FileFormatError(f"{where}: 'actions' is missing")
    place = in_steps_of(where)
    odd = [name for name in STEP_COLUMNS if name in record and not isinstance(record[name], list)]
    if odd:
        raise FileFormatError(f"{where}: {odd[0]}: must be a list, found {shown(record[odd[0]])}")
    columns = {
        name: numbers(name, place, record[name])
        for name in ("observations", "rewards", "true_options")
        if name in record
    }
    columns |= _actions(place, record["actions"], record.get("action_mask"))
    for name, column in columns.items():
        if len(column) != len(columns["observations"]):
            count = len(columns["observations"])
            raise FileFormatError(f"{where}: {name}: has {len(column)} steps, but observations {count}")
    dtypes = record.get("dtypes", {})
    fits = isinstance(dtypes, dict) and all(isinstance(d, str) and d in _FLOATS for d in dtypes.values())
    if not fits or not dtypes.keys() <= columns.keys():
        raise FileFormatError(
            f"{where}: dtypes: must give columns one of {', '.join(_FLOATS)}, found {shown(dtypes)}"
        )
    with np.errstate(over="ignore"):  # it becomes infinite, and is refused as such
        columns |= {name: columns[name].astype(dtype) for name, dtype in dtypes.items()}
    return one_episode(columns, f"line {line}")


def _steps(path: Path, steps: list[tuple[int, Record]], pieces: StepPieces) -> Piece:
    lines = [line for line, _ in steps]
    records = [record for _, record in steps]

    def place(row: int) -> str:
        return f"{path}, line {lines[row]}"

    columns: Columns = {"observations": numbers("observation", place, _values(place, "observation", records))}
    masks = _values(place, "action_mask", records) if "action_mask" in records[0] else None
    columns |= _actions(place, [record.get("action") for record in records], masks)
    for name in ("reward", "true_option"):
        if any(name in record for record in records):
            columns[SINGLE[name]] = numbers(name, place, _values(place, name, records))
    ids = None
    if any("episode" in record for record in records):
        ids = numbers("episode", place, _values(place, "episode", records))
        if ids.dtype.kind != "i" or ids.ndim > 1:
            raise FileFormatError(
                f"{place(0)}: episode: must be whole numbers, found {shown(records[0].get('episode'))}"
            )
    return pieces.piece(columns, None, ids, lambda row: f"line {lines[row]}")


def _values(place: Place, name: str, records: Sequence[Record]) -> list[Any]:
    values = [record.get(name) for record in records]
    if None in values:
        raise FileFormatError(
            f"{place(values.index(None))}: {name!r} is missing; give it in every line or in none"
        )
    return values


def _actions(place: Place, actions: list[Any], mask: list[Any] | None) -> Columns:
    """The actions, 0 where they were not recorded, and the mask if it is needed."""
    missing = np.array(
        [action is None or (isinstance(action, list) and None in action) for action in actions]
    )
    if missing.any():
        model = next((a for a, gap in zip(actions, missing, strict=True) if not gap), actions[0])
        zero = [0] * len(model) if isinstance(model, list) else 0
        actions = [zero if gap else action for action, gap in zip(actions, missing, strict=True)]
    columns = {"actions": numbers("action", place, actions)}
    if mask is not None:
        odd = [row for row, value in enumerate(mask) if not isinstance(value, bool)]
        if odd:
            raise FileFormatError(
                f"{place(odd[0])}: action_mask: must be true or false, found {shown(mask[odd[0]])}"
            )
        if len(mask) != len(actions):
            raise FileFormatError(
                f"{place(0)}: action_mask: has {len(mask)} steps, but actions {len(actions)}"
            )
        missing = missing | ~np.array(mask, bool)
    if mask is not None or missing.any():
        columns["action_mask"] = ~missing
    return columns
