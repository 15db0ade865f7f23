"""One trial of the reproduction: learn from a seed's demonstrations, then act for 100 episodes.

Only learning is on the clock: what must be compiled is compiled before, and acting comes after.
"""

import hashlib
import json
import os
import platform
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from skillstream.acting.collection import collect
from skillstream.acting.evaluation import evaluate
from skillstream.demonstrations.dataset import Demonstrations
from skillstream.environments.catalogue import make_env
from skillstream.errors import ImpossibleDataError
from skillstream.experiments.reproduction.protocol import TASKS, Learner, PenaltyName, Setting, setting_of
from skillstream.experts.catalogue import Expert, make_expert
from skillstream.learning.batch import Progress, clone, fit
from skillstream.learning.config import BatchConfig, Penalties
from skillstream.learning.online import OnlineLearner
from skillstream.learning.selection import cross_validate
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import smooth

_VERSION = 1  # raised whenever the same trial would come out otherwise
_EVALUATION_SEED = 10_000
_LONG = 4000  # steps of the recording that pieces are taken from
_COMPARED = BatchConfig(iterations=5, batch_size=128)
_CHOSEN, _STARTS = BatchConfig(), 4


@dataclass(frozen=True)
class Trial:
    """All that decides what comes out."""

    task: str
    size: int
    seed: int
    learner: Learner
    penalties: PenaltyName = "none"
    change: str = "protocol"
    iterations: int = 0  # of batch, to take as long as online does; 0: no such budget
    episodes: int = 100

    @property
    def key(self) -> str:
        """A name that changes with whatever changes the outcome."""
        told = json.dumps([_VERSION, asdict(self), repr(self.setting)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:20]

    @property
    def setting(self) -> Setting:
        """How its algorithm is set."""
        return setting_of(self.penalties, self.change, self.size)


@dataclass(frozen=True)
class Outcome:
    """What came of a trial, at one of its budgets."""

    task: str
    size: int
    seed: int
    learner: Learner
    penalties: PenaltyName
    change: str
    budget: str  # "steps": Table 1's; "time": as long as online took; of batch alone
    mean_return: float
    share: float  # of the expert's return, on the task's scale
    log_likelihood: float  # of a training step, under the policy learnt
    gradient_steps: int
    seconds: float
    held: int  # bytes that must be kept to go on learning
    machine: str


@dataclass(frozen=True)
class Failure:
    """A trial that ended in an error."""

    trial: Trial
    error: str


class _Learnt(NamedTuple):
    budget: str
    policy: OptionPolicy
    gradient_steps: int
    seconds: float
    held: int


def attempt(trial: Trial, cache: str | None = None) -> list[Outcome] | Failure:
    """Run a trial in whatever process this is; an error becomes a value, for the others to go on."""
    _prepare_jax(cache)
    try:
        return run_trial(trial)
    except Exception:
        return Failure(trial, traceback.format_exc())


def run_trial(trial: Trial) -> list[Outcome]:
    """Learn and act."""
    task, expert = TASKS[trial.task], _expert(trial.task)
    demos = _demonstrations(trial)
    outcomes = []
    for learnt in _LEARN[trial.learner](trial, demos):
        acted = evaluate(learnt.policy, _world(trial), trial.episodes, _EVALUATION_SEED + trial.seed)
        told = (trial.task, trial.size, trial.seed, trial.learner, trial.penalties, trial.change)
        share = task.share(acted.mean, expert.expected_return)
        numbers = (
            _explained(learnt.policy, demos),
            learnt.gradient_steps,
            learnt.seconds,
            learnt.held,
            _machine(),
        )
        outcomes.append(Outcome(*told, learnt.budget, acted.mean, share, *numbers))
    return outcomes


def _explained(policy: OptionPolicy, demos: Demonstrations) -> float:
    """The log-likelihood of a step; unbounded penalties can make what was seen impossible."""
    try:
        return smooth(policy, demos).log_likelihood / demos.num_steps
    except ImpossibleDataError:
        return -float("inf")


def _demonstrations(trial: Trial) -> Demonstrations:
    pieces = trial.setting.pieces
    if pieces == 1:
        return _recording(trial.task, trial.seed, max(TASKS[trial.task].sizes)).head(trial.size)
    whole = _recording(trial.task, trial.seed, _LONG)
    length = trial.size // pieces
    firsts = np.random.default_rng(trial.seed).integers(0, _LONG - length, pieces)
    steps = np.arange(_LONG)
    return Demonstrations.concatenate(
        [whole.where((steps >= first) & (steps < first + length)) for first in firsts]
    )


def _world(trial: Trial) -> Any:
    """Where the policy acts: the task, or the task from one start only, that of the demonstrations."""
    settings = TASKS[trial.task].settings
    if trial.setting.same_start:
        return lambda: _SameStart(make_env(trial.task, **settings), trial.seed)
    return trial.task if not settings else lambda: make_env(trial.task, **settings)


class _SameStart(gymnasium.Wrapper):
    """A world whose episodes all begin as a recording with this seed did."""

    def __init__(self, env: gymnasium.Env, seed: int):
        super().__init__(env)
        self._seed = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        return super().reset(seed=self._seed, options=options)


def _prepare_jax(cache: str | None) -> None:
    """One thread a process, since trials run side by side; what was compiled once is kept for the others."""
    import jax

    os.environ.setdefault("NPROC", "1")
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@lru_cache
def _machine() -> str:
    """What the seconds were measured on, and what made the numbers."""
    return f"{platform.machine()}, {os.cpu_count()} cores, jax {version('jax')}"


@lru_cache
def _expert(task: str) -> Expert:
    return make_expert(task)


@lru_cache(maxsize=32)
def _recording(task: str, seed: int, steps: int) -> Demonstrations:
    """A seed's demonstrations, with observations as networks read them."""
    demos = collect(_expert(task), task, steps, seed=seed)
    if demos.observations.ndim == 2:
        return demos
    world: Any = make_env(task).unwrapped
    return Demonstrations(
        world.decode(demos.observations).astype(float), demos.actions, demos.episode_lengths
    )


def _triplet(
    trial: Trial, demos: Demonstrations, standardise: bool, hidden: tuple[int, ...] = (30,)
) -> OptionPolicy:
    """The paper's networks with a seed's fresh weights, the same for every learner."""
    actions = int(make_env(trial.task).action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
    return OptionPolicy.neural(
        2,
        demos.observations.shape[1],
        actions,
        trial.seed,
        action_hidden=hidden,
        termination_hidden=hidden,
        standardise=demos if standardise else None,
    )


def _batch(trial: Trial, demos: Demonstrations) -> list[_Learnt]:
    """Algorithm 1, looked at after Table 1's iterations and after those that take as long as online."""
    setting = trial.setting
    policy = _triplet(trial, demos, setting.standardise)
    budgets = {"steps": setting.batch.iterations} | ({"time": trial.iterations} if trial.iterations else {})
    config = replace(setting.batch, iterations=max(budgets.values()), seed=trial.seed)
    seen: dict[int, tuple[OptionPolicy, float]] = {}
    fit(policy, demos, config, lambda _: True)  # compiles
    began = time.perf_counter()

    def watch(now: Progress) -> None:
        if now.iteration + 1 in budgets.values():
            seen[now.iteration + 1] = now.policy, time.perf_counter() - began

    fit(policy, demos, config, watch)
    held, steps = _kept(policy, demos), _steps_an_iteration(config, demos)
    return [
        _Learnt(name, seen[count][0], count * steps, seen[count][1], held) for name, count in budgets.items()
    ]


def _online(trial: Trial, demos: Demonstrations) -> list[_Learnt]:
    """Algorithm 2, sample by sample."""
    setting = trial.setting
    policy = _triplet(trial, demos, setting.standardise)
    config = setting.online
    stream = Demonstrations.concatenate([demos] * setting.passes)
    OnlineLearner(policy, config).absorb(stream)  # compiles
    learner = OnlineLearner(policy, config)
    began = time.perf_counter()
    learner.partial_fit(stream.observations, stream.actions, stream.episode_starts)
    seconds = time.perf_counter() - began
    steps = max(stream.num_steps - config.min_samples, 0) * config.steps
    return [_Learnt("steps", learner.policy, steps, seconds, _size_on_disk(learner.save))]


def _flat(trial: Trial, demos: Demonstrations) -> list[_Learnt]:
    """Cloning with one of the same networks and the same gradient steps."""
    setting = trial.setting
    policy = _triplet(trial, demos, setting.standardise)
    config = replace(setting.batch, seed=trial.seed, penalties=Penalties())
    clone(policy, demos, replace(config, iterations=1))  # compiles
    began = time.perf_counter()
    learnt = clone(policy, demos, config).policy
    seconds = time.perf_counter() - began
    steps = config.iterations * _steps_an_iteration(config, demos)
    return [_Learnt("steps", learnt, steps, seconds, _kept(learnt, demos))]


def _skillstream(trial: Trial, demos: Demonstrations) -> list[_Learnt]:
    """What this library would choose by cross-validation: how many options, and scaled observations or not.

    It compiles on the clock: what it has to compile depends on what it finds.
    """
    began = time.perf_counter()
    two = [_triplet(trial, demos, standardise, (100,)) for standardise in (False, True)]
    one = [policy.redrawn(num_options=1, seed=trial.seed) for policy in two]
    candidates = [*one, *two]
    compared = cross_validate(candidates, demos, replace(_COMPARED, seed=trial.seed))
    chosen = candidates[compared.best]
    config = replace(_CHOSEN, seed=trial.seed, starts=1 if chosen.num_options == 1 else _STARTS)
    learnt = fit(chosen, demos, config).policy
    seconds = time.perf_counter() - began
    steps = config.starts * config.iterations * _steps_an_iteration(config, demos)
    return [_Learnt("steps", learnt, steps, seconds, _kept(learnt, demos))]


def _steps_an_iteration(config: BatchConfig, demos: Demonstrations) -> int:
    a_pass = 1 if config.batch_size is None else -(-demos.num_steps // config.batch_size)
    return config.epochs * a_pass


def _kept(policy: OptionPolicy, demos: Demonstrations) -> int:
    """What batch learning keeps: the policy, the data, and the posteriors, 4 K numbers a step."""
    posteriors = 4 * policy.num_options * demos.num_steps * np.float64().nbytes
    return _size_on_disk(policy.save) + demos.observations.nbytes + demos.actions.nbytes + posteriors


def _size_on_disk(save: Callable[[Path], None]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "kept")
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


_LEARN: dict[Learner, Callable[[Trial, Demonstrations], list[_Learnt]]] = {
    "batch": _batch,
    "online": _online,
    "flat": _flat,
    "skillstream": _skillstream,
}
