"""Writes that fail: no space, a read-only folder, an error of the disk; once, for a while, or for ever."""

import random
from pathlib import Path

from inside import ERRORS, SMALL, command, fresh, names_reason
from judging import Verdict, compare, left_over
from layer import Place, Plan

_PLACES: tuple[Place, ...] = ("before", "torn", "after")
# A good-bye less, so that the next one takes the lock over; a folder that is there all the same.
_HARMLESS = {"ftruncate lock", "mkdir .", "mkdir checkpoints"}
_LENGTHS = (1, 5, 10**9)


def plans(states: Path, folder: Path) -> list[tuple[str, Plan]]:
    """Every operation of a new stream and of one that goes on, every error, every place, every length."""
    found = []
    for begun in ("new", "running"):
        count = command(states, fresh(folder, _state(states, begun))).layer.count
        found += [
            (begun, Plan(error, place, first, first + length - 1))
            for first in range(1, count + 1)
            for error in ERRORS
            for place in _PLACES
            for length in _LENGTHS
        ]
    return found


def _state(states: Path, begun: str) -> Path | None:
    return None if begun == "new" else states / begun


def chosen(states: Path, folder: Path, most: int, seed: int) -> list[tuple[str, Plan]]:
    """So many of them, at random."""
    every = plans(states, folder)
    return random.Random(f"writes-{seed}").sample(every, min(most, len(every)))


def trial(states: Path, folder: Path, begun: str, plan: Plan) -> Verdict:
    """The stream goes on and says so, or stops and says why; after the fault it ends in the same bits."""
    first = command(states, fresh(folder, _state(states, begun)), plan)
    verdict = first.verdict
    told = names_reason(first.said, plan)
    if {*first.layer.hit} - _HARMLESS and not told:
        verdict.wrong.append(f"no word of {plan}: {first.layer.hit[:3]}: {first.said[-1000:]}")
    if first.code == 0 and not verdict:
        verdict.add(compare(folder / "state", states / "finished" / "state", gaps=told))
    second = command(states, folder)
    if second.code != 0:
        verdict.wrong.append(f"does not go on after it: {second.said[-1000:]}")
    else:
        verdict.add(compare(folder / "state", states / "finished" / "state", gaps=told))
        verdict.add(left_over(folder / "state"))
    if verdict:
        verdict.wrong.append(
            f"{SMALL.name} {begun}, {plan}, {first.layer.hit[:3]}, said {first.said[-500:]!r}"
        )
    return verdict
