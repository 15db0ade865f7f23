"""The gate: lines of JSON in, samples out, and for each line that is none the reason why.

    {"episode": 0, "observation": [0.1, 0.2], "action": 0}
    {"observations": [[0.1, 0.2], ...], "actions": [0, null, ...]}

The same two forms as in a `.jsonl` file. A line without `episode` goes on with the episode before it, and an
action of `null` was not recorded. `reward`, `true_option` and `step` may be there and are not read.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from skillstream.streaming.spaces import MOST_ACTIONS, MOST_NUMBERS, MOST_STATES, Actions, Space

SHOWN = 200  # characters of a line that the list of rejects gives
_STEP = frozenset({"episode", "observation", "action", "action_mask", "reward", "true_option", "step"})
_EPISODE = frozenset(
    {"episode", "observations", "actions", "action_mask", "rewards", "true_options", "dtypes"}
)
_ENDED = True  # what stands for the episode's name after a line that held a whole one

Record = dict[str, Any]
Name = int | str | bool | None  # of the running episode; None: it has none


class Reject(NamedTuple):
    """A line that was left out, and why; its text is as it came and must not be believed."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples in order, as columns, and what was left out between them."""

    observations: np.ndarray
    actions: np.ndarray
    recorded: np.ndarray
    starts: np.ndarray
    rejects: tuple[Reject, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice | np.ndarray) -> "Batch":
        """The same columns of fewer samples, without the rejects."""
        return Batch(self.observations[rows], self.actions[rows], self.recorded[rows], self.starts[rows])

    def then(self, other: "Batch") -> "Batch":
        """These samples and the others after them, without the rejects."""
        return Batch(
            np.concatenate([self.observations, other.observations]),
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.recorded, other.recorded]),
            np.concatenate([self.starts, other.starts]),
        )


@dataclass(frozen=True, eq=False)
class Parsed:
    """What some lines held: samples, the line of each, the lines left out, the episode at their end."""

    batch: Batch
    line_of: np.ndarray
    rejected: list[tuple[int, str]]
    names: list[Name]  # of the running episode after each line


def parse(lines: Sequence[bytes], space: Space, longest: int, name: Name) -> Parsed:
    """The samples in these lines; `name` is the episode that was running before them."""
    records = decode(lines, longest)
    good = [record for record in records if isinstance(record, dict)]
    alike = _parse_alike(good, space, name)
    if alike is None:
        return _parse_each(records, space, name)
    return alike if len(good) == len(records) else _spread(alike, records, name)


def decode(lines: Sequence[bytes], longest: int) -> list[Record | str | None]:
    """The object in each line, or what is wrong with it, or None for a blank one."""
    records: list[Record | str | None] = []
    for line in lines:
        try:
            if len(line) > longest:
                records.append(f"too long: more than {longest} bytes")
                continue
            text = line.strip().decode()
            if not text:
                records.append(None)
                continue
            record, end = _scan(text, 0)
            if end != len(text):
                records.append("malformed: not one JSON object in a line")
            elif type(record) is not dict:
                records.append(f"malformed: must be an object {{...}}, found {_short(record)}")
            else:
                records.append(record)
        except UnicodeDecodeError:
            records.append("malformed: not UTF-8")
        except (ValueError, StopIteration, RecursionError) as error:
            records.append(_malformed(error))
    return records


def guess(lines: Sequence[bytes], longest: int) -> Space | None:
    """The form that most of the lines have; None if none of them is a sample with an action."""
    forms = Counter(form for record in decode(lines, longest) if (form := _form(record)) is not None)
    if not forms:
        return None
    sizes = Counter[int | None]()
    for (size, _, _), count in forms.items():
        sizes[size] += count
    size = sizes.most_common(1)[0][0]
    acted = [form for form, _ in forms.most_common() if form[0] == size and form[1] is not None]
    if not acted:
        return None
    _, kind, width = acted[0]
    limits = (0 if kind == "numbers" else MOST_ACTIONS,) * width
    return Space(size, 0 if size is not None else MOST_STATES, kind, limits)


def could_be_sample(line: bytes, longest: int) -> bool:
    """Whether a line has the form of a step or an episode, in whatever space."""
    return _form(decode([line], longest)[0]) is not None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


_scan = json.JSONDecoder(parse_constant=_no_number).scan_once  # pyright: ignore[reportAttributeAccessIssue]


def _malformed(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | StopIteration):
        return "malformed: not JSON; the line may be cut off"
    return "malformed: nested too deeply" if isinstance(error, RecursionError) else f"malformed: {error}"


def _short(value: Any) -> str:
    """A value that may be anything, in a few characters."""
    text = (
        repr(value[:5] if isinstance(value, list | str) else value)
        if not isinstance(value, dict)
        else "{...}"
    )
    return text if len(text) <= 40 else text[:37] + "..."


def _form(record: Record | str | None) -> tuple[int | None, Actions | None, int] | None:
    """Numbers in an observation (None: a state), the kind of action, numbers in it."""
    if not isinstance(record, dict):
        return None
    seen, done = record.get("observation"), record.get("action")
    if "observations" in record:
        seen, actions = (record.get(key) for key in ("observations", "actions"))
        if not (isinstance(seen, list) and seen and isinstance(actions, list)):
            return None
        seen, done = seen[0], next((action for action in actions if action is not None), None)
    width = len(seen) if isinstance(seen, list) else None if type(seen) is int else 1
    numbers = seen if isinstance(seen, list) else [seen]
    if width == 0 or (width or 0) > MOST_NUMBERS or not _are_numbers(numbers):
        return None
    if done is None or (isinstance(done, list) and None in done):
        return width, None, 0
    choices = done if isinstance(done, list) else [done]
    if not choices or len(choices) > MOST_NUMBERS or not _are_numbers(choices):
        return None
    whole = all(type(number) is int for number in choices)
    kind: Actions = "numbers" if not whole else "several" if isinstance(done, list) else "one"
    return width, kind, len(choices)


def _are_numbers(values: Iterable[Any]) -> bool:
    return {*map(type, values)} <= {int, float}


def _spread(parsed: Parsed, records: list[Record | str | None], name: Name) -> Parsed:
    """What the good ones of these lines gave, with the lines between them that were none."""
    places = [line for line, record in enumerate(records) if isinstance(record, dict)]
    names, latest, left = [], name, iter(parsed.names)
    for record in records:
        latest = next(left) if isinstance(record, dict) else latest
        names.append(latest)
    rejected = [(line, record) for line, record in enumerate(records) if isinstance(record, str)]
    return Parsed(parsed.batch, np.array(places, np.int64), rejected, names)


def _parse_alike(steps: list[Record], space: Space, name: Name) -> Parsed | None:
    """All steps at once, if every one is good and has the same keys; else None."""
    kinds = {tuple(step) for step in steps}
    keys = {*next(iter(kinds), ())}
    if len(kinds) != 1 or not keys <= _STEP or "action_mask" in keys or "observation" not in keys:
        return None
    size, limits = space.observation_size, None if space.actions == "numbers" else space.action_limits
    seen = _column(
        [step["observation"] for step in steps],
        size,
        (space.num_states,) if size is None else None,
        space.far,
    )
    taken = [step.get("action") for step in steps]
    recorded = np.ones(len(steps), bool)
    width = len(space.action_limits) if space.actions in ("several", "numbers") else None
    if None in taken:
        recorded = np.array([action is not None for action in taken])
        nothing = 0 if width is None else [0] * width
        taken = [nothing if action is None else action for action in taken]
    done = _column(taken, width, limits, space.far)
    if seen is None or done is None:
        return None
    starts, names = np.zeros(len(steps), bool), [None if name is _ENDED else name] * len(steps)
    starts[:1] = name is _ENDED
    if "episode" in keys:
        names = [step["episode"] for step in steps]
        if not {*map(type, names)} <= {int, str}:
            return None
        starts = np.array([one != other for one, other in pairwise([name, *names])])
        starts[:1] |= name is _ENDED
    batch = Batch(seen, done, recorded, starts)
    return Parsed(batch, np.arange(len(steps)), [], names)


def _column(
    values: list[Any], width: int | None, limits: tuple[int, ...] | None, far: float
) -> np.ndarray | None:
    """Values as a column, if all are as they should be: lists of a width or single; whole or any numbers."""
    numbers = values
    if width is not None:
        if {*map(type, values)} != {list} or {*map(len, values)} != {width}:
            return None
        numbers = chain.from_iterable(values)
    whole = limits is not None
    if not {*map(type, numbers)} <= ({int} if whole else {int, float}):
        return None
    try:
        column = np.array(values, np.int64 if whole else np.float64)
    except OverflowError:
        return None
    if whole:
        return column if column.min() >= 0 and (column < np.array(limits)).all() else None
    return column if np.abs(column).max() <= far else None


def _parse_each(records: list[Record | str | None], space: Space, name: Name) -> Parsed:
    """Line by line, leaving out what is not a sample."""
    seen, done, recorded, starts, line_of, rejected, names = [], [], [], [], [], [], []
    width = len(space.action_limits)
    nothing = 0 if space.actions in ("one", None) else [0] * width
    for line, record in enumerate(records):
        problem = _problem(record, space) if isinstance(record, dict) else record
        if problem is not None:
            rejected.append((line, problem))
        elif isinstance(record, dict):
            first, name = _begins(record, name)
            steps = _steps(record)
            for step, (observation, action, kept) in enumerate(steps):
                there = kept and not _is_missing(action)
                seen.append(_flat(observation, space.observation_size))
                done.append((_flat(action, width if nothing != 0 else None)) if there else nothing)
                recorded.append(there)
                starts.append(first and step == 0)
                line_of.append(line)
        names.append(name)
    columns = space.empty(len(seen))
    for column, values in zip(columns, (seen, done), strict=True):
        if values:
            column[:] = values
    batch = Batch(*columns, np.array(recorded, bool), np.array(starts, bool))
    return Parsed(batch, np.array(line_of, np.int64), rejected, names)


def _begins(record: Record, name: Name) -> tuple[bool, Name]:
    """Whether a good line begins an episode, and the name of the one that runs after it."""
    if "observations" in record:
        return True, _ENDED
    if "episode" not in record:
        return name is _ENDED, None if name is _ENDED else name
    new = record["episode"]
    return name is _ENDED or new != name, new


def _steps(record: Record) -> Iterable[tuple[Any, Any, bool]]:
    if "observations" not in record:
        return [(record["observation"], record.get("action"), record.get("action_mask", True))]
    mask = record.get("action_mask", [True] * len(record["actions"]))
    return zip(record["observations"], record["actions"], mask, strict=True)


def _flat(value: Any, width: int | None) -> Any:
    return [value] if width is not None and not isinstance(value, list) else value


def _is_missing(action: Any) -> bool:
    return action is None or (isinstance(action, list) and None in action)


def _problem(record: Record, space: Space) -> str | None:
    """Why a line is no sample of this space; None if it is one."""
    known, key = (_EPISODE, "observations") if "observations" in record else (_STEP, "observation")
    if not record.keys() <= known:
        return f"wrong type: {_short(min(record.keys() - known))} is not known"
    if key not in record:
        return "wrong type: 'observation' is missing"
    if not isinstance(record.get("episode", 0), int | str) or isinstance(record.get("episode"), bool):
        return f"wrong type: episode: must be a whole number or a name, found {_short(record['episode'])}"
    if key == "observation":
        if not isinstance(record.get("action_mask", True), bool):
            return f"wrong type: action_mask: must be true or false, found {_short(record['action_mask'])}"
        return _step_problem(record["observation"], record.get("action"), space)
    lists: dict[str, Any] = {
        name: record[name] for name in ("observations", "actions", "action_mask") if name in record
    }
    if "actions" not in lists or not all(isinstance(column, list) for column in lists.values()):
        return "wrong type: observations and actions must both be there, as lists"
    if len({*map(len, lists.values())}) > 1 or not record["observations"]:
        sizes = ", ".join(f"{len(column)} {name}" for name, column in lists.items())
        return f"inconsistent shape: found {sizes}"
    if not all(type(there) is bool for there in record.get("action_mask", ())):
        return "wrong type: action_mask: must hold true and false only"
    for step, (observation, action, _) in enumerate(_steps(record)):
        problem = _step_problem(observation, action, space)
        if problem is not None:
            return f"{problem} (in its step {step})"
    return None


def _step_problem(observation: Any, action: Any, space: Space) -> str | None:
    if space.observation_size is None:
        problem = _whole_problem("observation", observation, space.num_states, "states")
    else:
        problem = _numbers_problem("observation", observation, space.observation_size, space.far)
    if problem is not None or _is_missing(action):
        return problem
    if space.actions == "numbers":
        return _numbers_problem("action", action, len(space.action_limits), space.far)
    if space.actions == "one":
        return _whole_problem("action", action, space.action_limits[0], "actions")
    if not isinstance(action, list) or len(action) != len(space.action_limits):
        count = len(space.action_limits)
        return f"inconsistent shape: action: must be {count} whole numbers, found {_short(action)}"
    found = (
        _whole_problem("action", *pair, "actions") for pair in zip(action, space.action_limits, strict=True)
    )
    return next((problem for problem in found if problem is not None), None)


def _whole_problem(name: str, value: Any, limit: int, what: str) -> str | None:
    if type(value) is not int:
        return f"wrong type: {name}: must be a whole number, found {_short(value)}"
    if 0 <= value < limit:
        return None
    return f"out of space: {name}: {_short(value)} is not among the {limit} {what} (0 to {limit - 1})"


def _numbers_problem(name: str, value: Any, size: int, far: float) -> str | None:
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) != size:
        return f"inconsistent shape: {name}: must be {size} numbers, found {len(numbers)}"
    if not _are_numbers(numbers):
        return f"wrong type: {name}: must be numbers, found {_short(value)}"
    if not all(-far <= number <= far for number in numbers):
        return f"out of space: {name}: holds a number beyond {far:.0e}"
    return None
