"""What a user can set of the two algorithms. The command line's flags are made from these."""

import math
from dataclasses import dataclass
from typing import Literal

from skillstream.errors import InputError


@dataclass(frozen=True)
class BatchConfig:
    """Batch Baum-Welch (Algorithm 1)."""

    iterations: int = 20
    """Most iterations; each is one E-step over all data and one M-step."""
    tolerance: float = 0.0
    """Stop early once an iteration raises the log-likelihood of a step by less than this; 0: never."""
    pseudo_count: float = 0.0
    """Added to every expected count in the M-step (a symmetric Dirichlet prior); 0 is the paper's."""
    learn_initial: bool = False
    """Whether to learn mu, the option before an episode's first step, too."""
    track_objective: bool = False
    """Whether to record Baum's auxiliary function Q after every M-step."""

    def __post_init__(self) -> None:
        _check_whole("iterations", self.iterations, 1)
        _check_number("tolerance", self.tolerance, 0)
        _check_number("pseudo_count", self.pseudo_count, 0)


@dataclass(frozen=True)
class OnlineConfig:
    """Online Baum-Welch (Algorithm 2)."""

    min_samples: int = 100
    """No M-step before more samples than this were seen (the paper's T_min)."""
    update_every: int = 1
    """Samples between M-steps; 0: never, which makes the learner an exact E-step in constant memory."""
    window: int = 64
    """Samples kept pending until later data cannot change their posteriors; grows when it must."""
    max_window: int = 4096
    """The window never grows beyond this; the certificate then says what it cost."""
    tolerance: float = 1e-9
    """How much a sample's posterior may still change, at the most, when it is settled."""
    weights: Literal["uniform", "polynomial", "constant"] = "uniform"
    """gamma_t: 1 / t (every sample counts alike), t ** -forgetting, or forgetting itself."""
    forgetting: float = 0.6
    """The exponent of polynomial weights, in (0.5, 1], or the rate of constant ones, in (0, 1)."""
    pseudo_count: float = 0.0
    """Added to every expected count in the M-step (a symmetric Dirichlet prior); 0 is the paper's."""

    def __post_init__(self) -> None:
        _check_whole("min_samples", self.min_samples, 0)
        _check_whole("update_every", self.update_every, 0)
        _check_whole("window", self.window, 2)
        _check_whole("max_window", self.max_window, self.window)
        _check_number("tolerance", self.tolerance, 0)
        _check_number("pseudo_count", self.pseudo_count, 0)
        if self.weights not in ("uniform", "polynomial", "constant"):
            raise InputError(
                f"weights: must be 'uniform', 'polynomial' or 'constant', found {self.weights!r}"
            )
        _check_number("forgetting", self.forgetting, 0)
        if self.weights == "polynomial" and not 0.5 < self.forgetting <= 1:
            raise InputError(f"forgetting: an exponent must lie in (0.5, 1], found {self.forgetting}")
        if self.weights == "constant" and not 0 < self.forgetting < 1:
            raise InputError(f"forgetting: a rate must lie strictly between 0 and 1, found {self.forgetting}")


def _check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name}: must be a whole number from {least}, found {value!r}")


def _check_number(name: str, value: object, least: float) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < least
    ):
        raise InputError(f"{name}: must be a finite number from {least}, found {value!r}")
