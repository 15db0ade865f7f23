"""What a policy file must hold, known without JAX: the names and shapes of its arrays."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

VERSION = 1
TABLES = ("selection", "action", "termination")


def neural_shapes(structure: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every array of a neural policy but `initial`, by the structure in its header."""
    options, inputs, kind = structure["num_options"], structure["observation_size"], structure["num_actions"]
    shapes: dict[str, tuple[int, ...]] = {"observations.shift": (inputs,), "observations.scale": (inputs,)}
    if isinstance(kind, Mapping):
        size = kind["size"]
        shapes |= {"actions.shift": (size,), "actions.scale": (size,)}
        if kind["scale"] == "learnt":
            shapes["log_scale"] = (options, size)
        outputs = size * (1 + (kind["scale"] == "state"))
    else:
        outputs = int(np.sum(kind))
    for name, count, last in (
        ("selection", 1, options),
        ("action", options, outputs),
        ("termination", options, 2),
    ):
        layers = pairwise([inputs, *structure[f"{name}_hidden"], last])
        for layer, (before, after) in enumerate(layers):
            shapes[f"{name}.weights.{layer}"] = (count, after, before)
            shapes[f"{name}.biases.{layer}"] = (count, after)
    return shapes


def gaussian_table_shapes(structure: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every array of a tabular policy with Gaussian actions but `initial`."""
    states, options, size = (structure[name] for name in ("num_states", "num_options", "action_size"))
    return {
        "selection": (states, options),
        "termination": (states, options, 2),
        "mean": (states, options, size),
        "scale": (states, options, size),
        "floor": (),
    }
