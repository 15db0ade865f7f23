"""What a user can set of the two algorithms. The command line's flags are made from these."""

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Literal, get_args

from skillstream.errors import InputError

DivergenceForm = Literal["bounded", "full", "taken"]
Weighting = Literal["growing", "uniform", "polynomial", "constant"]

# What each weighting takes for `forgetting`: from, up to, whether these two are taken too, the default.
_FORGETTING: dict[str, tuple[float, float, bool, bool, float]] = {
    "growing": (1.0, 10.0, True, True, 3.0),
    "uniform": (0.0, math.inf, True, False, 0.0),
    "polynomial": (0.5, 1.0, False, True, 0.6),
    "constant": (0.0, 1.0, False, False, 0.01),
}


_MOST = 2**63 - 1


def _check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= _MOST:
        raise InputError(f"{name}: must be a whole number from {least}, found {value!r}")


def _check_number(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < least:
        raise InputError(f"{name}: must be a finite number from {least}, found {value!r}")


def _check_forgetting(value: float, weighting: str) -> None:
    least, most, with_least, with_most, _ = _FORGETTING[weighting]
    _check_number("forgetting", value, 0)
    low = value >= least if with_least else value > least
    high = value <= most if with_most else value < most
    if not (low and high):
        bounds = f"{'[' if with_least else '('}{least:g}, {most:g}{']' if with_most else ')'}"
        raise InputError(f"forgetting: of {weighting} weights must lie in {bounds}, found {value}")


def _check_rate(value: object) -> None:
    _check_number("learning_rate", value, 0)
    if value == 0:
        raise InputError("learning_rate: must be positive, found 0")


def _make_plain(config: object) -> None:
    """Numbers of NumPy as Python's own, which JSON can hold and a compiled function can be keyed by."""
    for field in fields(config):  # pyright: ignore[reportArgumentType]
        value = getattr(config, field.name)
        if not isinstance(value, bool | int | float) and isinstance(value, Real):
            plain = int(value) if isinstance(value, Integral) else float(value)
            object.__setattr__(config, field.name, plain)


@dataclass(frozen=True)
class Penalties:
    """Weights of the paper's regularisers in the M-step; for policies learnt by gradient steps."""

    balance: float = 0.0
    """lambda_b: pulls every option's mean probability to be selected towards 1 / K."""
    variance: float = 0.0
    """lambda_v: pushes options to be selected in some states and not in others."""
    divergence: float = 0.0
    """lambda_KL: pushes the options' actions apart."""
    divergence_form: DivergenceForm = "bounded"
    """bounded: squared Hellinger distance, at most 1; full: Kullback-Leibler over all actions; taken:
    the paper's estimate, with the taken action's term only. The last two grow without limit."""

    def __post_init__(self) -> None:
        for name in ("balance", "variance", "divergence"):
            _check_number(name, getattr(self, name), 0)
        if self.divergence_form not in get_args(DivergenceForm):
            forms = ", ".join(get_args(DivergenceForm))
            raise InputError(f"divergence_form: must be one of {forms}, found {self.divergence_form!r}")
        _make_plain(self)

    def __bool__(self) -> bool:
        return self.balance > 0 or self.variance > 0 or self.divergence > 0

    @staticmethod
    def paper() -> "Penalties":
        """Table 1 as written, its unbounded divergence included."""
        return Penalties(balance=1.0, variance=0.1, divergence=0.01, divergence_form="taken")


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
    starts: int = 1
    """Starts to learn from: the policy given, and others drawn anew; the most likely result is kept."""
    epochs: int = 50
    """Gradient steps only: passes over the data in every M-step."""
    batch_size: int | None = 32
    """Gradient steps only: samples in a step; None: all of them."""
    learning_rate: float = 1e-2
    """Gradient steps only: of Adamax."""
    penalties: Penalties = Penalties()
    """Gradient steps only: the paper's regularisers."""
    keep_optimiser: bool = True
    """Gradient steps only: whether the optimiser's state lives on from one M-step to the next."""
    patience: int = 5
    """With validation data: iterations without a better held-out likelihood before the fit stops."""
    seed: int = 0
    """Of the order in which gradient steps meet the samples, and of the starts drawn anew."""
    track_objective: bool = False
    """Whether to record Baum's auxiliary function Q after every M-step."""

    def __post_init__(self) -> None:
        _check_whole("iterations", self.iterations, 1)
        _check_number("tolerance", self.tolerance, 0)
        _check_number("pseudo_count", self.pseudo_count, 0)
        _check_whole("starts", self.starts, 1)
        _check_whole("epochs", self.epochs, 1)
        if self.batch_size is not None:
            _check_whole("batch_size", self.batch_size, 1)
        _check_rate(self.learning_rate)
        _check_whole("patience", self.patience, 1)
        _check_whole("seed", self.seed, 0)
        _make_plain(self)

    @staticmethod
    def paper() -> "BatchConfig":
        """Table 1: 20 iterations, each 50 passes of Adamax in mini-batches of 32, with all penalties."""
        return BatchConfig(penalties=Penalties.paper())


@dataclass(frozen=True)
class OnlineConfig:
    """Online Baum-Welch (Algorithm 2)."""

    min_samples: int = 100
    """No M-step before more samples than this were seen (the paper's T_min)."""
    update_every: int | None = None
    """Samples between M-steps; 0: never, which makes the learner an exact E-step in constant memory. None:
    an M-step at every sample, as the paper has it (the command line: at every fifth, for networks)."""
    window: int = 64
    """Samples kept pending until later data cannot change their posteriors; grows when it must."""
    max_window: int = 4096
    """The window never grows beyond this; the certificate then says what it cost."""
    tolerance: float = 1e-9
    """How much a sample's posterior may still change, at the most, when it is settled."""
    weights: Weighting | None = None
    """How samples count. uniform: all alike, the paper's gamma_t = 1 / t; growing: sample t in proportion
    to t ** (c - 1), so that what was made of the first samples with a poor policy fades; polynomial:
    gamma_t = t ** -c; constant: gamma_t = c, for experts that change. None: growing, but uniform for a
    learner without updates."""
    forgetting: float | None = None
    """The c of `weights`: in [1, 10] (growing; 3 by default), in (0.5, 1] (polynomial; 0.6), in (0, 1)
    (constant; 0.01)."""
    pseudo_count: float = 0.0
    """Added to every expected count in the M-step (a symmetric Dirichlet prior); 0 is the paper's."""

    steps: int = 30
    """Gradient steps only: how many in every M-step."""
    batch_size: int | None = None
    """Gradient steps only: samples in a step, drawn at random; None: all that are kept."""
    memory: int | None = None
    """Gradient steps only: settled samples to keep at the most, an unbiased draw from all; None: all."""
    learning_rate: float = 1e-2
    """Gradient steps only: of Adamax."""
    penalties: Penalties = Penalties()
    """Gradient steps only: the paper's regularisers."""
    keep_optimiser: bool = True
    """Gradient steps only: whether the optimiser's state lives on from one M-step to the next."""
    seed: int = 0
    """Of mini-batches and of the draw of samples to keep."""

    def __post_init__(self) -> None:
        _check_whole("min_samples", self.min_samples, 0)
        if self.update_every is not None:
            _check_whole("update_every", self.update_every, 0)
        _check_whole("window", self.window, 2)
        _check_whole("max_window", self.max_window, self.window)
        _check_number("tolerance", self.tolerance, 0)
        _check_number("pseudo_count", self.pseudo_count, 0)
        if self.weights is not None and self.weights not in _FORGETTING:
            raise InputError(f"weights: must be one of {', '.join(_FORGETTING)}, found {self.weights!r}")
        if self.forgetting is not None:
            _check_forgetting(self.forgetting, self.weighting)
        _check_whole("steps", self.steps, 1)
        for name in ("batch_size", "memory"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), 1)
        _check_rate(self.learning_rate)
        _check_whole("seed", self.seed, 0)
        _make_plain(self)

    @property
    def every(self) -> int:
        """`update_every`, or what stands in for it."""
        return 1 if self.update_every is None else self.update_every

    @property
    def weighting(self) -> Weighting:
        """`weights`, or what stands in for it."""
        return self.weights or ("growing" if self.every else "uniform")

    @property
    def rate(self) -> float:
        """`forgetting`, or what stands in for it."""
        return _FORGETTING[self.weighting][-1] if self.forgetting is None else self.forgetting

    @staticmethod
    def paper() -> "OnlineConfig":
        """Table 1: every sample alike, 30 full-gradient steps of Adamax at each, with all penalties."""
        return OnlineConfig(weights="uniform", penalties=Penalties.paper())
