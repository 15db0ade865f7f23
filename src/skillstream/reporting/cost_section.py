"""What E-steps cost, as a part of a page: the figure, the exponents, and what they say of the paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.reporting import page
from skillstream.reporting.costs import (
    BATCH,
    BATCH_OURS,
    ONLINE,
    ONLINE_NUMPY,
    ONLINE_OURS,
    PAPER,
    VARIABLES,
    CostFit,
    Costs,
    Crossover,
)
from skillstream.reporting.figures import COLOURS, FAINT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = {"T": "T", "K": "K", "S": "|S|", "A": "|A|"}
_NAMES = {"T": "samples T", "K": "options K", "S": "states |S|", "A": "actions |A|"}
_LOOKS: dict[str, dict[str, Any]] = {
    BATCH: {"color": COLOURS[0], "linewidth": 1.2, "marker": "o", "markerfacecolor": "none"},
    BATCH_OURS: {"color": COLOURS[0], "linewidth": 2.2, "marker": "o"},
    ONLINE: {"color": COLOURS[5], "linewidth": 1.2, "marker": "s", "markerfacecolor": "none"},
    ONLINE_NUMPY: {"color": COLOURS[1], "linewidth": 1.2, "marker": "x"},
    ONLINE_OURS: {"color": COLOURS[5], "linewidth": 2.2, "marker": "s"},
}
_MARGIN = 0.25  # an exponent so near to the paper's counts as the paper's
_MUCH = 10  # times |S| |A| is 'much larger'
_ITERATIONS = 20  # of batch, the N of Table 1


def costs_section(costs: Costs) -> str:
    """The section of a report: what was measured, and which of Section 6.1's claims hold."""
    parts = [
        page.paragraph(
            "The time of one E-step as the number of samples T, options K, states |S| and actions |A| grows, "
            "one at a time. Section 6.1 of the paper says O(T K²) for batch and O(|S||A| K³) for online. "
            "Each is timed as the paper writes it and as skillstream does it, compiled, in double precision, "
            "without what calling it costs."
        ),
        page.figure(
            "costs",
            "Four charts of the time of an E-step on logarithmic axes, over T, K, |S| and |A|; the table of "
            "exponents below says how steep the lines are",
            lambda width: costs_figure(costs, width),
        ),
        page.heading("How it grows"),
        page.table(["E-step", *SYMBOLS.values()], _exponents(costs), "Exponents"),
        page.paragraph(_fitted(costs), "note"),
        *(page.paragraph(_growth(costs, name)) for name in (BATCH, ONLINE)),
        page.paragraph(_ours(costs)),
        page.heading("From how many samples on is an online E-step cheaper?"),
        page.paragraph(
            "From so many samples T on, one online E-step takes less time than one batch E-step: both as "
            "written, and the same as a multiple of |S||A|; online as written and our batch; both ours."
        ),
        page.table(["At", "written", "÷ |S||A|", "mixed", "ours"], _crossings(costs), "Samples"),
        *(page.paragraph(words) for words in crossover_claims(costs)),
        page.paragraph(_whole_pass(costs)),
    ]
    return page.section("What an E-step costs", *parts)


def costs_figure(costs: Costs, width: float = page.WIDE) -> "Figure":
    """A panel for each variable, a line for each E-step; dashed, the growth that the paper says."""
    wide = width > 6
    figure = new_figure(width, 5.6 if wide else 5.0)
    panels = figure.subplots(2, 2, sharey=True)
    for panel, variable in zip(panels.flat, VARIABLES, strict=True):
        for name, look in _LOOKS.items():
            rows = costs.sweep(name, variable)
            panel.plot(
                [row.value for row in rows],
                [row.seconds for row in rows],
                markersize=4 if wide else 3,
                label=name,
                **look,
            )
        for name in (BATCH, ONLINE):
            _guide(panel, costs, costs.fit(name, variable))
        _scales(panel, variable)
    for row in panels:
        row[0].set_ylabel("time of an E-step")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, loc="outside upper left", ncols=3 if wide else 2, fontsize=8
    )
    return figure


def _guide(panel: Any, costs: Costs, fit: CostFit) -> None:
    """The paper's slope from the first value that was fitted on."""
    rows = [row for row in costs.sweep(fit.algorithm, fit.variable) if row.value >= fit.least]
    heights = [rows[0].seconds * (row.value / fit.least) ** fit.paper_exponent for row in rows]
    label = "growth by the paper" if fit.algorithm == BATCH else None
    panel.plot([row.value for row in rows], heights, color=FAINT, linewidth=1.2, linestyle="--", label=label)


def _scales(panel: Any, variable: str) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator

    base = 10 if variable == "T" else 2
    panel.set_xscale("log", base=base)
    panel.set_yscale("log")
    panel.xaxis.set_major_locator(LogLocator(base=4 if variable == "S" else base))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.yaxis.set_major_locator(LogLocator(numticks=12))
    panel.yaxis.set_major_formatter(EngFormatter(unit="s"))
    panel.minorticks_off()
    panel.set_xlabel(_NAMES[variable])
    panel.grid(color=FAINT, alpha=0.25, linewidth=0.6)


def _exponents(costs: Costs) -> list[list[str]]:
    """The paper's exponents, and below them those measured."""
    rows = []
    for kind, order, names in (
        ("batch", "O(T K²)", (BATCH, BATCH_OURS)),
        ("online", "O(|S||A| K³)", (ONLINE, ONLINE_NUMPY, ONLINE_OURS)),
    ):
        rows.append([f"{kind}: {order}", *map(str, PAPER[names[0]])])
        rows += [[name, *(_with_error(costs.fit(name, v)) for v in VARIABLES)] for name in names]
    return rows


def _with_error(fit: CostFit) -> str:
    known = np.isfinite(fit.standard_error)
    return _exponent(fit) + (f" ± {fit.standard_error:.2f}" if known else "")


def _exponent(fit: CostFit) -> str:
    """Two digits, and no minus before a zero."""
    return f"{round(fit.exponent, 2) + 0:.2f}"


def _is(fit: CostFit, expected: int) -> bool:
    """Whether the exponent is the expected one, as far as can be told."""
    error = fit.standard_error if np.isfinite(fit.standard_error) else 0.0
    return abs(fit.exponent - expected) <= max(_MARGIN, 2 * error)


def listed(words: Sequence[str]) -> str:
    """Words with commas and an 'and'.

    Examples
    --------
    >>> listed(["one", "two", "three"])
    'one, two and three'
    """
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _fitted(costs: Costs) -> str:
    ranges = []
    for variable in VARIABLES:
        firsts = sorted({fit.least for fit in costs.fits if fit.variable == variable})
        ranges.append(f"{SYMBOLS[variable]} from {' or '.join(f'{first:,}' for first in firsts)}")
    return (
        "Exponents of a power law, by least squares on the logarithms, ± their standard error. Only the "
        f"larger values are fitted, where the growth shows: {listed(ranges)}."
    )


def _growth(costs: Costs, name: str) -> str:
    """Whether an E-step as written grows as the paper says."""
    kind, order = ("batch", "O(T K²)") if name == BATCH else ("online", "O(|S||A| K³)")
    fits = [costs.fit(name, variable) for variable in VARIABLES]
    off = [_departure(fit) for fit in fits if not _is(fit, fit.paper_exponent)]
    words = f"The {kind} E-step as the paper writes it: {order} "
    words += f"does not hold, for it grows {listed(off)}." if off else "holds."
    return words + (_missing_factor(costs.fit(ONLINE, "K")) if name == ONLINE else "")


def _departure(fit: CostFit) -> str:
    faster = "faster" if fit.exponent > fit.paper_exponent else "more slowly"
    return f"{faster} with {SYMBOLS[fit.variable]} (to the power {_exponent(fit)}, not {fit.paper_exponent})"


def _missing_factor(fit: CostFit) -> str:
    """On rho, which has an option more than the paper counts."""
    counted = " The recursion keeps K³ numbers for each state and action and sums K of them into each: "
    if fit.exponent > fit.paper_exponent and not _is(fit, fit.paper_exponent):
        return counted + "K⁴, and the paper counts one factor K too few."
    return counted + "K⁴, one factor K more than the paper counts, which does not show at these sizes."


def _ours(costs: Costs) -> str:
    """How ours grow with K, and online with |S| and |A|."""
    batch, online = costs.fit(BATCH_OURS, "K"), costs.fit(ONLINE_OURS, "K")
    words = [
        "Our batch E-step never builds the step from option to option: it grows with K to the power "
        f"{_exponent(batch)}{_unlike_counted(batch)}. Our online E-step keeps the last few samples in the "
        f"place of rho: it grows with K to the power {_exponent(online)}{_unlike_counted(online)}"
    ]
    cells = [costs.fit(ONLINE_OURS, variable) for variable in ("S", "A")]
    if all(_is(fit, 0) for fit in cells):
        words.append(", and with |S| and |A| not at all.")
    else:
        words.append(f", with |S| to the power {_exponent(cells[0])} and with |A| {_exponent(cells[1])}.")
    return "".join(words)


def _unlike_counted(fit: CostFit) -> str:
    expected = fit.counted_exponent
    return "" if _is(fit, expected) else f", which should be {expected} by the operations it makes"


def _crossings(costs: Costs) -> list[list[str]]:
    """A row for each of some sizes."""
    pairs = ((BATCH, ONLINE), (BATCH_OURS, ONLINE), (BATCH_OURS, ONLINE_OURS))
    rows = {}
    for variable in ("K", "S", "A"):
        for written, mixed, ours in zip(
            *(some(costs.crossovers(*pair, variable)) for pair in pairs), strict=True
        ):
            name = f"K = {written.K}, |S| = {written.S:,}, |A| = {written.A}"
            samples = [_samples(crossing.samples) for crossing in (written, mixed, ours)]
            rows[name] = [name, samples[0], _share(written.share), *samples[1:]]
    return list(rows.values())


def some(crossings: list[Crossover], most: int = 4) -> list[Crossover]:
    """The first, the last, and a few evenly between."""
    last, count = len(crossings) - 1, min(most, len(crossings))
    return [crossings[round(last * place / max(count - 1, 1))] for place in range(count)]


def _samples(number: float) -> str:
    """Two digits; the first sample is the least there is."""
    return f"{float(f'{max(number, 1):.2g}'):,.0f}"


def _share(number: float) -> str:
    return f"{float(f'{number:.2g}'):,g}"


def crossover_claims(costs: Costs) -> list[str]:
    """Whether one online E-step is cheaper where T is much larger than |S||A|, in words."""

    def worst(batch: str) -> float:
        return max(c.share for v in ("S", "A") for c in costs.crossovers(batch, ONLINE, v))

    written, mixed = worst(BATCH), worst(BATCH_OURS)
    ours = [c for v in ("S", "A") for c in costs.crossovers(BATCH_OURS, ONLINE_OURS, v)]
    samples = [_samples(bound(c.samples for c in ours)) for bound in (min, max)]
    cells = [c.S * c.A for c in ours]
    return [
        "The paper's claim: where T is much larger than |S||A|, a single online E-step is cheaper. Both as "
        f"written and with K = {ours[0].K} options, this {_verdict(written)}: at every |S| and |A| measured "
        f"it is so from T = {_share(written)} |S||A| on. {_by_options(costs.crossovers(BATCH, ONLINE, 'K'))}",
        f"Against our batch E-step the online one as written is cheaper from T = {_share(mixed)} |S||A| on: "
        f"there the claim {_verdict(mixed)}.",
        "Ours against ours does not ask for |S||A|: an online E-step is cheaper than a batch E-step of "
        f"{' to '.join(dict.fromkeys(samples))} samples or more, with {min(cells):,} pairs of "
        f"a state and an action as with {max(cells):,}.",
    ]


def _verdict(share: float) -> str:
    if share <= 1:
        return "holds, and earlier than claimed"
    return "holds" if share <= _MUCH else "does not hold"


def _by_options(crossings: list[Crossover]) -> str:
    """What the number of options does to the claim, which does not mention it."""
    first, last = crossings[0], crossings[-1]
    words = (
        f"It depends on the number of options: from T = {_share(first.share)} |S||A| on with K = {first.K}, "
        f"from {_share(last.share)} |S||A| on with K = {last.K}"
    )
    beyond = [crossing.K for crossing in crossings if crossing.share > _MUCH]
    if beyond:
        return words + f"; from K = {beyond[0]} on, ten times |S||A| is not enough."
    return words + "."


def _whole_pass(costs: Costs) -> str:
    """T online E-steps against N of batch, which the paper itself says is the other side of it."""
    base = costs.sweep(BATCH, "T")[0]
    size = min(costs.sweep(BATCH, "S"), key=lambda row: abs(row.S - base.S))
    found = {
        name: next(row.seconds for row in costs.sweep(name, "S") if row.value == size.value) for name in PAPER
    }
    told = []
    for batch, online, kind in ((BATCH, ONLINE, "as written"), (BATCH_OURS, ONLINE_OURS, "ours")):
        all_batch, all_online = _ITERATIONS * found[batch], size.T * found[online]
        cheaper = "online" if all_online < all_batch else "batch"
        times = max(all_batch, all_online) / min(all_batch, all_online)
        told.append(
            f"{kind}, {_seconds(all_online)} and {_seconds(all_batch)}, {cheaper} {times:.1f} times cheaper"
        )
    return (
        f"One E-step is not the whole of it, as the paper says: online makes T of them, batch N. With "
        f"T = {size.T:,}, N = {_ITERATIONS}, K = {size.K}, |S| = {size.S:,} and |A| = {size.A}, all E-steps "
        f"take, online and in batch: {'; '.join(told)}."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{1000 * seconds:.2g} ms"
