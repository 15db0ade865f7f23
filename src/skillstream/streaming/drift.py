"""Whether the expert has changed: a one-sided CUSUM test on the predictive log-likelihood.

The stream is looked at in blocks of a fixed number of samples. Each block's mean log-likelihood is compared
with the recent ones, in units of their own spread; what it falls short by more than an allowance adds up, and
what it exceeds is taken off again. A policy that improves never raises an alarm, one bad block cannot (its
shortfall is capped), and a change that lasts does after a few blocks (Page, 1954). river's ADWIN and
Page-Hinkley do the like for means of any sign; they would bring pandas along, and keep no state as JSON.
"""

from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from typing import Any

BLOCK = 250
"""Samples in a block: short enough to notice soon, long enough to average episodes."""
_WARM_UP = 20  # blocks that say what is usual, before any alarm
_MEMORY = 100  # blocks whose mean and spread count as usual
_ALLOWANCE, _CAP, _ALARM = 0.75, 4.0, 12.0  # in standard deviations
_LEAST_SPREAD = 0.01  # nats a sample: smaller differences are no change of expert


@dataclass
class Drift:
    """The test, and all that it remembers."""

    blocks: int = 0
    mean: float = 0.0
    variance: float = 0.0
    shortfall: float = 0.0

    def update(self, log_likelihood: float) -> bool:
        """Take in a block's mean log-likelihood a sample; True if the expert seems to have changed.

        Examples
        --------
        >>> test = Drift()
        >>> any([test.update(-0.5 + 0.01 * (i % 3)) for i in range(100)])
        False
        >>> [test.update(-2.0) for _ in range(6)]
        [False, False, False, True, False, False]
        """
        if self.blocks >= _WARM_UP:
            spread = max(sqrt(self.variance), _LEAST_SPREAD)
            below = min((self.mean - log_likelihood) / spread, _CAP)
            log_likelihood = self.mean - below * spread  # what is far below is not taken for usual
            self.shortfall = max(0.0, self.shortfall + below - _ALLOWANCE)
            if self.shortfall > _ALARM:
                self.blocks, self.mean, self.variance, self.shortfall = 0, 0.0, 0.0, 0.0
                return True
        self.blocks = min(self.blocks + 1, _MEMORY)
        gap = log_likelihood - self.mean
        self.mean += gap / self.blocks
        self.variance += (gap * (log_likelihood - self.mean) - self.variance) / self.blocks
        return False

    def saved(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @staticmethod
    def restored(saved: dict[str, Any]) -> "Drift":
        """What `saved` gave, or a `ValueError`."""
        test = Drift(**saved)
        numbers = (test.mean, test.variance, test.shortfall)
        if type(test.blocks) is not int or not all(type(x) is float and isfinite(x) for x in numbers):
            raise ValueError(f"the drift test is {saved}")
        return test
