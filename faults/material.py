"""Streams to put to the test: their lines, and the flags that read them."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

STATES, ACTIONS, EPISODE = 12, 3, 50
SIZES = ("--states", str(STATES), "--actions", str(ACTIONS))
BAD = (
    "garbage",
    '{"observation": 1, "action": ',
    f'{{"observation": {STATES}, "action": 0}}',
    '{"observation": NaN, "action": 0}',
    '{"observation": 1, "action": true}',
    '{"observation": 1, "reaction": 1}',
    '{"observations": [1, 2], "actions": [1]}',
    "\N{SNOWMAN}\u2028<script>",
    "[" * 3000,
)


@dataclass(frozen=True)
class Kind:
    """A kind of stream.

    Attributes
    ----------
    samples
        How many good ones there are.
    flags
        What reads them.
    follows
        Whether the file grows and is rotated while it is read; else it is there and read once.
    text
        All of it; empty for what comes from no file.
    """

    name: str
    samples: int
    flags: tuple[str, ...]
    follows: bool
    text: str

    @property
    def source(self) -> str:
        """What the command is told to read, in the folder of the trial."""
        return "log" if self.text else "gym:grid-world?seed=1"


def tabular(samples: int, seed: int, every: int = 97) -> str:
    """Steps and short episodes; the expert changes half way; a bad line now and then, none at the end."""
    rng, lines, count, name = random.Random(seed), [], 0, 0
    while count < samples:
        if len(lines) % every == every // 2:
            lines.append(rng.choice(BAD))
        whole = rng.random() < 0.003 and count + 7 < samples
        taken = [_sample(rng, 2 * count > samples) for _ in range(7 if whole else 1)]
        count += len(taken)
        if whole:
            seen, done = ([*column] for column in zip(*taken, strict=True))
            lines.append(json.dumps({"observations": seen, "actions": done}))
            continue
        name += rng.random() < 1 / EPISODE
        (state, action), named = taken[0], rng.random() < 0.9
        lines.append(
            json.dumps({**({"episode": name} if named else {}), "observation": state, "action": action})
        )
    return "\n".join(lines) + "\n"


def _sample(rng: random.Random, changed: bool) -> tuple[int, int | None]:
    state = rng.randrange(STATES)
    action = (state + changed) % ACTIONS if rng.random() < 0.9 else rng.randrange(ACTIONS)
    return state, None if rng.random() < 0.01 else action


def continuous(samples: int, seed: int) -> str:
    """Steps of two numbers and a choice, with bad lines."""
    rng, lines = random.Random(seed), []
    for number in range(samples):
        if number % 89 == 44:
            lines.append('{"observation": [1.0], "action": 0}')
        seen = [round(rng.gauss(0, 1), 3) for _ in range(2)]
        action = int(seen[0] > 0) if rng.random() < 0.9 else 2
        lines.append(json.dumps({"episode": number // EPISODE, "observation": seen, "action": action}))
    return "\n".join(lines) + "\n"


NETWORKS = [
    "--min-samples",
    "100",
    "--memory",
    "200",
    "--window",
    "16",
    "--steps",
    "2",
    "--batch-size",
    "32",
    "--update-every",
    "25",
]


def kinds() -> dict[str, Kind]:
    """All kinds of streams that are killed."""
    found = (
        Kind("once", 12_000, (*SIZES, "--once", "--on-drift", "forget"), False, tabular(12_000, 1)),
        Kind(
            "guessed",
            12_000,
            ("--first-lines", "400", "--once", "--on-drift", "restart"),
            False,
            tabular(12_000, 2),
        ),
        Kind("grows", 12_000, SIZES, True, tabular(12_000, 3)),
        Kind("networks", 1500, ("--first-lines", "200", "--once", *NETWORKS), False, continuous(1500, 4)),
        Kind("world", 3000, ("--samples", "3000"), False, ""),
    )
    return {kind.name: kind for kind in found}


def write(folder: Path, kind: Kind) -> None:
    """The whole source of a stream, where it is a file."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind.text:
        (folder / "log").write_text(kind.text)
