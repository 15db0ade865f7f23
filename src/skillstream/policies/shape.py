"""What networks look like: everything about them but their numbers, known without JAX and checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skillstream.errors import InputError, shown
from skillstream.policies.checks import check_whole

_LARGEST = 1e30  # of weights to begin with; float32 ends at 3e38
ACTIVATIONS = ("relu", "tanh", "gelu", "silu", "elu", "softplus", "sigmoid")


@dataclass(frozen=True)
class GaussianActions:
    """Continuous actions: what to give `OptionPolicy.neural` in place of a number of actions."""

    size: int
    """Coordinates of an action."""
    scale: Literal["learnt", "state"] = "learnt"
    """The standard deviation: one per option and coordinate, or a second output of the network."""
    floor: float = 1e-2
    """Added to every standard deviation (in standardised units), so that no density can run away."""

    def __post_init__(self) -> None:
        check_whole("size", self.size, 1)
        if self.scale not in ("learnt", "state"):
            raise InputError(f"scale: must be 'learnt' or 'state', found {shown(self.scale)}")
        if not (np.isfinite(self.floor) and self.floor > 0):
            raise InputError(f"floor: must be a positive number, found {shown(self.floor)}")


ActionSpec = int | Sequence[int] | GaussianActions


@dataclass(frozen=True)
class NeuralShape:
    """Everything about networks but their numbers; saved as JSON beside them."""

    num_options: int
    observation_size: int
    num_actions: int | tuple[int, ...] | GaussianActions
    selection_hidden: tuple[int, ...] = (100,)
    action_hidden: tuple[int, ...] = (30,)
    termination_hidden: tuple[int, ...] = (30,)
    activation: str = "relu"
    weight_range: float = 0.5
    dtype: str = "float32"

    @property
    def outputs(self) -> int:
        """Outputs of a low-level network."""
        if isinstance(self.num_actions, GaussianActions):
            return self.num_actions.size * (2 if self.num_actions.scale == "state" else 1)
        return self.num_actions if isinstance(self.num_actions, int) else sum(self.num_actions)

    def describe_actions(self) -> str:
        """The actions in words."""
        if isinstance(self.num_actions, GaussianActions):
            return f"Gaussian actions of size {self.num_actions.size}"
        return f"{self.num_actions} actions"


def shape_from(structure: dict[str, Any]) -> NeuralShape:
    """What `NeuralModel.structure` gave, as a shape again."""
    kind = structure["num_actions"]
    actions = GaussianActions(**kind) if isinstance(kind, dict) else kind
    return check_shape(**{**structure, "num_actions": actions})


def check_shape(**given: Any) -> NeuralShape:
    """A shape from what a user wrote."""
    check_whole("num_options", given["num_options"], 1)
    check_whole("observation_size", given["observation_size"], 1)
    kind = given["num_actions"]
    if not isinstance(kind, GaussianActions):
        if np.ndim(kind) == 0:
            check_whole("num_actions", kind, 1)
            kind = int(kind)
        else:
            if not len(kind):
                raise InputError("num_actions: there is none in it")
            for size in kind:
                check_whole("num_actions", size, 1)
            kind = tuple(int(size) for size in kind)
    for name in ("selection_hidden", "action_hidden", "termination_hidden"):
        given[name] = check_layers(name, given[name])
    if given["activation"] not in ACTIVATIONS:
        raise InputError(
            f"activation: must be one of {', '.join(ACTIVATIONS)}, found {shown(given['activation'])}"
        )
    if not 0 < given["weight_range"] < _LARGEST:
        found = shown(given["weight_range"])
        raise InputError(f"weight_range: must be a positive number below {_LARGEST:g}, found {found}")
    if given["dtype"] not in ("float32", "float64"):
        raise InputError(f"dtype: must be 'float32' or 'float64', found {shown(given['dtype'])}")
    return NeuralShape(**{**given, "num_actions": kind})


def check_layers(name: str, hidden: Sequence[int]) -> tuple[int, ...]:
    """The sizes of hidden layers as a tuple of positive whole numbers; none is a linear map."""
    sizes = (hidden,) if isinstance(hidden, int) else tuple(hidden)
    if any(isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1 for size in sizes):
        raise InputError(f"{name}: must be sizes of hidden layers, such as (30,), found {shown(hidden)}")
    return tuple(int(size) for size in sizes)
