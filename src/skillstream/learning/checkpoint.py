"""A learner on disk: one file in a directory, whole or absent, that goes on to the same bits."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.files import load_arrays, save_arrays
from skillstream.inference.streaming import Window
from skillstream.learning.config import OnlineConfig
from skillstream.learning.stream import Counts, Samples, StreamState, new_stream
from skillstream.policies.policy import OptionPolicy, policy_from_arrays

_VERSION = 1
_FILE = "learner.safetensors"
_NUMBERS = {"num_samples": int, "num_impossible": int, "block": int, "log2_decay": float}
_PARTS = {"window": Window, "samples": Samples, "counts": Counts}


def save(
    directory: str | os.PathLike[str],
    config: OnlineConfig,
    policies: dict[str, OptionPolicy],
    state: StreamState,
    numbers: dict[str, int | float],
) -> None:
    """Write everything; the directory is made if it is not there."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {f"state.{name}": np.asarray(array) for name, array in _flatten(state).items()}
    for role, policy in policies.items():
        arrays |= {f"{role}.{name}": table for name, table in policy.tables().items()}
    save_arrays(
        directory / _FILE, "learner", _VERSION, arrays, {"config": asdict(config), "numbers": numbers}
    )


def load(
    directory: str | os.PathLike[str],
) -> tuple[OnlineConfig, dict[str, OptionPolicy], StreamState, dict[str, Any]]:
    """Read what `save` wrote, refusing anything that does not fit together."""
    path = Path(directory) / _FILE
    roles, tables = ("start", "reference"), ("selection", "action", "termination", "initial")
    names = {f"state.{name}" for name in _state_names()} | {
        f"{role}.{table}" for role in roles for table in tables
    }
    arrays, header = load_arrays(path, "learner", _VERSION, names)
    policies = {
        role: policy_from_arrays(
            str(path), {table: arrays[f"{role}.{table}"] for table in tables}, {"model": "tabular"}
        )
        for role in roles
    }
    try:
        config = OnlineConfig(**header["config"])
        numbers = {name: kind(header["numbers"][name]) for name, kind in _NUMBERS.items()}
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path}: damaged: {error}") from error
    state = {name: arrays[f"state.{name}"] for name in _state_names()}
    return config, policies, _unflatten(path, state, policies["start"]), numbers


def _state_names() -> list[str]:
    names = []
    for name in StreamState._fields:
        names += [f"{name}.{field}" for field in _PARTS[name]._fields] if name in _PARTS else [name]
    return names


def _flatten(state: StreamState) -> dict[str, Any]:
    arrays = {}
    for name in _state_names():
        part, _, field = name.partition(".")
        value = getattr(state, part)
        arrays[name] = getattr(value, field) if field else value
    return arrays


def _unflatten(path: Path, arrays: dict[str, np.ndarray], policy: OptionPolicy) -> StreamState:
    """The state, after a look at whether every array has the shape and type that a new one would have."""
    model, size = policy.model, arrays["samples.weight"].size
    with jax.enable_x64(True):
        expected = _flatten(
            jax.eval_shape(lambda: new_stream(model.num_options, model.num_states, model.num_actions, size))
        )
        for name, array in arrays.items():
            wanted = expected[name]
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise FileFormatError(f"{path}: damaged: {name} is {array.dtype} {list(array.shape)}")
        parts: dict[str, Any] = {
            part: kind(*(jnp.asarray(arrays[f"{part}.{field}"]) for field in kind._fields))
            for part, kind in _PARTS.items()
        }
        return StreamState(**parts, totals=jnp.asarray(arrays["totals"]))
