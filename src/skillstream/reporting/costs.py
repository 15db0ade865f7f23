"""Measured costs of E-steps: the rows, how they grow, and where online becomes cheaper than batch."""

import csv
import io
import itertools
import os
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.files import write_whole

VARIABLES = ("T", "K", "S", "A")
BATCH, BATCH_OURS = "batch, as written", "batch, ours"
ONLINE, ONLINE_NUMPY = "online, as written", "online, as written, in NumPy"
ONLINE_OURS = "online, ours"

# How the time of an E-step should grow with T, K, |S| and |A|: by Section 6.1, and by counting.
_PAPER_BATCH, _PAPER_ONLINE = (1, 2, 0, 0), (0, 3, 1, 1)
PAPER = {
    BATCH: _PAPER_BATCH,
    BATCH_OURS: _PAPER_BATCH,
    ONLINE: _PAPER_ONLINE,
    ONLINE_NUMPY: _PAPER_ONLINE,
    ONLINE_OURS: _PAPER_ONLINE,
}
# rho has K^3 B numbers for every state and action, and each is a sum over K of them.
_LITERAL = (0, 4, 1, 1)
COUNTED = {
    BATCH: (1, 2, 0, 0),
    BATCH_OURS: (1, 1, 0, 0),
    ONLINE: _LITERAL,
    ONLINE_NUMPY: _LITERAL,
    ONLINE_OURS: (0, 2, 0, 0),
}
_ROWS, _FITS = "costs.csv", "cost_exponents.csv"


@dataclass(frozen=True)
class CostRow:
    """The seconds of one E-step at one size; in a sweep, only `variable` differs from row to row."""

    algorithm: str
    variable: str
    T: int
    K: int
    S: int
    A: int
    seconds: float

    @property
    def value(self) -> int:
        """The size of what is varied."""
        return getattr(self, self.variable)


@dataclass(frozen=True)
class CostFit:
    """How the time of an E-step grows: seconds in proportion to `variable` to the power `exponent`."""

    algorithm: str
    variable: str
    exponent: float
    standard_error: float
    paper_exponent: int  # Section 6.1
    counted_exponent: int  # by counting the operations of what was measured
    least: int  # fitted from this value of the variable on
    points: int


@dataclass(frozen=True)
class Crossover:
    """With so many samples or more, one online E-step takes less time than one batch E-step."""

    variable: str
    K: int
    S: int
    A: int
    samples: float

    @property
    def share(self) -> float:
        """In multiples of |S| |A|."""
        return self.samples / (self.S * self.A)


@dataclass(frozen=True)
class Costs:
    """All timings."""

    rows: tuple[CostRow, ...]

    @cached_property
    def fits(self) -> tuple[CostFit, ...]:
        """The growth of every algorithm with every variable."""
        sweeps = itertools.product(dict.fromkeys(row.algorithm for row in self.rows), VARIABLES)
        return tuple(
            _fit(rows) for algorithm, variable in sweeps if (rows := self.sweep(algorithm, variable))
        )

    def sweep(self, algorithm: str, variable: str) -> list[CostRow]:
        """The rows of one line, from the least value on."""
        rows = [row for row in self.rows if (row.algorithm, row.variable) == (algorithm, variable)]
        return sorted(rows, key=lambda row: row.value)

    def fit(self, algorithm: str, variable: str) -> CostFit:
        """One of `fits`."""
        for fit in self.fits:
            if (fit.algorithm, fit.variable) == (algorithm, variable):
                return fit
        raise InputError(f"costs: nothing was measured of {algorithm!r} as {variable} grows")

    def crossovers(self, batch: str, online: str, variable: str) -> list[Crossover]:
        """From how many samples on an online E-step is cheaper, along a sweep of K, S or A.

        A batch E-step is taken to cost as much a sample as it does with the samples it was measured with.
        """
        others = {row.value: row for row in self.sweep(batch, variable)}
        return [
            Crossover(variable, row.K, row.S, row.A, row.seconds / other.seconds * other.T)
            for row in self.sweep(online, variable)
            if (other := others.get(row.value)) is not None
        ]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the rows, and for those who read them the exponents, as CSV files into a folder."""
        head = [field.name for field in fields(CostRow)]
        head.insert(2, "value")
        rows = [(row.algorithm, row.variable, row.value, *astuple(row)[2:]) for row in self.rows]
        _write(Path(folder) / _ROWS, head, rows)
        _write(
            Path(folder) / _FITS, [field.name for field in fields(CostFit)], [astuple(f) for f in self.fits]
        )

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "Costs":
        """Read what `save` wrote."""
        path = Path(folder) / _ROWS
        if not path.is_file():
            raise FileNotFoundError(f"folder: {folder} holds no {_ROWS}, which Costs.save writes")
        with path.open(newline="") as file:
            try:
                rows = tuple(_read(line) for line in csv.DictReader(file, strict=True))
            except (KeyError, TypeError, ValueError, csv.Error) as error:
                raise FileFormatError(f"{path}: not a table of measured costs ({error!r})") from error
        return Costs(rows)


def _fit(rows: list[CostRow]) -> CostFit:
    """Least squares on the logarithms of the upper half of the values, where the asymptote shows."""
    first, upper = rows[0], rows[-max(len(rows) // 2 + 1, 3) :]
    slope, error = growth([row.value for row in upper], [row.seconds for row in upper])
    place = VARIABLES.index(first.variable)
    expected = PAPER[first.algorithm][place], COUNTED[first.algorithm][place]
    return CostFit(first.algorithm, first.variable, slope, error, *expected, upper[0].value, len(upper))


def growth(values: list[int], seconds: list[float]) -> tuple[float, float]:
    """The exponent with which `seconds` grow in `values`, and its standard error (nan of two points).

    Examples
    --------
    >>> exponent, error = growth([1, 2, 4, 8], [3, 12, 48, 192])
    >>> round(exponent, 6), round(error, 6)
    (2.0, 0.0)
    """
    if len(set(values)) < 2:
        raise InputError(f"values: growth needs two or more, found {values}")
    x, y = np.log(values), np.log(seconds)
    x, y = x - x.mean(), y - y.mean()
    slope = (x * y).sum() / (x**2).sum()
    freedom = len(x) - 2
    variance = ((y - slope * x) ** 2).sum() / freedom if freedom > 0 else np.nan
    return float(slope), float(np.sqrt(variance / (x**2).sum()))


def _write(path: Path, head: list[str], rows) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def _read(line: dict[str, str]) -> CostRow:
    algorithm, variable = line["algorithm"], line["variable"]
    if algorithm not in PAPER or variable not in VARIABLES:
        raise ValueError(f"no costs of {algorithm} as {variable} grows")
    T, K, S, A = (int(line[name]) for name in VARIABLES)
    if min(T, K, S, A) < 1:
        raise ValueError(f"an E-step of size {(T, K, S, A)}")
    seconds = float(line["seconds"])
    if not 0 < seconds < np.inf:
        raise ValueError(f"an E-step of {seconds} seconds")
    return CostRow(algorithm, variable, T, K, S, A, seconds)
