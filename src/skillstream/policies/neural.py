"""Policies as neural networks: the paper's triplet, and every width, depth and kind of action besides."""

from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import InputError
from skillstream.policies.checks import check_floats, check_integers
from skillstream.policies.distributions import Categorical, DiagonalGaussian, ProductOfCategoricals
from skillstream.policies.networks import Networks, draw_networks
from skillstream.policies.protocol import ConditionalModel, Conditionals
from skillstream.policies.shape import GaussianActions, NeuralShape

_FAR = 1e15


class Standardiser(eqx.Module):
    """`(x - shift) / scale`, fitted to data; not learnt."""

    shift: Float[Any, "D"]
    scale: Float[Any, "D"]


class NeuralModel(ConditionalModel):
    """A network for pi_hi, and one per option for pi_lo and for pi_b."""

    selection: Networks
    action: Networks
    termination: Networks
    observations: Standardiser
    actions: Standardiser | None  # of continuous actions
    log_scale: Float[np.ndarray, "K M"] | None  # of continuous actions, unless the network gives it
    shape: NeuralShape = eqx.field(static=True)

    @property
    def num_options(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many options there are, `K`."""
        return self.shape.num_options

    def conditionals(self, observations: Float[Array, "N D"]) -> Conditionals:
        """The three distributions at each of these observations."""
        dtype = self.selection.weights[0].dtype
        # Standardised in the wider of the two types: a large offset in float64 is not lost.
        shift, scale = (lax.stop_gradient(jnp.asarray(x)) for x in _fields(self.observations))
        inputs = ((observations.astype(shift.dtype) - shift) * (1 / scale)).astype(dtype)
        inputs = jnp.concatenate([inputs, jnp.ones((len(inputs), 1), dtype)], 1)
        selection = jax.nn.log_softmax(self.selection(inputs)[0], 0)
        termination = jax.nn.log_softmax(self.termination(inputs), 1)
        return Conditionals(selection.T, jnp.moveaxis(termination, 2, 0), self._actions(self.action(inputs)))

    def _actions(self, outputs: Float[Array, "K O N"]):
        kind = self.shape.num_actions
        if isinstance(kind, GaussianActions):
            return self._gaussian(jnp.moveaxis(outputs, 2, 0), kind)
        sizes = (kind,) if isinstance(kind, int) else kind
        ends = np.cumsum([0, *sizes])
        parts = tuple(
            Categorical(jnp.moveaxis(jax.nn.log_softmax(outputs[:, first:last], 1), 2, 0))
            for first, last in pairwise(ends)
        )
        return parts[0] if isinstance(kind, int) else ProductOfCategoricals(parts)

    def _gaussian(self, outputs: Float[Array, "N K O"], kind: GaussianActions) -> DiagonalGaussian:
        assert self.actions is not None
        shift, unit = (lax.stop_gradient(jnp.asarray(x)).astype(outputs.dtype) for x in _fields(self.actions))
        raw = outputs[..., kind.size :] if self.log_scale is None else jnp.asarray(self.log_scale)
        scale = jnp.broadcast_to(kind.floor + jnp.exp(raw), outputs[..., : kind.size].shape)
        return DiagonalGaussian(shift + unit * outputs[..., : kind.size], unit * scale)

    def check_steps(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` unless these are observations and actions of these sizes."""
        check_floats("observations", observations, self.shape.observation_size)
        _check_near("observations", observations, self.observations)
        kind = self.shape.num_actions
        if isinstance(kind, GaussianActions):
            check_floats("actions", actions, kind.size)
            assert self.actions is not None
            _check_near("actions", actions, self.actions)
        elif isinstance(kind, int):
            check_integers("actions", actions, kind, "actions", mask)
        else:
            _check_product(actions, kind, mask)

    def structure(self) -> dict[str, Any]:
        """The networks' shape as JSON holds it."""
        return asdict(self.shape)

    def trainable(self) -> Any:
        """All weights; the standardisation stays as it was fitted."""
        still = [self.observations, self.actions]
        moves = jax.tree.map(lambda _: True, self)
        return eqx.tree_at(
            lambda model: [model.observations, model.actions],
            moves,
            jax.tree.map(lambda _: False, still),
            is_leaf=lambda leaf: leaf is None,
        )


def _fields(standardiser: Standardiser) -> tuple[Any, Any]:
    return standardiser.shift, standardiser.scale


def neural_model(shape: NeuralShape, seed: int, standardise: Demonstrations | None) -> NeuralModel:
    """Networks of this shape with fresh weights."""
    rng = np.random.default_rng(seed)
    options, kind = shape.num_options, shape.num_actions

    def draw(count, hidden, outputs):
        sizes = (shape.observation_size, *hidden, outputs)
        return draw_networks(rng, count, sizes, shape.activation, shape.weight_range, shape.dtype)

    gaussian = kind if isinstance(kind, GaussianActions) else None
    model = NeuralModel(  # pyright: ignore[reportCallIssue]
        selection=draw(1, shape.selection_hidden, options),
        action=draw(options, shape.action_hidden, shape.outputs),
        termination=draw(options, shape.termination_hidden, 2),
        observations=_unit(shape.observation_size),
        actions=_unit(gaussian.size) if gaussian else None,
        log_scale=np.zeros((options, gaussian.size), shape.dtype)  # pyright: ignore[reportArgumentType]
        if gaussian and gaussian.scale == "learnt"
        else None,
        shape=shape,
    )
    return model if standardise is None else _standardised(model, standardise)


def redrawn_networks(model: NeuralModel, num_options: int, seed: int) -> NeuralModel:
    """Networks of the same shape with fresh weights; the standardisation stays."""
    fresh = neural_model(replace(model.shape, num_options=num_options), seed, None)
    return eqx.tree_at(
        lambda m: [m.observations, m.actions],
        fresh,
        [model.observations, model.actions],
        is_leaf=lambda leaf: leaf is None,
    )


def _standardised(model: NeuralModel, demos: Demonstrations) -> NeuralModel:
    model.check_steps(demos.observations, demos.actions, demos.action_mask)
    seen = eqx.tree_at(lambda m: m.observations, model, _fit(demos.observations))
    if model.actions is None:
        return seen
    recorded = demos.actions if demos.action_mask is None else demos.actions[demos.action_mask]
    return eqx.tree_at(lambda m: m.actions, seen, _fit(recorded)) if len(recorded) else seen


def _fit(column: np.ndarray) -> Standardiser:
    """Zero mean and unit variance; a coordinate that never changes is only shifted."""
    shift, scale = column.mean(0, dtype=np.float64), column.std(0, dtype=np.float64)
    return Standardiser(shift, np.where(scale > 0, scale, 1.0))  # pyright: ignore[reportArgumentType]


def _unit(size: int) -> Standardiser:
    return Standardiser(np.zeros(size), np.ones(size))  # pyright: ignore[reportArgumentType]


def _check_near(name: str, column: np.ndarray, standardiser: Standardiser) -> None:
    """Refuse what a network in float32 would turn into infinity, once squared."""
    with np.errstate(over="ignore"):  # of a standardisation to which nothing is far
        far = (np.abs(column - standardiser.shift) > _FAR * standardiser.scale).any(1)
    if far.any():
        step = int(np.argmax(far))
        raise InputError(
            f"{name}: step {step} holds {column[step]}, too large for a network; drop the step, or fit a "
            "standardisation with standardise="
        )


def _check_product(actions: np.ndarray, sizes: tuple[int, ...], mask: np.ndarray | None) -> None:
    if actions.ndim != 2 or actions.shape[1] != len(sizes):
        found = f"{actions.dtype} {list(actions.shape)}"
        raise InputError(f"actions: this policy takes integers [T, {len(sizes)}], found {found}")
    for place, size in enumerate(sizes):
        check_integers("actions", actions[:, place], size, f"choices at place {place}", mask)
