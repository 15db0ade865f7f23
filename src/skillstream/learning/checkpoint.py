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
    start, kind = pack(policy)
    arrays = {f"start.{name}": array for name, array in start.items()} | engine.arrays()
    header = {"config": asdict(config), "numbers": numbers, "policy": kind, "engine": engine.header()}
    save_arrays(directory / _FILE, "learner", _VERSION, arrays, header)


def load(
    directory: str | os.PathLike[str],
    like: OptionPolicy | None,
    make_engine: Callable[[OptionPolicy, OnlineConfig], Engine],
) -> tuple[OnlineConfig, OptionPolicy, Engine, dict[str, Any]]:
    """Read what `save` wrote, refusing anything that does not fit together."""
    path = Path(directory) / _FILE
    where, template = str(path), None if like is None else like.model

    try:
        arrays, header = load_arrays(path, "learner", _VERSION)
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
    except FileFormatError:
        raise
    except (AttributeError, InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{where}: damaged: {error}") from error
    return config, policy, engine, numbers


def _config(saved: dict[str, Any]) -> OnlineConfig:
    return OnlineConfig(**{**saved, "penalties": Penalties(**saved["penalties"])})
