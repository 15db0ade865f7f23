"""A learner on disk: one file in a directory, whole or absent, that goes on to the same bits."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from skillstream.errors import FileFormatError, InputError, shown
from skillstream.files import load_arrays, save_arrays
from skillstream.learning.config import OnlineConfig, Penalties
from skillstream.learning.engine import Engine
from skillstream.learning.weights import Weights
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.storage import names_in, pack, unpack

_VERSION = 2
_FILE = "learner.safetensors"
_NUMBERS = {"num_samples": int, "num_impossible": int, "block": int, "log2_decay": float, "absorbed": int}
_MOST = 2**53  # samples: more were never counted, and the weights of more are not told apart
_MOST_KEPT, _LARGEST_BATCH = 2**31, 2**22  # rows, which are counted in 32 bits; of them, in a step
_LARGEST_WINDOW = 2**20  # of a learner that has seen nothing; one that has grew its window itself


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
            if type(value) is not kind or not -_MOST <= value <= (0 if kind is float else _MOST):
                raise FileFormatError(f"{where}: damaged: {name} is {shown(value)}")
            if kind is int and value < 0:
                raise FileFormatError(f"{where}: damaged: {name} is {value}")
        names = names_in(where, header["policy"], template)
        start = {name: arrays.pop(f"start.{name}") for name in names}
        policy = OptionPolicy(*unpack(where, start, header["policy"], template))
        config = _config(header["config"])
        _check_numbers(where, numbers, config)
        _check_window(where, config, arrays)
        engine = make_engine(policy, config)
        if set(arrays) != engine.expected(header["engine"]):
            raise FileFormatError(f"{where}: holds other arrays than a learner of {policy!r} keeps")
        engine.resume(where, arrays, header["engine"])
        if numbers["num_samples"] and not np.asarray(engine.totals)[0] > 0:
            raise FileFormatError(
                f"{where}: damaged: it has seen samples, of which the newest weighs nothing"
            )
    except (AttributeError, InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(where, error) from error
    return config, policy, engine, numbers


def _damaged(where: str, error: Exception) -> FileFormatError:
    return error if isinstance(error, FileFormatError) else FileFormatError(f"{where}: damaged: {error}")


def _check_numbers(where: str, numbers: dict[str, Any], config: OnlineConfig) -> None:
    """Refuse counts that contradict one another: a learner would go on from them to nonsense."""
    forgets = config.weighting in ("polynomial", "constant")
    block = Weights.block_of(numbers["log2_decay"]) if forgets else 0
    if numbers["absorbed"] > numbers["num_samples"] or numbers["num_impossible"] > numbers["num_samples"]:
        raise FileFormatError(f"{where}: damaged: it counts fewer samples than it has taken in")
    if numbers["block"] != block or (not forgets and numbers["log2_decay"] != 0):
        raise FileFormatError(
            f"{where}: damaged: its weights are in the block {numbers['block']}, not {block}"
        )


def _check_window(where: str, config: OnlineConfig, arrays: dict[str, np.ndarray]) -> None:
    """Refuse a window larger than the arrays for it, before room for it is made."""
    held = [arrays[name].size for name in ("state.samples.weight", "state.queue.weight") if name in arrays]
    most = held[0] if held else _LARGEST_WINDOW
    if config.window > most:
        raise FileFormatError(f"{where}: damaged: a window of {config.window}, but room for {most}")
    if (config.batch_size or 0) > _LARGEST_BATCH or (config.memory or 0) > _MOST_KEPT:
        raise FileFormatError(f"{where}: damaged: batches of {config.batch_size}, memory of {config.memory}")


def _config(saved: dict[str, Any]) -> OnlineConfig:
    return OnlineConfig(**{**saved, "penalties": Penalties(**saved["penalties"])})
