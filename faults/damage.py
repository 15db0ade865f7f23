"""Files that are damaged while nobody looks: cut, flipped, overwritten, with more at their end, or gone."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inside import command, fresh
from judging import Verdict, compare, left_over, readable

_CHECKPOINTS = "checkpoints"


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.choice((0, 1, len(data) // 2, max(len(data) - 1, 0), rng.randint(0, len(data))))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(max(len(data), 1))
    return (
        data[:place]
        + bytes(byte ^ 1 << rng.randrange(8) for byte in data[place : place + 1])
        + data[place + 1 :]
    )


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    place, size = rng.randrange(max(len(data), 1)), rng.choice((1, 8, 64, 512))
    other = rng.randbytes(size) if rng.random() < 0.5 else bytes(size)
    return (data[:place] + other + data[place + size :])[: max(len(data), 1)]


def _add(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0" * 512, b"\n", b"{}", rng.randbytes(100)))


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": _cut,
    "flipped": _flip,
    "overwritten": _overwrite,
    "added to": _add,
}


@dataclass(frozen=True)
class Damage:
    """What is done to a file, or to all checkpoints, of which state."""

    state: str
    file: str
    how: str
    seed: str


def chosen(states: Path, most: int, seed: int) -> list[Damage]:
    """Every file of both states in turn, damaged in every way in turn."""
    found = []
    for number in range(most):
        rng = random.Random(f"damage-{seed}-{number}")
        state = ("finished", "running")[number % 2]
        folder = states / state / "state"
        files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
        file = [*files, _CHECKPOINTS][number // 2 % (len(files) + 1)]
        found.append(Damage(state, file, rng.choice([*DAMAGES, *DAMAGES, "gone"]), f"{seed}-{number}"))
    return found


def trial(states: Path, folder: Path, damage: Damage) -> Verdict:
    """Readers notice, or it does no harm; the stream goes on to the same bits, or says why it cannot."""
    fresh(folder, states / damage.state)
    state, rng = folder / "state", random.Random(damage.seed)
    files = sorted(state.glob("checkpoints/*")) if damage.file == _CHECKPOINTS else [state / damage.file]
    before = readable(state)
    for path in files:
        if damage.how == "gone":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[damage.how](path.read_bytes(), rng))
    after = readable(state)
    verdict = Verdict(wrong=after.crashes)
    if not after.known <= before.known:
        verdict.wrong.append("something else was loaded without a word")
    ended = command(states, folder)
    verdict.add(ended.verdict)
    noticed = len(after.known) < len(before.known)
    verdict.add(_judge(damage, ended.code, ended.said, files, state, states / "finished" / "state"))
    if verdict:
        verdict.wrong.append(
            f"{damage}, noticed {noticed}, exit code {ended.code}, said {ended.said[-500:]!r}"
        )
    return verdict


def _judge(
    damage: Damage, code: int | None, said: str, files: list[Path], state: Path, whole: Path
) -> Verdict:
    if code != 0:
        if damage.file == _CHECKPOINTS and "can be read" in said:
            return Verdict()
        return Verdict(unloadable=[f"damage to {damage.file} stops it"])
    verdict = compare(state, whole, left_out=Path(damage.file).name)
    verdict.add(left_over(state))
    newest = max(path.name for path in (state / "checkpoints").iterdir())
    if newest.endswith(".damaged") and "set aside" not in said:
        verdict.wrong.append("no word of a damaged checkpoint")
    return verdict
