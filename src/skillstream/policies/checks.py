"""Checks that several kinds of policy share."""

import numpy as np
from numpy.typing import ArrayLike

from skillstream.errors import InputError, shown


def check_whole(name: str, value: object, least: int) -> None:
    """Raise an `InputError` unless `value` is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}: must be a whole number from {least}, found {shown(value)}")


def check_distribution(name: str, table: ArrayLike, shape: tuple[int | str, ...]) -> np.ndarray:
    """A float64 copy whose last axis holds distributions; letters in `shape` stand for any size from 1."""
    try:
        array = np.array(table, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: must be an array of numbers ({error})") from error
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    fits = array.ndim == len(shape) and all(
        found == size if isinstance(size, int) else found > 0
        for found, size in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name}: must have the shape {wanted}, found {list(array.shape)}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{name}: holds a probability that is negative or not finite")
    sums = array.sum(-1, keepdims=True)
    if (np.abs(sums - 1) > 1e-6).any():
        row = tuple(int(i) for i in np.argwhere(np.abs(sums - 1) > 1e-6)[0][:-1])
        raise InputError(
            f"{name}: row {row} sums to {sums[row][0]:.6g}; every row along the last axis must sum to 1"
        )
    # A sum that is off by rounding only is left alone, so that tables saved and loaded keep their bits.
    return np.where(np.abs(sums - 1) > 1e-12, array / sums, array)


def check_integers(name: str, values: np.ndarray, size: int, what: str, mask: np.ndarray | None) -> None:
    """Raise an `InputError` unless `values` are integers `[T]` below `size`, where they count."""
    if values.ndim != 1 or values.dtype.kind != "i":
        remedy = "use GaussianActions" if name == "actions" else "use OptionPolicy.neural"
        raise InputError(
            f"{name}: this policy needs integers [T], found {values.dtype} {list(values.shape)}; "
            f"number them, or, if they are continuous, {remedy}"
        )
    counted = values if mask is None else np.where(mask, values, 0)
    if len(counted) and counted.max() >= size:
        row = int(np.argmax(counted >= size))
        raise InputError(
            f"{name}: step {row} holds {counted[row]}, but the policy has {size} {what} (0 to {size - 1}); "
            f"build it with more {what}"
        )


def check_floats(name: str, column: np.ndarray, size: int) -> None:
    """Raise an `InputError` unless `column` holds floats `[T, size]`."""
    if column.ndim != 2 or column.shape[1] != size or column.dtype.kind != "f":
        found = f"{column.dtype} {list(column.shape)}"
        raise InputError(
            f"{name}: this policy takes numbers [T, {size}], found {found}; give discrete states their "
            "coordinates or a one-hot row each, or use a tabular policy"
            if name == "observations"
            else f"{name}: this policy takes floats [T, {size}], found {found}; .astype(float) makes them"
        )
