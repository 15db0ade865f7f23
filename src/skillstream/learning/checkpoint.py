"""A learner on disk: one file in a directory, whole or absent, that goes on to the same bits."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.files import load_arrays, save_arrays
from skillstream.learning.config import OnlineConfig, Penalties
from skillstream.learning.engine import Engine
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.storage import names_in, pack, unpack

_VERSION = 2
_FILE = "learner.safetensors"
_NUMBERS = {"num_samples": int, "num_impossible": int, "block": int, "log2_decay": float, "absorbed": int}


def save(
    directory: str | os.PathLike[str],
    config: OnlineConfig,
    policy: OptionPolicy,
    engine: Engine,
    numbers: dict[str, int | float],
) -> None:
    """Write everything; the directory is made if it is not there."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    save_arrays(directory / _FILE, "learner", _VERSION, *packed(config, policy, engine, numbers))


def packed(
    config: OnlineConfig, policy: OptionPolicy, engine: Engine, numbers: dict[str, int | float]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What a file holds of a learner: arrays and header."""
    start, kind = pack(policy)
    arrays = {f"start.{name}": array for name, array in start.items()} | engine.arrays()
    return arrays, {"config": asdict(config), "numbers": numbers, "policy": kind, "engine": engine.header()}


def load(
    directory: str | os.PathLike[str],
    like: OptionPolicy | None,
    make_engine: Callable[[OptionPolicy, OnlineConfig], Engine],
) -> tuple[OnlineConfig, OptionPolicy, Engine, dict[str, Any]]:
    """Read what `save` wrote, refusing anything that does not fit together."""
    path = Path(directory) / _FILE
    try:
        arrays, header = load_arrays(path, "learner", _VERSION)
    except (TypeError, ValueError) as error:
        raise _damaged(str(path), error) from error
    return unpacked(str(path), arrays, header, like, make_engine)


def unpacked(
    where: str,
    arrays: dict[str, np.ndarray],
    header: dict[str, Any],
    like: OptionPolicy | None,
    make_engine: Callable[[OptionPolicy, OnlineConfig], Engine],
) -> tuple[OnlineConfig, OptionPolicy, Engine, dict[str, Any]]:
    """What `packed` gave, taken apart again; complaints begin with `where`."""
    template = None if like is None else like.model
    try:
        numbers = {name: header["numbers"][name] for name in _NUMBERS}
        for name, kind in _NUMBERS.items():
            value = numbers[name]
            if type(value) is not kind or not np.isfinite(value) or (kind is int and value < 0):
                raise FileFormatError(f"{where}: damaged: {name} is {value!r}")
        names = names_in(where, header["policy"], template)
        start = {name: arrays.pop(f"start.{name}") for name in names}
        policy = OptionPolicy(*unpack(where, start, header["policy"], template))
        config = _config(header["config"])
        engine = make_engine(policy, config)
        if set(arrays) != engine.expected(header["engine"]):
            raise FileFormatError(f"{where}: holds other arrays than a learner of {policy!r} keeps")
        engine.resume(where, arrays, header["engine"])
    except (AttributeError, InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(where, error) from error
    return config, policy, engine, numbers


def _damaged(where: str, error: Exception) -> FileFormatError:
    return error if isinstance(error, FileFormatError) else FileFormatError(f"{where}: damaged: {error}")


def _config(saved: dict[str, Any]) -> OnlineConfig:
    return OnlineConfig(**{**saved, "penalties": Penalties(**saved["penalties"])})
