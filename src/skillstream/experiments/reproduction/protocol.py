"""The protocol of Figure 1 (Section 6.2 and its appendix): tasks, sizes, seeds, settings, and what is varied.

Where the paper is silent: T_min is 0, because only then do Table 1's numbers give the two algorithms an
equivalent amount of gradient steps, as the paper says they do (50 passes of 20 iterations in mini-batches of
32 are 31 steps a sample, online takes 30). The demonstrations of a seed at all sizes are beginnings of one
recording. Networks see observations as they are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from skillstream.errors import InputError
from skillstream.experiments.reproduction.published import published_sizes
from skillstream.learning.config import BatchConfig, OnlineConfig, Penalties

Learner = Literal["batch", "online", "flat", "skillstream"]
PenaltyName = Literal["bounded", "none", "paper"]
LEARNERS: tuple[Learner, ...] = get_args(Learner)

PENALTIES: dict[PenaltyName, Penalties] = {
    "paper": Penalties.paper(),
    "bounded": replace(Penalties.paper(), divergence_form="bounded"),
    "none": Penalties(),
}


@dataclass(frozen=True)
class Task:
    """A panel of the figure."""

    title: str
    sizes: tuple[int, ...]
    seeds: int
    floor: float = 0.0  # the return that counts as 0
    settings: dict[str, str] = field(default_factory=dict)  # of the world that is acted in

    def share(self, mean: float, expert: float) -> float:
        """A mean return on the scale on which the expert's is 1."""
        return (mean - self.floor) / (expert - self.floor)


FIGURE: dict[str, Task] = {
    "grid-world": Task("Grid world", published_sizes("grid-world"), 30),
    "cart-pole": Task("Cart pole", published_sizes("cart-pole"), 10),
    "pendulum": Task("Pendulum", published_sizes("pendulum"), 10, floor=-1000.0),
    "lunar-lander": Task("Lunar lander", published_sizes("lunar-lander"), 10),
}
EXTRA: dict[str, Task] = {
    "hidden-goal": Task("Hidden goal", (200, 500, 1000, 2000, 5000), 10, 0.0, {"observation": "coordinates"}),
    "mountain-car": Task("Mountain car", (100, 200, 500, 1000, 2000), 10, floor=-200.0),
    "acrobot": Task("Acrobot", (100, 200, 500, 1000, 2000), 10, floor=-500.0),
}
TASKS = FIGURE | EXTRA
ABLATION_SIZE = 500
LARGEST_CAUSE = 600  # samples; a longer recording shows all of a world anyway
MOST_SEEDS: dict[Learner, int] = {"skillstream": 10}  # it fits some twenty policies to choose one


@dataclass(frozen=True)
class Setting:
    """What can be varied of the two algorithms."""

    batch: BatchConfig
    online: OnlineConfig
    passes: int = 1  # times that the stream is seen
    standardise: bool = False
    pieces: int = 1  # that the demonstrations are taken from, all over a long recording
    same_start: bool = False  # whether acting always begins where the demonstrations began


def paper_setting(penalties: PenaltyName) -> Setting:
    """Table 1, with its penalties as written, bounded, or none."""
    chosen = PENALTIES[penalties]
    return Setting(
        replace(BatchConfig.paper(), penalties=chosen),
        replace(OnlineConfig.paper(), penalties=chosen, min_samples=0),
    )


@dataclass(frozen=True)
class Change:
    """One thing that is done otherwise than the protocol says."""

    what: str
    apply: Callable[[Setting, int], Setting]
    learners: tuple[Learner, ...] = ("batch", "online")


def _penalised(**weights: float | str) -> Callable[[Setting, int], Setting]:
    def apply(setting: Setting, size: int) -> Setting:
        chosen = Penalties(**weights)  # pyright: ignore[reportArgumentType]
        return replace(
            setting,
            batch=replace(setting.batch, penalties=chosen),
            online=replace(setting.online, penalties=chosen),
        )

    return apply


def _online(what: str, **values) -> Change:
    return Change(what, lambda s, _: replace(s, online=replace(s.online, **values)), ("online",))


def _batch(what: str, **values) -> Change:
    return Change(what, lambda s, _: replace(s, batch=replace(s.batch, **values)), ("batch",))


def _both(what: str, **values) -> Change:
    def apply(s: Setting, _: int) -> Setting:
        return replace(s, batch=replace(s.batch, **values), online=replace(s.online, **values))

    return Change(what, apply)


CHANGES: dict[str, Change] = {
    "protocol": Change("Table 1 without penalties: what the others differ from", lambda s, _: s),
    "balance": Change("only the penalty L_b, weight 1", _penalised(balance=1.0)),
    "variance": Change("only L_v, weight 0.1", _penalised(variance=0.1)),
    "balance-variance": Change("L_b and L_v", _penalised(balance=1.0, variance=0.1)),
    "divergence-bounded": Change("only L_KL, weight 0.01, bounded", _penalised(divergence=0.01)),
    "divergence-taken": Change(
        "only L_KL, the paper's estimate", _penalised(divergence=0.01, divergence_form="taken")
    ),
    "divergence-full": Change(
        "only L_KL, summed over all actions", _penalised(divergence=0.01, divergence_form="full")
    ),
    "all-bounded": Change(
        "all penalties, L_KL bounded", _penalised(balance=1.0, variance=0.1, divergence=0.01)
    ),
    "all-paper": Change(
        "all penalties as written",
        _penalised(balance=1.0, variance=0.1, divergence=0.01, divergence_form="taken"),
    ),
    "adamax-anew": _both("Adamax starts anew at every M-step", keep_optimiser=False),
    "late-start": Change(
        "T_min = T / 3 - 20",
        lambda s, size: replace(s, online=replace(s.online, min_samples=max(size // 3 - 20, 0))),
        ("online",),
    ),
    "half-start": Change(
        "T_min = T / 2",
        lambda s, size: replace(s, online=replace(s.online, min_samples=size // 2)),
        ("online",),
    ),
    "steps-10": _online("10 gradient steps a sample", steps=10),
    "steps-90": _online("90 gradient steps a sample", steps=90),
    "three-passes": Change(
        "the stream seen three times, as in the authors' code", lambda s, _: replace(s, passes=3), ("online",)
    ),
    "growing-weights": _online("later samples count more (this library's default)", weights="growing"),
    "short-m-steps": _batch("100 iterations of 10 passes", iterations=100, epochs=10),
    "full-gradient": _batch("full gradients instead of mini-batches, 50 an iteration", batch_size=None),
    "standardised": Change(
        "observations scaled to mean 0 and variance 1", lambda s, _: replace(s, standardise=True)
    ),
}


# Not of the algorithms but of what they are given: looked at where ours stays behind what is published.
CAUSES: dict[str, Change] = {
    "pieces": Change(
        "the samples are ten pieces from all over 4000 steps", lambda s, _: replace(s, pieces=10)
    ),
    "same-start": Change(
        "acting begins where the demonstrations began", lambda s, _: replace(s, same_start=True)
    ),
}


def setting_of(penalties: PenaltyName, change: str, size: int) -> Setting:
    """The settings of a trial."""
    return (CHANGES | CAUSES)[change].apply(paper_setting(penalties), size)


def check_names(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse what is not known."""
    for entry in given:
        if entry not in known:
            raise InputError(f"{name}: {entry!r} is not one of {', '.join(known)}")
