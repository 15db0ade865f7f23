"""What one E-step costs as T, K, |S| and |A| grow: the paper's two, as it writes them, and ours.

Section 6.1 says O(T K^2 B) for a batch E-step and O(|S| |A| K^3 B^2) for an online one. Every time here
is that of one E-step among many in a compiled loop, so that what a call costs is left out.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from skillstream.experiments.literal import NumpyRecursion, Recursion, begin, forward_backward, update
from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import smooth
from skillstream.learning.config import OnlineConfig
from skillstream.learning.online import OnlineLearner
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.tabular import TabularModel
from skillstream.reporting.costs import (
    BATCH,
    BATCH_OURS,
    ONLINE,
    ONLINE_NUMPY,
    ONLINE_OURS,
    VARIABLES,
    CostRow,
    Costs,
)

# Samples that ours keeps pending. So many that the posteriors of random tables of up to 32 options are
# settled to 1e-6, so that it does what the exact recursion does; and the same whatever else grows.
WINDOW = 256

_LEAST = 2e-3  # seconds, of what is timed at a stretch
_STREAM = 4096  # samples that an online E-step meets, over and over


class Size(NamedTuple):
    """How large a problem is: samples, options, states and actions."""

    T: int
    K: int
    S: int
    A: int


class Sweep(NamedTuple):
    """The sizes to measure at: one variable at a time around a base."""

    base: Size
    values: dict[str, tuple[int, ...]]
    batch_options: tuple[int, ...]  # more values of K, for what keeps no rho
    repeats: int


FULL = Sweep(
    Size(3000, 4, 64, 4),
    {
        "T": (100, 300, 1000, 3000, 10_000, 30_000, 100_000),
        "K": (2, 4, 8, 12, 16, 24, 32),
        "S": (16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        "A": (2, 4, 8, 16, 32, 64, 128, 256),
    },
    (48, 64, 96, 128),
    7,
)
QUICK = Sweep(
    Size(1000, 4, 64, 4),
    {"T": (100, 1000, 10_000), "K": (4, 12, 24), "S": (64, 1024), "A": (4, 64)},
    (48,),
    3,
)


Progress = Callable[[int, int, str], None]


def measure_costs(
    quick: bool = False, progress: Progress | None = None, *, sweep: Sweep | None = None
) -> Costs:
    """Measure all E-steps at all sizes.

    Parameters
    ----------
    quick
        Few and small sizes: for a look at it.
    progress
        Called before each piece of work with the number of those done, of all, and what comes next.
    sweep
        Other sizes than those of `quick` or of the whole measurement.
    """
    sweep = sweep or (QUICK if quick else FULL)
    plans = {name: {v: _sizes(sweep, name, v) for v in VARIABLES} for name in _STEPPERS}
    pieces = sum(len(set().union(*plan.values())) + sweep.repeats for plan in plans.values())
    numbers = itertools.count()

    def tell(words: str) -> None:
        if progress is not None:
            progress(next(numbers), pieces, words)

    rows: list[CostRow] = []
    for name, plan in plans.items():
        seconds = _seconds(name, plan, sweep.repeats, tell)
        rows += [CostRow(name, v, *size, seconds[size]) for v, sizes in plan.items() for size in sizes]
    return Costs(tuple(rows))


def _sizes(sweep: Sweep, name: str, variable: str) -> list[Size]:
    more = sweep.batch_options if variable == "K" and name in _BATCH else ()
    return [sweep.base._replace(**{variable: value}) for value in (*sweep.values[variable], *more)]


def _seconds(
    name: str, plan: dict[str, list[Size]], repeats: int, tell: Callable[[str], None]
) -> dict[Size, float]:
    """The seconds of an E-step at each size, all timed in turn, so that no disturbance hits one only."""
    timers: dict[Size, Timer] = {}
    with jax.enable_x64(True):
        for size in dict.fromkeys(size for sizes in plan.values() for size in sizes):
            tell(f"{name}: " + ", ".join(f"{v} = {n:,}" for v, n in size._asdict().items()))
            stepper = _STEPPERS[name](size)
            if size in plan["T"] and name not in _BATCH:
                stepper.run(size.T // stepper.unit * stepper.unit)
            timers[size] = Timer(stepper)
        for number in range(repeats):
            tell(f"{name}: round {number + 1} of {repeats}")
            for timer in timers.values():
                timer.again()
    return {size: timer.seconds for size, timer in timers.items()}


class Stepper(NamedTuple):
    """Something that makes E-steps: `run(n)` makes `n` of them, a multiple of `unit`."""

    run: Callable[[int], Any]
    unit: int = 1


class Timer:
    """Times a stepper by the difference between many E-steps and few, made in one call each.

    That leaves out what the call itself costs, the memory it takes from the system included.
    """

    def __init__(self, stepper: Stepper):
        self.stepper, self.count = stepper, stepper.unit
        self._pair()  # compiles
        while not self._long_enough():
            self.count *= 2
        self.pairs: list[tuple[float, float]] = []

    @property
    def seconds(self) -> float:
        """The median seconds of one E-step."""
        few, many = np.array(self.pairs).T
        middle = float(np.median(many - few)) / (2 * self.count)
        return middle if middle > 0 else float(np.median(many)) / (3 * self.count)

    def again(self) -> None:
        """Time it once more."""
        self.pairs.append(self._pair())

    def _long_enough(self) -> bool:
        """Twice, because anything may take long once."""
        pairs = [self._pair() for _ in range(2)]
        return all(many - few > max(_LEAST, few / 2) for few, many in pairs)

    def _pair(self) -> tuple[float, float]:
        clock = [time.perf_counter()]
        for count in (self.count, 3 * self.count):
            self.stepper.run(count)
            clock.append(time.perf_counter())
        return clock[1] - clock[0], clock[2] - clock[1]


def _batch(e_step: "EStep", size: Size) -> Stepper:
    policy = OptionPolicy.tabular(size.K, size.S, size.A)
    inputs = policy.model, jnp.asarray(policy.initial), *_samples(size, (2, size.T))
    return Stepper(lambda count: jax.block_until_ready(_pass_again(e_step, *inputs, np.int32(count))))


EStep = Callable[[Potentials, Array], tuple[Any, Array]]


@partial(jax.jit, static_argnums=0)
def _pass_again(e_step: EStep, model: TabularModel, mu: Array, seen: Array, done: Array, count: Array) -> Any:
    """E-steps over two data sets in turn, each from the options that the last one ended with.

    So no part of one can be done once for all.
    """
    missing = jnp.zeros(seen.shape[1], bool)

    def again(i, carry):
        return e_step(model.potentials(seen[i % 2], done[i % 2], missing), carry[1])

    found = jax.eval_shape(partial(again, 0), (None, mu))[0]
    nothing = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), found)
    return lax.fori_loop(0, count, again, (nothing, mu))


def _as_written(p: Potentials, mu: Array) -> tuple[Any, Array]:
    gamma, xi = forward_backward(p, mu)
    return (gamma, xi), jnp.sum(gamma[-1], 1)


def _ours(p: Potentials, mu: Array) -> tuple[Any, Array]:
    posteriors, _ = smooth(p, mu, jnp.arange(len(p.offset)) == 0, restarts=False)
    return posteriors, posteriors.options[-1]


def _online(size: Size) -> Stepper:
    model = OptionPolicy.tabular(size.K, size.S, size.A).model
    samples = _samples(size, (_STREAM,))
    recursion, first = begin(size.K, size.S, size.A), 0

    def run(count: int) -> None:
        nonlocal recursion, first
        recursion = _go_on(recursion, model, *samples, np.int32(first), np.int32(count))
        first += count
        jax.block_until_ready(recursion)

    return Stepper(run, unit=2)


@partial(jax.jit, donate_argnums=0)
def _go_on(
    recursion: Recursion, model: TabularModel, seen: Array, done: Array, first: Array, count: Array
) -> Recursion:
    """The literal recursion over the next samples; two a turn, so that no rho need be copied."""

    def take(i, recursion):
        state, action = seen[i % _STREAM], done[i % _STREAM]
        p = model.potentials(state[None], action[None], jnp.zeros(1, bool))
        now = (first + i + 1).astype(recursion.rho.dtype)
        return update(recursion, jax.tree.map(lambda x: x[0], p), state, action, now)

    def take_two(i, recursion):
        return take(2 * i + 1, take(2 * i, recursion))

    return lax.fori_loop(0, count // 2, take_two, recursion)


def _online_numpy(size: Size) -> Stepper:
    model = OptionPolicy.tabular(size.K, size.S, size.A).model
    assert isinstance(model, TabularModel)
    recursion = NumpyRecursion(model)
    samples = np.stack(_samples(size, (_STREAM,)), 1).tolist()

    def run(count: int) -> None:
        for _ in range(count):
            recursion.update(*samples[recursion.time % _STREAM])

    return Stepper(run)


def _online_ours(size: Size) -> Stepper:
    """The public learner without M-steps, fed in chunks; it settles half a window at a time."""
    config = OnlineConfig(update_every=0, window=WINDOW, max_window=WINDOW)
    learner = OnlineLearner(OptionPolicy.tabular(size.K, size.S, size.A), config)
    seen, done = _samples(size, (_STREAM,))

    def run(count: int) -> None:
        for at in range(0, count, _STREAM):
            chunk = slice(min(count - at, _STREAM))
            learner.partial_fit(seen[chunk], done[chunk])

    return Stepper(run, unit=WINDOW // 2)


def _samples(size: Size, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """States and actions, all equally likely."""
    rng = np.random.default_rng(0)
    return rng.integers(0, size.S, shape, np.int32), rng.integers(0, size.A, shape, np.int32)


_BATCH = (BATCH, BATCH_OURS)
_STEPPERS: dict[str, Callable[[Size], Stepper]] = {
    BATCH: partial(_batch, _as_written),
    BATCH_OURS: partial(_batch, _ours),
    ONLINE: _online,
    ONLINE_NUMPY: _online_numpy,
    ONLINE_OURS: _online_ours,
}
