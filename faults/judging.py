"""What a state directory holds, as another process sees it, and whether that is what it must be."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")
_OWN = (
    "position",
    "pace",
    "source",
    "metrics",
    "rejects",
    "checksum",
)  # of a checkpoint, and its run's own affair


@dataclass
class Seen:
    """A state directory.

    Attributes
    ----------
    samples
        At the newest checkpoint; None if there is none.
    bits
        A digest of all that the newest checkpoint says of what was learnt.
    unloadable
        What is there and cannot be read, or is not what it should be.
    """

    samples: int | None = None
    bits: str = ""
    unloadable: list[str] = field(default_factory=list)


def look(state: Path) -> Seen:
    """Read everything that another process may read."""
    from skillstream.errors import FileFormatError
    from skillstream.streaming.progress import Progress
    from skillstream.streaming.state import checkpoints, load_checkpoint

    seen, policies = Seen(), []
    for path in checkpoints(state):
        try:
            arrays, header = load_checkpoint(path)
            progress = Progress.unpack(str(path), dict(arrays), header, "ignore")
        except FileFormatError as error:
            seen.unloadable.append(str(error))
            continue
        seen.samples, seen.bits = progress.samples, _digest(arrays, header)
        if progress.learner is not None:
            policies.append(_packed(progress.learner.policy))
    seen.unloadable += _look_at_policy(state, policies)
    for name in ("status.json", "run.json"):
        try:
            if (state / name).exists():
                json.loads((state / name).read_text())
        except ValueError as error:
            seen.unloadable.append(f"{name}: {error}")
    return seen


def _look_at_policy(state: Path, policies: list[str]) -> list[str]:
    """The policy is that of one of the checkpoints, or not there yet."""
    import skillstream as ss
    from skillstream.errors import SkillstreamError
    from skillstream.streaming.progress import load_learner

    path = state / "policy.safetensors"
    problems = []
    try:
        if path.exists():
            ss.Agent.load(path)
            if _packed(ss.OptionPolicy.load(path)) not in policies:
                problems.append("the policy is not that of a checkpoint")
        elif len(policies) > 1:
            problems.append("there is no policy")
        if policies and _packed(load_learner(state).policy) != policies[-1]:
            problems.append("load_learner gives another one")
    except (SkillstreamError, OSError, ValueError) as error:
        problems.append(f"policy or learner: {type(error).__name__}: {error}")
    return problems


def _packed(policy: Any) -> str:
    from skillstream.policies.storage import pack

    arrays, header = pack(policy)
    return _digest(arrays, header)


def _digest(arrays: dict[str, Any], header: dict[str, Any]) -> str:
    own = {name: part for name, part in header.items() if name not in _OWN}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return digest.hexdigest()


@dataclass
class Verdict:
    """What is wrong with a trial; nothing, if all is empty."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    unloadable: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def add(self, other: "Verdict") -> None:
        """What is wrong with another one too."""
        for name, problems in asdict(other).items():
            getattr(self, name).extend(problems)


def compare(state: Path, whole: Path, gaps: bool = False, left_out: str = "") -> Verdict:
    """A finished state with that of a stream that nothing happened to.

    Parameters
    ----------
    gaps
        Whether lists of rejects and metrics may lack lines, because the stream said that it could not write.
    left_out
        The name of a file that was damaged and is not judged.
    """
    found, want, verdict = look(state), look(whole), Verdict()
    verdict.unloadable += [problem for problem in found.unloadable if not left_out or left_out not in problem]
    if (found.samples or 0) < (want.samples or 0):
        verdict.lost.append(f"{found.samples} samples instead of {want.samples}")
    elif (found.samples or 0) > (want.samples or 0):
        verdict.twice.append(f"{found.samples} samples instead of {want.samples}")
    elif found.bits != want.bits:
        verdict.wrong.append("other bits")
    for name, check in (("rejects.jsonl", _compare_rejects), ("metrics.jsonl", _compare_metrics)):
        if name != left_out:
            check(_lines(state / name), _lines(whole / name), gaps, verdict)
    return verdict


def left_over(state: Path) -> Verdict:
    """What no stream leaves behind that could clear up at its end."""
    verdict = Verdict()
    left = [path.name for path in state.rglob("*") if _UNFINISHED.fullmatch(path.name)]
    if left:
        verdict.wrong.append(f"left over: {left}")
    if (state / "lock").read_bytes():
        verdict.wrong.append("the lock names a writer")
    return verdict


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _compare_rejects(found: list[str], want: list[str], gaps: bool, verdict: Verdict) -> None:
    if len({*found}) < len(found):
        verdict.twice.append(f"{len(found) - len({*found})} rejects are listed twice")
    if {*want} - {*found} and not gaps:
        verdict.lost.append(f"{len({*want} - {*found})} rejects are not listed")
    if [line for line in want if line in {*found}] != found:
        verdict.wrong.append("the list of rejects holds something else, or is out of order")


def _compare_metrics(found: list[str], want: list[str], gaps: bool, verdict: Verdict) -> None:
    """The lines at marks are those of the other; others may come where a stream ended and went on."""
    try:
        have, known = ({json.loads(line)["step"]: _plain(line) for line in lines} for lines in (found, want))
    except (ValueError, KeyError) as error:
        verdict.wrong.append(f"metrics: {error}")
        return
    if len(have) < len(found) or [*have] != sorted(have):
        verdict.twice.append(f"steps of the metrics twice or out of order: {[*have]}")
    if not gaps and not {*known} <= {*have}:
        verdict.lost.append(f"steps {[*({*known} - {*have})]} of the metrics")
    other = [step for step in {*known} & {*have} if known[step] != have[step]]
    if other:
        verdict.wrong.append(f"steps {other} of the metrics are others")


def _plain(line: str) -> dict[str, Any]:
    """What does not depend on a clock, nor on how samples were cut into batches."""
    own = ("seconds", "rate", "memory", "usage", "rejected")
    return {name: value for name, value in json.loads(line).items() if name not in own}


@dataclass
class Readable:
    """What other processes get from a state directory.

    Attributes
    ----------
    known
        What was loaded, and digests of it.
    crashes
        Errors that are not the library's own.
    """

    known: set[tuple[str, str]] = field(default_factory=set)
    crashes: list[str] = field(default_factory=list)


def readable(state: Path) -> Readable:
    """Load every checkpoint and the policy by themselves, as other processes do."""
    import skillstream as ss
    from skillstream.errors import SkillstreamError
    from skillstream.runs import RunDirectory
    from skillstream.streaming.progress import Progress
    from skillstream.streaming.state import checkpoints, load_checkpoint

    def checkpoint(path: Path) -> str:
        arrays, header = load_checkpoint(path)
        Progress.unpack(str(path), dict(arrays), header, "ignore")
        return _digest(arrays, header)

    def policy(path: Path) -> str:
        ss.Agent.load(path)
        return _packed(ss.OptionPolicy.load(path))

    def run(path: Path) -> str:
        RunDirectory.open(path).metrics()
        return ""

    found = Readable()
    asked = [
        *((checkpoint, path) for path in checkpoints(state)),
        (policy, state / "policy.safetensors"),
        (run, state),
    ]
    for read, path in asked:
        try:
            found.known.add((path.name, read(path)))
        except (SkillstreamError, OSError):
            continue
        except Exception as error:
            found.crashes.append(f"{path.name}: {type(error).__name__}: {error}")
    return found
