"""The paper's claims and where they stand, in sentences written from the numbers."""

from collections.abc import Iterable, Sequence

from skillstream.experiments.reproduction.protocol import CHANGES, TASKS
from skillstream.experiments.reproduction.statistics import MARGIN, Claim, Point, Standing, Verdict

BUDGETS = {"steps": "Table 1's gradient steps, which are about equal", "time": "equal wall time"}


def claim_sentences(found: Sequence[Claim]) -> list[str]:
    """One sentence a claim, setting of the penalties and budget."""
    groups: dict[tuple[str, str, str], list[Claim]] = {}
    for claim in found:
        groups.setdefault((claim.claim, claim.difference.penalties, claim.difference.budget), []).append(
            claim
        )
    return [_sentence(*key, claims) for key, claims in groups.items()]


def _sentence(name: str, penalties: str, budget: str, found: Sequence[Claim]) -> str:
    parts = [_part(verdict, found) for verdict in ("holds", "does not hold", "undecided")]
    said = "; ".join(part for part in parts if part)
    return f"'{name[0].upper()}{name[1:]}', penalties {penalties}, {BUDGETS[budget]}: {said}."


def _part(verdict: Verdict, found: Sequence[Claim]) -> str:
    rows = [claim.difference for claim in found if claim.verdict == verdict]
    if not rows:
        return ""
    where: dict[str, list[str]] = {}
    for row in rows:
        where.setdefault(row.task, []).append(f"{row.size:,}")
    places = ", ".join(f"{TASKS[task].title.lower()} at {', '.join(sizes)}" for task, sizes in where.items())
    gaps = [row.mean for row in rows]
    spread = f"{min(gaps):+.2f}" if len(gaps) == 1 else f"{min(gaps):+.2f} to {max(gaps):+.2f}"
    words = {"undecided": "cannot be told from chance"}.get(verdict, verdict)
    return f"{words} in {len(rows)} of {len(found)} cases ({places}), where online is ahead by {spread}"


def standing_sentences(found: Iterable[Standing]) -> list[str]:
    """Where ours is behind the published curves, and where this library's own choice is behind anything."""
    rows = [row for row in found if row.published is not None]
    if not rows:
        return []
    behind = [row for row in rows if row.published is not None and row.ours < row.published]
    told = [
        f"The better of our batch and online (bounded penalties or none) is at or above the better of the "
        f"published ones at {len(rows) - len(behind)} of {len(rows)} sizes."
    ]
    if behind:
        told.append(f"It is behind {_listed((row, row.published, row.ours) for row in behind)}.")
    for name, rival in (("the published curves", "published"), ("flat cloning", "flat")):
        compared = [
            (row, getattr(row, rival), row.default)
            for row in found
            if row.default is not None and getattr(row, rival) is not None
        ]
        below = [(row, theirs, ours) for row, theirs, ours in compared if ours < theirs]
        if compared:
            told.append(
                f"What skillstream chooses by itself is at or above {name} at "
                f"{len(compared) - len(below)} of {len(compared)} sizes"
                + (f"; it is behind {_listed(below)}." if below else ".")
            )
    return told


def _listed(rows: Iterable[tuple[Standing, float | None, float]]) -> str:
    return ", ".join(
        f"in the {TASKS[row.task].title.lower()} at {row.size:,} ({ours:.2f} to {theirs:.2f})"
        for row, theirs, ours in rows
    )


def ablation_sentences(found: Sequence[Point]) -> list[str]:
    """What each change does to each algorithm, where it is more than chance."""
    told = []
    for learner in ("batch", "online"):
        rows = {point.change: point for point in found if point.learner == learner}
        base = rows.get("protocol")
        if base is None:
            continue
        better, worse = [], []
        for name, point in rows.items():
            gap = point.mean - base.mean
            error = ((point.std**2 + base.std**2) / max(point.seeds - 1, 1)) ** 0.5
            if abs(gap) > 2 * error and name != "protocol":
                (better if gap > 0 else worse).append(f"{CHANGES[name].what} ({gap:+.2f})")
        for words, names in (("better", better), ("worse", worse)):
            if names:
                told.append(f"{learner.capitalize()} does {words} with: {'; '.join(names)}.")
        if not (better or worse):
            told.append(f"No change moves {learner} by more than chance.")
    return told


def margin() -> str:
    """What counts as a tangible deterioration."""
    return (
        f"A deterioration counts as tangible beyond {MARGIN:.0%} of the expert's return: the claim holds "
        "where the whole 95 % interval of the difference lies above that, and does not where it lies below 0."
    )
