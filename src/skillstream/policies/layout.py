"""What a policy file must hold, known without JAX: the names, shapes and types of its arrays."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.policies.checks import check_whole
from skillstream.policies.shape import GaussianActions, NeuralShape, shape_from

VERSION = 1
TABLES = ("selection", "action", "termination")

Layout = dict[
    str, tuple[tuple[int, ...] | None, str]
]  # None: of any shape, to be checked by what is made of it

_POSITIVE = ("observations.scale", "actions.scale", "scale", "floor")


def layout_of(where: str, header: Mapping[str, Any]) -> Layout | None:
    """Every array of a policy with this header; None for a kind that only a user's own class can tell.

    Nothing as large as the header claims has been made when this returns.
    """
    try:
        if header.get("model") == "tabular":
            return dict.fromkeys((*TABLES, "initial"), (None, "float64"))
        if header.get("model") == "neural":
            return _neural_layout(shape_from(header["structure"]))
        if header.get("model") == "tabular gaussian":
            return _gaussian_layout(**header["structure"])
    except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{where}: damaged: its header does not describe a policy ({error})") from error
    return None


def check_arrays(where: str, arrays: Mapping[str, np.ndarray], layout: Layout) -> None:
    """Raise a `FileFormatError` unless these are the arrays of the layout, and all numbers in them finite."""
    for name, (shape, dtype) in layout.items():
        found = arrays[name]
        if found.dtype != dtype or (shape is not None and found.shape != shape):
            wanted = dtype if shape is None else f"{dtype} {list(shape)}"
            raise FileFormatError(
                f"{where}: damaged or of another policy: {name} is {found.dtype} {list(found.shape)}, "
                f"expected {wanted}"
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise FileFormatError(f"{where}: damaged: the array {name} holds a number that is not finite")
        if name in _POSITIVE and not (found > 0).all():
            raise FileFormatError(f"{where}: damaged: the array {name} must be positive everywhere")


def _neural_layout(shape: NeuralShape) -> Layout:
    options, inputs, kind = shape.num_options, shape.observation_size, shape.num_actions
    layout: Layout = {
        "observations.shift": ((inputs,), "float64"),
        "observations.scale": ((inputs,), "float64"),
        "initial": ((options,), "float64"),
    }
    if isinstance(kind, GaussianActions):
        layout |= dict.fromkeys(("actions.shift", "actions.scale"), ((kind.size,), "float64"))
        if kind.scale == "learnt":
            layout["log_scale"] = ((options, kind.size), shape.dtype)
    for name, count, hidden, last in (
        ("selection", 1, shape.selection_hidden, options),
        ("action", options, shape.action_hidden, shape.outputs),
        ("termination", options, shape.termination_hidden, 2),
    ):
        for layer, (before, after) in enumerate(pairwise([inputs, *hidden, last])):
            layout[f"{name}.weights.{layer}"] = ((count, after, before), shape.dtype)
            layout[f"{name}.biases.{layer}"] = ((count, after), shape.dtype)
    return layout


def _gaussian_layout(num_options: int, num_states: int, action_size: int) -> Layout:
    for name, size in (
        ("num_options", num_options),
        ("num_states", num_states),
        ("action_size", action_size),
    ):
        check_whole(name, size, 1)
    shapes = {
        "selection": (num_states, num_options),
        "termination": (num_states, num_options, 2),
        "mean": (num_states, num_options, action_size),
        "scale": (num_states, num_options, action_size),
        "floor": (),
        "initial": (num_options,),
    }
    return {name: (shape, "float64") for name, shape in shapes.items()}
