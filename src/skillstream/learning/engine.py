"""What stands behind an online learner: one engine counts into tables, the other keeps samples."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from skillstream.policies.policy import OptionPolicy


@dataclass(frozen=True, eq=False)
class Piece:
    """Checked samples of a stream, in order."""

    observations: np.ndarray
    actions: np.ndarray
    recorded: np.ndarray  # booleans: whether the action was
    starts: np.ndarray  # booleans: whether an episode starts here
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: slice) -> "Piece":
        """The same columns of fewer samples."""
        return Piece(
            self.observations[rows],
            self.actions[rows],
            self.recorded[rows],
            self.starts[rows],
            self.weights[rows],
        )


class Report(NamedTuple):
    """What became of a piece."""

    taken: int  # samples from the front that were taken in
    impossible: int  # of these, samples of probability zero
    refused: int  # M-steps that gave numbers that are not finite
    first_refused: int  # the sample of the first of these, counted from the piece's front


class Engine(Protocol):
    """Takes samples in and keeps what an M-step needs."""

    @property
    def chi(self) -> Any:
        """P(o_t | data to t)."""
        ...

    @property
    def totals(self) -> Any:
        """The newest sample's weight, the log-likelihood, the certificate."""
        ...

    @property
    def window(self) -> int:
        """Samples kept pending at the most."""
        ...

    def check(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` for samples that cannot be learnt from."""
        ...

    def advance(self, piece: Piece, time: int, frozen: bool) -> Report:
        """Take in samples from the front of `piece`, at least one; `time` samples came before it."""
        ...

    def rescale(self, factor: float, live: bool) -> None:
        """Multiply all weights so far."""
        ...

    def policy(self, live: bool) -> OptionPolicy:
        """The policy learnt so far; `live` says whether there has been an M-step."""
        ...

    def statistics(self, scale: float) -> dict[str, np.ndarray]:
        """What an M-step would be made from, weights divided by `scale`."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that must be saved, by name."""
        ...

    def header(self) -> dict[str, Any]:
        """What `expected` needs to know before the arrays are read, as JSON holds it."""
        ...

    def expected(self, header: dict[str, Any]) -> set[str]:
        """The names that `arrays` gave, from what `header` gave."""
        ...

    def resume(self, where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        """Go on from saved arrays, or raise a `FileFormatError` that begins with `where`."""
        ...
