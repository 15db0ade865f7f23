"""What a policy file says, in NumPy alone: when options stop, which comes next, what each does.

This is all that acting needs, so a machine that only acts needs no JAX.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int, Shaped

from skillstream.errors import FileFormatError, InputError
from skillstream.policies.checks import check_distribution
from skillstream.policies.shape import shape_from

_ROOT_2_OVER_PI = np.sqrt(2 / np.pi)


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(_ROOT_2_OVER_PI.astype(x.dtype) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * _sigmoid(x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, np.zeros((), x.dtype)),
    "sigmoid": _sigmoid,
}


class Choices(NamedTuple):
    """Independent choices among finitely many: for each, weights of its outcomes in `n` places."""

    weights: tuple[Float[np.ndarray, "n _"], ...]
    single: bool  # whether an action is one number, not a row of them

    def draw(self, rng: np.random.Generator) -> Int[np.ndarray, "n ..."]:
        """Actions drawn in proportion to the weights."""
        if self.single:
            return sample(self.weights[0], rng.random(len(self.weights[0])))
        uniforms = rng.random((len(self.weights), len(self.weights[0])))
        return self._joined([sample(w, u) for w, u in zip(self.weights, uniforms, strict=True)])

    def best(self) -> Int[np.ndarray, "n ..."]:
        """The most probable actions."""
        return self._joined([w.argmax(1) for w in self.weights])

    def _joined(self, columns: list[np.ndarray]) -> np.ndarray:
        return columns[0] if self.single else np.stack(columns, 1)


class Gaussians(NamedTuple):
    """Continuous actions in `n` places."""

    mean: Float[np.ndarray, "n M"]
    scale: Float[np.ndarray, "n M"]

    def draw(self, rng: np.random.Generator) -> Float[np.ndarray, "n M"]:
        """Actions drawn from the Gaussians."""
        return self.mean + self.scale * rng.standard_normal(self.mean.shape)

    def best(self) -> Float[np.ndarray, "n M"]:
        """The means."""
        return self.mean.astype(np.float64)


class Rules(Protocol):
    """A hierarchy at work in `n` places at once; `inputs` are what `prepare` made of observations."""

    num_options: int
    feature_shape: tuple[int, ...] | None  # of one observation, if it is known
    num_actions: int | None  # where an action is one of finitely many

    def prepare(self, observations: np.ndarray) -> np.ndarray:
        """Checked inputs."""
        ...

    def stop(self, inputs: np.ndarray, options: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """pi_b(1 | s, o) of the running options."""
        ...

    def select(self, inputs: np.ndarray) -> Float[np.ndarray, "n K"]:
        """pi_hi(o | s)."""
        ...

    def act(self, inputs: np.ndarray, options: Int[np.ndarray, "n"]) -> Choices | Gaussians:
        """pi_lo(. | s, o) of the running options."""
        ...


def sample(weights: Float[np.ndarray, "n A"], uniforms: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """One outcome a row in proportion to its weights; one of weight 0 never."""
    cumulative = weights.cumsum(1, dtype=np.float64)
    return (cumulative <= (uniforms * cumulative[:, -1])[:, None]).sum(1)


class TableRules:
    """Tables over states, with finitely many actions or with a Gaussian in each state."""

    feature_shape: tuple[int, ...] | None = ()

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self.selection = check_distribution("selection", arrays["selection"], ("S", "K"))
        states, self.num_options = self.selection.shape
        ends = check_distribution("termination", arrays["termination"], (states, self.num_options, 2))
        self.stops = np.ascontiguousarray(ends[..., 1])
        self.action = self.gaussian = self.num_actions = None
        if "action" in arrays:
            self.action = check_distribution("action", arrays["action"], (states, self.num_options, "A"))
            self.num_actions = self.action.shape[2]
        else:
            self.gaussian = Gaussians(arrays["mean"], arrays["scale"])

    def prepare(self, observations: Shaped[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The numbers of the states."""
        if observations.dtype.kind not in "iu":
            raise InputError(f"observation: this policy needs a state's number, found {observations.dtype}")
        if observations.min() < 0 or observations.max() >= len(self.selection):
            raise InputError(
                f"observation: must lie in 0 to {len(self.selection) - 1}, found {observations.tolist()}"
            )
        return observations

    def stop(self, inputs: Int[np.ndarray, "n"], options: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """pi_b(1 | s, o) of the running options."""
        return self.stops[inputs, options]

    def select(self, inputs: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """pi_hi(o | s)."""
        return self.selection[inputs]

    def act(self, inputs: Int[np.ndarray, "n"], options: Int[np.ndarray, "n"]) -> Choices | Gaussians:
        """pi_lo(. | s, o) of the running options."""
        if self.action is not None:
            return Choices((self.action[inputs, options],), single=True)
        assert self.gaussian is not None
        return Gaussians(*(table[inputs, options] for table in self.gaussian))


class _Networks:
    """`K` networks of one shape, as `policies.networks.Networks` evaluates them."""

    def __init__(self, arrays: Mapping[str, np.ndarray], kind: str, layers: int, activation: str):
        weights = [arrays[f"{kind}.weights.{layer}"] for layer in range(layers)]
        biases = [arrays[f"{kind}.biases.{layer}"] for layer in range(layers)]
        self.count = len(weights[0])
        self.first = weights[0].reshape(-1, weights[0].shape[2]), biases[0].reshape(-1, 1)
        self.rest = [(w, b[:, :, None]) for w, b in zip(weights[1:], biases[1:], strict=True)]
        self.activate = ACTIVATIONS[activation]

    def __call__(self, columns: Float[np.ndarray, "D n"]) -> Float[np.ndarray, "K O n"]:
        weight, bias = self.first
        hidden = (weight @ columns + bias).reshape(self.count, -1, columns.shape[1])
        for weight, bias in self.rest:
            hidden = weight @ self.activate(hidden) + bias
        return hidden


class NetworkRules:
    """The neural triplet."""

    def __init__(self, arrays: Mapping[str, np.ndarray], structure: Mapping[str, Any]):
        self.num_options = int(structure["num_options"])
        self.feature_shape: tuple[int, ...] | None = (int(structure["observation_size"]),)
        self.kind = structure["num_actions"]
        self.num_actions = self.kind if isinstance(self.kind, int) else None
        self.shift, self.unit = arrays["observations.shift"], arrays["observations.scale"]
        self.as_it_is = not self.shift.any() and bool((self.unit == 1).all())
        self.dtype = arrays["selection.weights.0"].dtype
        self.selection, self.action, self.termination = (
            _Networks(arrays, kind, len(structure[f"{kind}_hidden"]) + 1, structure["activation"])
            for kind in ("selection", "action", "termination")
        )
        if isinstance(self.kind, Mapping):
            self.action_shift, self.action_unit = arrays["actions.shift"], arrays["actions.scale"]
            self.log_scale = arrays.get("log_scale")

    def prepare(self, observations: Shaped[np.ndarray, "n D"]) -> Float[np.ndarray, "D n"]:
        """Standardised observations, features first."""
        if observations.dtype.kind not in "iufb":
            raise InputError(f"observation: this policy needs numbers, found {observations.dtype}")
        inputs = observations if self.as_it_is else (observations - self.shift) / self.unit
        inputs = inputs.astype(self.dtype)
        if not math.isfinite(inputs.sum()):
            raise InputError(f"observation: holds a number that is not finite: {observations.tolist()}")
        return inputs.T

    def stop(self, inputs: Float[np.ndarray, "D n"], options: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """pi_b(1 | s, o) of the running options."""
        logits = _of(self.termination(inputs), options)
        return _sigmoid(logits[:, 1] - logits[:, 0])

    def select(self, inputs: Float[np.ndarray, "D n"]) -> Float[np.ndarray, "n K"]:
        """pi_hi(o | s)."""
        weights = _exp(self.selection(inputs)[0].T)
        return weights / weights.sum(1, keepdims=True)

    def act(self, inputs: Float[np.ndarray, "D n"], options: Int[np.ndarray, "n"]) -> Choices | Gaussians:
        """pi_lo(. | s, o) of the running options."""
        outputs = _of(self.action(inputs), options)
        if isinstance(self.kind, int):
            return Choices((_exp(outputs),), single=True)
        if not isinstance(self.kind, Mapping):
            parts = np.split(outputs, np.cumsum(self.kind)[:-1], axis=1)
            return Choices(tuple(_exp(part) for part in parts), single=False)
        size = self.kind["size"]
        raw = outputs[:, size:] if self.log_scale is None else self.log_scale[options]
        scale = self.action_unit * (self.kind["floor"] + np.exp(raw))
        return Gaussians(self.action_shift + self.action_unit * outputs[:, :size], scale)


def _of(outputs: Float[np.ndarray, "K O n"], options: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n O"]:
    """Each place's running option's outputs."""
    if len(options) == 1:  # half the cost of indexing by arrays, and what one world needs
        return outputs[options[0]].T
    return outputs[options, :, np.arange(len(options))]


def _exp(logits: Float[np.ndarray, "n O"]) -> Float[np.ndarray, "n O"]:
    return np.exp(logits - logits.max(1, keepdims=True))


def rules_from(where: str, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Rules:
    """The rules that the arrays and the header of a policy file give."""
    kind = header.get("model")
    if kind in ("tabular", "tabular gaussian"):
        return TableRules(arrays)
    if kind == "neural":
        return NetworkRules(arrays, asdict(shape_from(header["structure"])))
    raise FileFormatError(
        f"{where}: holds a policy of the kind {kind!r}, which NumPy alone does not know; load it with "
        "OptionPolicy.load and give the policy to Agent"
    )
