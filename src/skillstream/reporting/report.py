"""The report of a run: one HTML page that needs no network, for desk, phone and paper."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.files import write_whole
from skillstream.policies.segmentation import Segmentation, segment
from skillstream.reporting import page
from skillstream.reporting.curves import Comparison, comparison_figure, learning_figure, short
from skillstream.reporting.frames import Frames
from skillstream.reporting.options import frame_list, skill_cards
from skillstream.reporting.skills import choices_by_state, describe_skills
from skillstream.reporting.timeline import segmentation_figure
from skillstream.reporting.usage import usage_figure
from skillstream.reporting.vocabulary import observation_names
from skillstream.runs import REPORT, RunDirectory

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy

_STEPS_A_INCH = 42  # of a timeline; more cannot be told apart
_LONGEST = 400


@dataclass(frozen=True)
class Agreement:
    """The share of steps that get the expert's own option, labels matched."""

    learnt: float  # by smoothing with the learnt policy
    true: float | None = None  # by smoothing with the expert's hierarchy itself: the most there is to get


@dataclass(frozen=True, eq=False)
class _Findings:
    """All that the sections of a report draw on."""

    run: RunDirectory
    demos: Demonstrations
    policy: "OptionPolicy"
    segmentation: Segmentation
    task: str | None
    comparison: Comparison | None
    agreement: Agreement | None
    frames: Frames | None
    notes: Sequence[str]


def write_report(
    run: RunDirectory,
    demos: Demonstrations,
    policy: "OptionPolicy",
    *,
    task: str | None = None,
    comparison: Comparison | None = None,
    agreement: Agreement | None = None,
    frames: Frames | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write `report.html` into a run directory, in the place of an older one, and say where it is.

    Parameters
    ----------
    run
        A run of `fit` or `stream`.
    demos
        The demonstrations to show the options on.
    policy
        The learnt policy.
    task
        The world that the demonstrations come from, if it is known.
    comparison
        How the learnt policy and others do there; the learnt one first.
    agreement
        How often the learnt options are the expert's own, if those are known.
    frames
        Pictures of the policy at work.
    notes
        What is missing from the report, and why.
    """
    found = _Findings(run, demos, policy, segment(policy, demos), task, comparison, agreement, frames, notes)
    parts = [
        _header(found),
        _learnt(found),
        _learning(found),
        _timeline(found),
        _options(found),
        _evaluation(found),
        _truth(found),
        _loading(found),
        _made(found),
    ]
    path = run.path / REPORT
    write_whole(path, page.page(f"{_title(found)} · skillstream", parts).encode())
    return path


def _title(found: _Findings) -> str:
    count = found.policy.num_options
    options = "1 option" if count == 1 else f"{count} options"
    return f"{options} learnt from {found.task or _data(found)}"


def _data(found: _Findings) -> str:
    return Path(str(found.run.record.get("demonstrations") or "demonstrations")).name


def _header(found: _Findings) -> str:
    return (
        "<header>\n"
        + page.paragraph(f"skillstream report of {found.run.path.name}", "kicker")
        + f"<h1>{page.text(_title(found))}</h1>\n"
        + page.paragraph(_summary(found), "lead")
        + page.tiles(_numbers(found))
        + "\n</header>"
    )


def _summary(found: _Findings) -> str:
    demos = found.demos
    episodes = "1 episode" if demos.num_episodes == 1 else f"{demos.num_episodes} episodes"
    words = f"From {demos.num_steps:,} steps of demonstration in {episodes}."
    if found.comparison is not None:
        learnt, *others = found.comparison.policies.items()
        words += f" Acting by itself, the {learnt[0]} returns {short(learnt[1].mean)} an episode on average"
        words += "".join(f", the {name} {short(result.mean)}" for name, result in others)
        expert = found.comparison.expert
        words += "." if expert is None else f", the expert {short(expert)}."
    return words


def _numbers(found: _Findings) -> list[tuple[str, str, str]]:
    segmentation, entries = found.segmentation, []
    if found.comparison is not None:
        name, learnt = next(iter(found.comparison.policies.items()))
        low, high = learnt.interval
        entries.append(
            (f"Mean return, {name}", f"{short(learnt.mean)}", f"95 % interval {short(low)} to {short(high)}")
        )
    entries.append(
        (
            "Log-likelihood a step",
            f"{segmentation.log_likelihood / found.demos.num_steps:.4f}",
            "of the demonstrations, given the policy",
        )
    )
    lengths = [run.length for run in segmentation.runs()]
    entries.append(
        ("Mean run of an option", f"{sum(lengths) / len(lengths):.1f} steps", f"{len(lengths):,} runs in all")
    )
    if found.agreement is not None:
        best = found.agreement.true
        beside = "labels matched" if best is None else f"the true hierarchy reaches {best:.1%}"
        entries.append(("Expert's option found", f"{found.agreement.learnt:.1%}", beside))
    return entries


def _learnt(found: _Findings) -> str:
    record, results = found.run.record, found.run.record.get("results") or {}
    rows: list[tuple[str, Any]] = [
        ("Policy", _inside(found.policy)),
        ("Demonstrations", _inside(found.demos)),
        ("Read from", record.get("demonstrations") or "not recorded"),
        ("World", " ".join([found.task or "not known", *map(str, record.get("set") or ())])),
        ("Learnt by", _algorithm(record)),
        ("State of the run", f"{record.get('state', 'not recorded')}, {record.get('seconds', '?')} s"),
    ]
    if "certificate" in results:
        rows.append(
            ("Certificate", f"{results['certificate']:.0e}, the most a settled posterior could still change")
        )
    notes = "".join(page.paragraph(note, "note") for note in found.notes)
    return page.section("What was learnt", page.facts(rows), notes)


def _algorithm(record: dict[str, Any]) -> str:
    learning = record.get("settings", {}).get("learning") or {}
    if record.get("command") == "stream":
        return "online Baum-Welch, one pass, sample by sample"
    if record.get("command") == "fit":
        starts = learning.get("starts", 1)
        times = "one start" if starts == 1 else f"each of {starts} starts"
        return f"batch Baum-Welch, up to {learning.get('iterations', '?')} iterations from {times}"
    return str(record.get("command", "not recorded"))


def _learning(found: _Findings) -> str:
    metrics = [line for line in found.run.metrics() if line.get("log_likelihood") is not None]
    if not metrics:
        return page.section("How learning went", page.paragraph("The run recorded no metrics.", "note"))
    online = found.run.record.get("command") == "stream"
    by_end = not found.run.record.get("settings", {}).get("held_out")
    first = metrics[0]
    axis = "samples seen" if online else "iterations"
    words = (
        "The log-likelihood of each sample, predicted before it was learnt from, averaged over all so far."
        if online
        else "The log-likelihood that a step of the demonstrations has under the policy, one iteration "
        f"after another. The start that {'ends highest' if by_end else 'explains held-out episodes best'} "
        "is kept."
    )
    chart = page.small_figure(
        "learning",
        f"Line chart of the log-likelihood a step over {axis}: from {first['log_likelihood']:.4f} to "
        f"{max(line['log_likelihood'] for line in metrics):.4f} at best",
        lambda width: learning_figure(metrics, online, by_end, width),
    )
    numbers = page.table(
        ("Pass" if online else "Start", "Samples" if online else "Iterations", "First", "Last", "Seconds"),
        _passes(metrics, online),
        "Log-likelihoods a step",
    )
    return page.section("How learning went", page.paragraph(words), page.beside(chart, numbers))


def _passes(metrics: list[dict[str, Any]], online: bool) -> list[tuple[str, ...]]:
    """For each start, how long it took and how far it came."""
    rows, began = [], 0.0
    for start in sorted({int(line.get("start", 0)) for line in metrics}):
        lines = [line for line in metrics if int(line.get("start", 0)) == start]
        first, last = lines[0], lines[-1]
        amount = last["step"] if online else len(lines)
        seconds = last.get("seconds", began) - began
        ends = (f"{line['log_likelihood']:.4f}" for line in (first, last))
        rows.append((str(start + 1), f"{amount:,}", *ends, f"{seconds:.1f}"))
        began += seconds
    return rows


def _inside(thing: Any) -> str:
    """What a thing's representation says of it, without the name of its class."""
    return repr(thing).partition("(")[2].removesuffix(")")


def _timeline(found: _Findings) -> str:
    demos, names = found.demos, observation_names(found.demos, found.task)

    def draw(width: float) -> Any:
        steps = min(_LONGEST, int(width * _STEPS_A_INCH))
        return segmentation_figure(found.segmentation, demos, steps, width, names)

    switches = int(found.segmentation.switches.sum()) - demos.num_episodes
    words = (
        "What was seen and done at the first steps, and below it the option that most probably ran, "
        "given the whole episode. Colours mix where it is not sure."
    )
    true = "; the last strip has the expert's own options" if demos.true_options is not None else ""
    chart = page.figure(
        "timeline",
        f"Timeline of observations, actions and options over the first steps, with {switches} switches of "
        f"option in all demonstrations{true}",
        draw,
    )
    return page.section("Which option runs when", page.paragraph(words), chart)


def _options(found: _Findings) -> str:
    skills = describe_skills(found.segmentation, found.demos, found.task)
    shares = ", ".join(f"option {option} {skill.share:.0%}" for option, skill in enumerate(skills))
    where = page.figure(
        "usage",
        f"Where in the state space each option runs and stops; shares of the steps: {shares}",
        lambda width: usage_figure(found.segmentation, found.demos, found.task, width),
    )
    parts = [skill_cards(skills)]
    by_state = choices_by_state(found.segmentation, found.demos, found.task)
    if by_state:
        head = ["State", *(f"Option {option}" for option in range(len(skills)))]
        caption = "In each state (the most visited ones), each option's usual action and the share it has."
        parts += [page.heading("What they do in each state"), page.table(head, by_state, caption)]
    parts += [page.heading("Where they run, and where they stop"), where]
    if found.frames is not None:
        parts += [page.heading("The learnt policy at work"), frame_list(found.frames)]
    return page.section("What each option does", *parts)


def _evaluation(found: _Findings) -> str:
    comparison = found.comparison
    if comparison is None:
        return page.section(
            "How well it acts",
            page.paragraph("Not evaluated: the world is not known, or was not there.", "note"),
        )
    episodes = len(next(iter(comparison.policies.values())).returns)
    rows = []
    for name, result in comparison.policies.items():
        low, high = result.interval
        rows.append((name, f"{short(result.mean)}", f"{short(low)} to {short(high)}", f"{short(result.std)}"))
    if comparison.expert is not None:
        rows.append(("expert", f"{short(comparison.expert)}", "", ""))
    said = "; ".join(f"{row[0]} {row[1]}" for row in rows)
    chart = page.small_figure(
        "comparison",
        f"Mean returns: {said}",
        lambda width: comparison_figure(comparison, width),
    )
    numbers = page.table(("Policy", "Mean", "95 % interval", "Std"), rows, "Mean returns")
    words = (
        f"{episodes:,} episodes of {found.task} for each. The flat clone is the same kind of policy with a "
        "single option, taught by the same demonstrations: what options are worth is the difference."
    )
    return page.section("How well it acts", page.paragraph(words), page.beside(chart, numbers))


def _truth(found: _Findings) -> str:
    if found.agreement is None:
        return ""
    learnt, true = found.agreement.learnt, found.agreement.true
    words = (
        f"The expert's own options were recorded. Read with the learnt policy, {learnt:.1%} of the "
        "steps get the expert's option, after the best matching of labels."
    )
    if true is not None:
        words += (
            f" The expert's own hierarchy, read in the same way, recovers {true:.1%}: the learnt policy "
            f"reaches {learnt / true:.0%} of that."
        )
    return page.section("Are they the expert's options?", page.paragraph(words))


def _loading(found: _Findings) -> str:
    policy = found.run.policy
    python = (
        "import skillstream as ss\n\n"
        f"agent = ss.Agent.load({str(policy)!r}, seed=0)\n"
        "agent.reset()                     # an episode begins\n"
        "action = agent.act(observation)   # agent.option is the option that runs\n\n"
        f"policy = ss.OptionPolicy.load({str(policy)!r})\n"
        "segments = ss.segment(policy, ss.Demonstrations.load('more.npz'))"
    )
    run = shlex.quote(str(found.run.path))
    source = shlex.quote(str(found.run.record.get("demonstrations") or "DEMONSTRATIONS"))
    evaluate = f"skillstream evaluate {run}" + ("" if found.task else " TASK")
    shell = f"{evaluate}\nskillstream segment {run} {source}"
    return page.section(
        "How to use it",
        page.paragraph("In Python; the agent needs NumPy only."),
        page.code(python, "language-python"),
        page.paragraph("From the command line."),
        page.code(shell, "language-shell"),
    )


def _made(found: _Findings) -> str:
    record = found.run.record
    command = "skillstream " + shlex.join(str(part) for part in record.get("arguments") or ())
    rows: list[tuple[str, Any]] = [("Command", command), ("Began", record.get("began", "not recorded"))]
    rows += [
        ("Versions", _listed(record.get("versions"))),
        ("Machine", record.get("machine", "not recorded")),
    ]
    rows.append(("Learning", _listed(record.get("settings", {}).get("learning"))))
    return page.section("How this run was made", page.facts(rows))


def _listed(values: Any) -> str:
    """A mapping in one line, mappings inside it included; what is not set is left out."""
    if not isinstance(values, dict):
        return str(values)
    said = {name: value for name, value in values.items() if value not in (None, False, 0)}
    parts = (f"{name} {f'({_listed(v)})' if isinstance(v, dict) else v}" for name, v in said.items())
    return ", ".join(parts) or "nothing"
