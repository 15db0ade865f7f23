"""Gymnasium's spaces as columns: integers `[T]` or `[T, M]`, or floats `[T, D]`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skillstream.errors import InputError

if TYPE_CHECKING:
    from gymnasium import Space


def flatten_observations(space: "Space", values: Any) -> np.ndarray:
    """Observations of a space as a column.

    `Discrete` gives integers `[T]`; all else gives floats `[T, D]` by Gymnasium's own flattening, nested
    spaces and one-hot rows for discrete parts included. `values` holds one observation a step, or, for
    `Dict` and `Tuple` spaces, one column a part.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> space = Dict({"at": Box(-1, 1, (2,)), "door": Discrete(2)})
    >>> flatten_observations(space, {"at": [[0.5, 0.0], [1.0, 1.0]], "door": [0, 1]})
    array([[0.5, 0. , 1. , 0. ],
           [1. , 1. , 0. , 1. ]])
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _from_zero("observations", values, np.array([space.start]), np.array([space.n]))[:, 0]
    if isinstance(space, spaces.Box):
        column = _real("observations", values)
        _check_shape("observations", column, space.shape)
        return column.reshape(len(column), -1)
    if not getattr(space, "is_np_flattenable", False):
        raise InputError(f"observations: the space {space} has no fixed size; give arrays of your own making")
    flat = (spaces.flatten(space, step) for step in _steps(space, values))
    return np.array(list(flat), np.float64)


def flatten_actions(space: "Space", values: Any) -> np.ndarray:
    """Actions of a space as a column: integers `[T]` or `[T, M]`, floats `[T, M]` for a `Box`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _from_zero("actions", values, np.array([space.start]), np.array([space.n]))[:, 0]
    if isinstance(space, spaces.MultiDiscrete):
        return _from_zero("actions", values, np.ravel(space.start), np.ravel(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return _from_zero("actions", values, np.zeros(size, int), np.full(size, 2))
    if isinstance(space, spaces.Box):
        column = _real("actions", values)
        _check_shape("actions", column, space.shape)
        return column.reshape(len(column), -1)
    raise InputError(f"actions: the space {space} is none of Discrete, MultiDiscrete, MultiBinary and Box")


def unflatten_actions(space: "Space", column: np.ndarray) -> np.ndarray:
    """A column of actions as the space has them, one a row; numbers outside a `Box` are moved to its edge."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return np.clip(column.reshape(len(column), *space.shape), space.low, space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return column + space.start
    if isinstance(space, spaces.MultiDiscrete):
        return (column + np.ravel(space.start)).reshape(len(column), *space.shape)
    return column.reshape(len(column), *(space.shape or ())).astype(space.dtype)


def _from_zero(name: str, values: Any, first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whole numbers `[T, M]` counted from 0, each below its size."""
    column = np.asarray(values)
    if column.dtype.kind not in "iub":
        raise InputError(f"{name}: must be integers, found {column.dtype}")
    if column.size != len(column) * len(sizes):
        raise InputError(f"{name}: must have {len(sizes)} numbers a step, found the shape {column.shape}")
    column = column.reshape(-1, len(sizes)).astype(np.int64) - first
    outside = ((column < 0) | (column >= sizes)).any(1)
    if outside.any():
        step = int(np.argmax(outside))
        raise InputError(f"{name}: step {step} holds {np.asarray(values)[step]}, which is not in the space")
    return column


def _real(name: str, values: Any) -> np.ndarray:
    column = np.asarray(values)
    if column.dtype.kind not in "iufb":
        raise InputError(f"{name}: must be numbers, found {column.dtype}")
    return column.astype(np.float64, copy=False)


def _check_shape(name: str, column: np.ndarray, shape: tuple[int, ...]) -> None:
    if column.shape[1:] != shape:
        raise InputError(f"{name}: must have the shape [T, {shape}], found {column.shape}")


def _steps(space: "Space", values: Any) -> Sequence[Any]:
    """One value a step, from one column a part if need be."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict) and isinstance(values, Mapping):
        if set(values) != set(space.spaces):
            raise InputError(
                f"observations: has the parts {sorted(values)}, the space {sorted(space.spaces)}"
            )
        parts = {key: _steps(part, values[key]) for key, part in space.spaces.items()}
        _check_lengths(parts)
        return [dict(zip(parts, step, strict=True)) for step in zip(*parts.values(), strict=True)]
    if isinstance(space, spaces.Tuple) and isinstance(values, tuple):
        columns = {i: _steps(part, value) for i, (part, value) in enumerate(zip(space, values, strict=True))}
        _check_lengths(columns)
        return list(zip(*columns.values(), strict=True))
    return values


def _check_lengths(parts: Mapping[Any, Sequence[Any]]) -> None:
    lengths = {key: len(part) for key, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"observations: the parts have different lengths: {lengths}")
