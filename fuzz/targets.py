"""Every reader of the library: inputs to begin with, how to damage them, what must hold of what loads."""

import json
import os
import random
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import containers
import jax
import mutating
import numpy as np
from mutating import Files, Mutator

import skillstream as ss
from skillstream.acting.agent import Agent
from skillstream.experts import trained
from skillstream.runs import RunDirectory


@dataclass(frozen=True)
class Target:
    """A reader under test. An input is a few files by name."""

    seeds: Callable[[Path], list[Files]]
    read: Callable[
        [Path], Any
    ]  # the folder that the input was written into; raises, or returns what is sound
    mutators: Sequence[Mutator]
    share: float  # of all inputs
    name: str = ""  # of the file or folder that an error must name


class Unsound(AssertionError):
    """A file was loaded that should not have been."""


def demand(fact: Any, what: str) -> None:
    """Raise `Unsound` unless `fact` holds."""
    if not fact:
        raise Unsound(what)


# Demonstrations


def data_sets() -> list[ss.Demonstrations]:
    """Small ones of every kind."""
    rng, mask = np.random.default_rng(0), np.array([True, True, False, True, True, False])
    many = {"rewards": rng.normal(size=6), "action_mask": mask, "true_options": [0, 1] * 3}
    return [
        ss.Demonstrations([3, 0, 1, 0, 2, 2], [1, 0, 2, 1, 1, 0], [1, 3, 2]),
        ss.Demonstrations(
            rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), [1, 3, 2], rewards=rng.normal(size=6)
        ),
        ss.Demonstrations(rng.normal(size=(6, 2)), rng.integers(0, 3, (6, 2)), [4, 2], **many),
        ss.Demonstrations(rng.normal(size=(6, 1)).astype(np.float32), [0, 1] * 3, [6], **many),
    ]


def check_demonstrations(demos: ss.Demonstrations) -> None:
    """What the class promises."""
    steps = demos.num_steps
    demand(steps > 0 and demos.episode_lengths.sum() == steps and demos.episode_lengths.min() > 0, "lengths")
    for name in ("observations", "actions"):
        column = getattr(demos, name)
        demand(len(column) == steps and column.dtype in (np.int64, np.float32, np.float64), name)
        demand(np.isfinite(column).all() and (column.dtype.kind == "f" or column.min() >= 0), name)
        demand(column.ndim == 2 or (column.ndim == 1 and column.dtype.kind == "i"), name)
    demand(
        demos.rewards is None or (demos.rewards.shape == (steps,) and np.isfinite(demos.rewards).all()),
        "rewards",
    )
    demand(demos.action_mask is None or (demos.action_mask.shape == (steps,)), "mask")
    demand(demos.true_options is None or demos.true_options.shape == (steps,), "options")
    repr(demos)


def read_demonstrations(path: str) -> ss.Demonstrations:
    """Whole and by episode, which must agree."""
    try:
        whole = ss.Demonstrations.load(path)
    except ss.SkillstreamError as error:
        try:
            count = sum(1 for _ in ss.stream_episodes(path))
        except ss.SkillstreamError:
            raise error from None
        raise Unsound(f"{count} episodes come one by one, but whole: {error}") from error
    check_demonstrations(whole)
    parts = list(ss.stream_episodes(path))
    demand([part.num_steps for part in parts] == whole.episode_lengths.tolist(), "episodes one by one")
    for part in parts[:3]:
        check_demonstrations(part)
    return whole


def _demonstration_files(suffix: str, folder: Path) -> list[Files]:
    inputs = []
    for demos in data_sets():
        demos.save(folder / f"demos{suffix}")
        inputs.append({f"demos{suffix}": (folder / f"demos{suffix}").read_bytes()})
    return inputs


def _file_target(
    suffix: str, mutators: Sequence[Mutator], share: float, more: Callable[[], list[bytes]]
) -> Target:
    name = f"demos{suffix}"
    return Target(
        lambda folder: _demonstration_files(suffix, folder) + [{name: data} for data in more()],
        lambda folder: read_demonstrations(str(folder / name)),
        mutators,
        share,
        name,
    )


_STEPS = [
    b'{"episode": 0, "observation": [0.5, 1], "action": 1, "reward": 0.5, "true_option": 1}\n'
    b'{"episode": 0, "observation": [0.5, 2], "action": null, "reward": 1, "true_option": 0}\n'
    b'{"episode": 1, "observation": [1, 1], "reward": 0, "true_option": 0}\n',
    b'{"observations": [0, 1], "actions": [1.5, null]}\n{"observations": [2], "actions": [1], '
    b'"dtypes": {"actions": "float32"}}',
    b'{"observation": 4, "action": 1, "action_mask": true}\n'
    b'{"observation": 0, "action": 1, "action_mask": false}',
]
_ROWS = [
    b"\xef\xbb\xbfepisode, step, observation, action, reward\r\n7,0,3,1,1\r\n7,1,4,,0.5\r\n"
    b"\r\n2,0, 5 ,2,0\r\n",
    b"action_1,observation_1,action_0,observation_0\n1,2,0,1\n0,4.5,1,3\n",
    b'observation:float64,action:float32,action_mask\n"1",2,true\n3,4,FALSE\n',
]


def _minari_seeds(folder: Path) -> list[Files]:
    inputs = []
    with _minari_root(folder):
        for number, demos in enumerate(data_sets()):
            demos.save(f"minari:fuzz{number}-v0")
            inputs.append(_files_in(folder / f"fuzz{number}-v0"))
    return inputs + containers.minari_arrow(folder / "arrow")


class _minari_root:
    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __enter__(self):
        self.before, os.environ["MINARI_DATASETS_PATH"] = os.environ.get("MINARI_DATASETS_PATH"), self.folder

    def __exit__(self, *_):
        if self.before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = self.before


def _files_in(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _read_minari(folder: Path) -> ss.Demonstrations:
    with _minari_root(folder.parent):
        os.replace(folder, folder.parent / "hostile-v0")
        try:
            return read_demonstrations("minari:hostile-v0")
        finally:
            os.replace(folder.parent / "hostile-v0", folder)


# Policies and learners


def policies() -> list[ss.OptionPolicy]:
    """Small ones of every kind that a file can hold."""
    networks = partial(
        ss.OptionPolicy.neural, selection_hidden=(3,), action_hidden=(2,), termination_hidden=()
    )
    return [
        ss.OptionPolicy.tabular(2, 3, 2),
        ss.OptionPolicy.tabular(2, 3, ss.GaussianActions(2)),
        networks(2, 2, 2),
        networks(2, 2, (2, 3), dtype="float64"),
        networks(2, 2, ss.GaussianActions(1), activation="gelu"),
        networks(3, 2, ss.GaussianActions(2, scale="state")),
    ]


def _policy_seeds(folder: Path) -> list[Files]:
    inputs = []
    for policy in policies():
        policy.save(folder / "policy.safetensors")
        inputs.append({"policy.safetensors": (folder / "policy.safetensors").read_bytes()})
    return inputs


def check_policy(policy: ss.OptionPolicy, agents: Sequence[Agent]) -> None:
    """It acts, and with the numbers that it should."""
    options = policy.num_options
    demand(options >= 1 and policy.initial.shape == (options,), "options")
    demand(np.isfinite(policy.initial).all() and abs(policy.initial.sum() - 1) < 1e-5, "initial")
    repr(policy)
    taken = []
    largest = max((np.abs(leaf).max() for leaf in jax.tree.leaves(policy.model) if np.size(leaf)), default=0)
    if largest > 1e3:  # networks may have weights so large that their outputs overflow; that is no damage
        return
    for agent in agents:
        demand(agent.num_options == options, "another number of options")
        shape = agent._rules.feature_shape
        seen = np.zeros((2, *shape), np.int64 if shape == () else np.float64)
        with np.errstate(all="ignore"):
            action, option = agent.predict(seen)
        demand(np.isfinite(action).all() and (option >= 0).all() and (option < options).all(), "an action")
        demand(action.dtype.kind == "f" or (action >= 0).all(), "an action below 0")
        taken.append(action)
    demand(all(np.array_equal(taken[0], other) for other in taken), "agents that act differently")


def _read_policy(folder: Path) -> ss.OptionPolicy:
    """With JAX and without, which must agree."""
    path = folder / "policy.safetensors"
    try:
        policy = ss.OptionPolicy.load(path)
    except ss.SkillstreamError as error:
        try:
            Agent.load(path)
        except ss.SkillstreamError:
            raise error from None
        raise Unsound(f"Agent.load takes what OptionPolicy.load does not: {error}") from error
    try:
        agent = Agent.load(path)
    except ss.SkillstreamError as error:
        raise Unsound(f"OptionPolicy.load takes what Agent.load does not: {error}") from error
    check_policy(policy, [agent, Agent(policy)])
    return policy


def learner_seeds(folder: Path, amounts: Sequence[int] = (0, 5)) -> list[Files]:
    """Learners of every kind after these amounts of samples."""
    inputs = []
    for policy, demos in zip(policies()[:3], _streams(), strict=True):
        for samples in amounts:
            config = ss.OnlineConfig(window=4, max_window=8, min_samples=2, steps=1, memory=None)
            learner = ss.OnlineLearner(policy, config)
            if samples:
                learner.partial_fit(*demos)
            learner.save(folder / "learner")
            inputs.append(_files_in(folder / "learner"))
            shutil.rmtree(folder / "learner")
    return inputs


def _streams() -> list[tuple[Any, Any]]:
    return [
        ([0, 1, 2, 0, 1], [0, 1, 0, 0, 1]),
        ([0, 1, 2, 0, 1], np.eye(5, 2)),
        (np.eye(5, 2), [0, 1, 0, 0, 1]),
    ]


def read_learner(folder: Path, learn_on: bool = True) -> ss.OnlineLearner:
    """A learner, which must go on as it is, and, where that is no new compilation, from what comes next."""
    learner = ss.OnlineLearner.load(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.ImpossibleSampleWarning)
        warnings.simplefilter("ignore", ss.RefusedStepWarning)
        _check_learner(learner, learn_on)
    return learner


def _check_learner(learner: ss.OnlineLearner, learn_on: bool) -> None:
    chances = learner.option_probabilities
    demand(np.isfinite(chances).all() and abs(chances.sum() - 1) < 1e-5 and chances.min() >= 0, "chi")
    demand(np.isfinite([learner.log_likelihood, learner.certificate]).all(), "totals")
    if learner.num_samples and np.abs(learner.statistics.get("actions", 0)).max() > 1e100:
        return  # data so large that their squares are not finite; that is no damage
    check_policy(learner.policy, [Agent(learner.policy)])
    usual = learner.window in (4, 8) and learner.config.window == 4 and learner.config.steps == 1
    if (
        learn_on and usual and learner.config.update_every < 100
    ):  # no other shapes: each is seconds of compiling
        _learn_on(learner)


def _learn_on(learner: ss.OnlineLearner) -> None:
    before = learner.num_samples
    for stream in _streams():
        try:
            learner.partial_fit(*(column[:2] for column in stream))
        except ss.InputError:
            continue
        demand(learner.num_samples == before + 2, "samples taken in")
        demand(np.isfinite(learner.option_probabilities).all(), "chi after learning on")
        demand(np.isfinite(learner.log_likelihood), "the likelihood after learning on")
        check_policy(learner.policy, [Agent(learner.policy)])
        return


# Experts and runs


def _expert_seeds(folder: Path) -> list[Files]:
    return [{"expert.safetensors": path.read_bytes()} for path in sorted(trained.PACKAGED.glob("cart-pole*"))]


def _read_expert(folder: Path) -> Any:
    learnt = trained.read(folder / "expert.safetensors", "cart-pole")
    demand(learnt.actions.min() >= 0 and learnt.actions.max() < 2 and np.isfinite(learnt.score), "a table")
    return len(learnt.actions)


def _run_seeds(folder: Path) -> list[Files]:
    run = RunDirectory.create(folder / "run", "run", "fit", ss.BatchConfig())
    run.record |= {"task": "cart-pole", "set": ["observation=index"], "demonstrations": "demos.npz"}
    for step in range(3):
        run.log(step, log_likelihood=-0.5 - step, start=0)
    run.finish(log_likelihood=-0.5, certificate=1e-9)
    return [_files_in(folder / "run")]


def _read_run(folder: Path) -> str:
    from skillstream.reporting.report import _algorithm, _passes

    run = RunDirectory.open(folder)
    lines = run.metrics()
    json.dumps([run.record, lines])
    _algorithm(run.record)
    told = [line for line in lines if line.get("log_likelihood") is not None]
    _passes(told, online=False) if told else None
    demand(isinstance(run.record.get("results") or {}, dict), "results")
    demand(isinstance(run.record.get("demonstrations") or "", str), "demonstrations")
    return f"a run of {len(lines)} lines"


blind = mutating.blindly
TARGETS = {
    "jsonl": _file_target(".jsonl", [blind, mutating.by_tokens, mutating.json_text], 0.22, lambda: _STEPS),
    "csv": _file_target(".csv", [blind, mutating.by_tokens, mutating.by_tokens], 0.2, lambda: _ROWS),
    "npz": _file_target(".npz", [blind, mutating.npz, mutating.npz], 0.2, lambda: []),
    "parquet": _file_target(".parquet", [blind, blind, containers.parquet], 0.06, containers.parquet_seeds),
    "minari": Target(
        _minari_seeds, _read_minari, [blind, containers.hdf5, mutating.whole_json], 0.03, "hostile-v0"
    ),
    "imitation": Target(
        containers.imitation_seeds,
        lambda folder: read_demonstrations(str(folder)),
        [blind, containers.arrow, mutating.whole_json],
        0.06,
        "input",
    ),
    "policy": Target(
        _policy_seeds,
        _read_policy,
        [blind, mutating.safetensors, mutating.safetensors],
        0.1,
        "policy.safetensors",
    ),
    "learner": Target(
        learner_seeds,
        read_learner,
        [blind, mutating.safetensors, mutating.safetensors],
        0.03,
        "learner.safetensors",
    ),
    "expert": Target(_expert_seeds, _read_expert, [blind, mutating.safetensors], 0.05, "expert.safetensors"),
    "run": Target(_run_seeds, _read_run, [blind, mutating.json_text, mutating.whole_json], 0.05, "input"),
}


def mutated(target: Target, rng: random.Random, files: Files, other: Files) -> Files:
    """One file of an input damaged, with pieces of another input of the kind."""
    name = rng.choice(list(files))
    mutate = rng.choice(target.mutators)
    try:
        changed = mutate(rng, files[name], other.get(name, b""))
    except Exception:  # the structure that it would change is not there any more
        changed = mutating.blindly(rng, files[name], other.get(name, b""))
    return {**files, name: changed}


__all__ = ["TARGETS", "Files", "Target", "Unsound", "mutated"]
