"""Tables over states whose options act by a Gaussian in each state; learnt in closed form."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from skillstream.errors import InputError
from skillstream.policies.checks import check_distribution, check_floats, check_integers
from skillstream.policies.distributions import DiagonalGaussian
from skillstream.policies.protocol import ConditionalModel, Conditionals, WeightedSamples
from skillstream.policies.tabular import draw_choices


class TabularGaussianModel(ConditionalModel):
    """pi_hi and pi_b as tables, pi_lo(. | s, o) a Gaussian for each state and option."""

    selection: Float[Any, "S K"]
    termination: Float[Any, "S K 2"]
    mean: Float[Any, "S K M"]
    scale: Float[Any, "S K M"]
    floor: Float[Any, ""]  # no standard deviation is learnt below this

    @property
    def num_options(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many options there are, `K`."""
        return self.selection.shape[1]

    def conditionals(self, observations: Int[Array, "N"]) -> Conditionals:
        """The three distributions at each of these states."""
        selection, termination, mean, scale = (
            jnp.asarray(x)[observations] for x in (self.selection, self.termination, self.mean, self.scale)
        )
        return Conditionals(jnp.log(selection), jnp.log(termination), DiagonalGaussian(mean, scale))

    def maximise(self, samples: WeightedSamples, pseudo_count: float | Array) -> "TabularGaussianModel":
        """The weighted maximum-likelihood tables; a row without data keeps its old values."""
        states, size = jnp.asarray(samples.observations), self.selection.shape[0]

        def by_state(rows):
            return jnp.zeros((size, *rows.shape[1:]), rows.dtype).at[states].add(rows)

        actions = jnp.asarray(samples.actions)[:, None].astype(jnp.asarray(self.mean).dtype)
        weights = samples.options[:, :, None]
        mass = by_state(weights)
        known = mass > 0
        total = jnp.where(known, mass, 1.0)
        mean = jnp.where(known, by_state(weights * actions) / total, jnp.asarray(self.mean))
        variance = by_state(weights * (actions - mean[states]) ** 2) / total
        scale = jnp.where(known, jnp.maximum(jnp.sqrt(variance), self.floor), jnp.asarray(self.scale))
        ends = jnp.stack([samples.stay, samples.stop], -1)
        return TabularGaussianModel(  # pyright: ignore[reportCallIssue]
            _normalise(by_state(samples.switches), self.selection, pseudo_count),
            _normalise(by_state(ends), self.termination, pseudo_count),
            mean,
            scale,
            self.floor,
        )

    def check_steps(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` unless these are states of the tables and actions of this size."""
        check_integers("observations", observations, self.selection.shape[0], "states", None)
        check_floats("actions", actions, self.mean.shape[2])

    def structure(self) -> dict[str, Any]:
        """The sizes of the tables."""
        states, options, size = self.mean.shape
        return {"num_options": options, "num_states": states, "action_size": size}


def gaussian_tables(
    selection: ArrayLike, mean: ArrayLike, scale: ArrayLike, termination: ArrayLike, floor: float
) -> TabularGaussianModel:
    """Tables `[S, K]`, `[S, K, M]`, `[S, K, M]` and `[S, K, 2]`, checked."""
    chosen = check_distribution("selection", selection, ("S", "K"))
    states, options = chosen.shape
    ends = check_distribution("termination", termination, (states, options, 2))
    middle, width = np.array(mean, np.float64), np.array(scale, np.float64)
    for name, table in (("mean", middle), ("scale", width)):
        if table.ndim != 3 or table.shape[:2] != (states, options) or table.shape[2] != middle.shape[2]:
            raise InputError(
                f"{name}: must have the shape [{states}, {options}, M], found {list(table.shape)}"
            )
        if not np.isfinite(table).all():
            raise InputError(f"{name}: holds a number that is not finite")
    if (width <= 0).any():
        raise InputError("scale: must be positive everywhere")
    if not (np.isfinite(floor) and floor > 0):
        raise InputError(f"floor: must be a positive number, found {floor!r}")
    return TabularGaussianModel(chosen, ends, middle, width, np.array(float(floor)))  # pyright: ignore


def draw_gaussians(
    num_options: int, num_states: int, mean: np.ndarray, scale: np.ndarray, floor: float, seed: int
) -> TabularGaussianModel:
    """Random tables whose Gaussians lie and spread as actions of this mean and scale do."""
    rng = np.random.default_rng(seed)
    selection, termination = draw_choices(rng, num_options, num_states)
    shape = (num_states, num_options, len(mean))
    width = np.where(scale > 0, scale, 1.0)
    middle = mean + width * rng.normal(size=shape)
    return gaussian_tables(selection, middle, np.broadcast_to(width, shape), termination, floor)


def redrawn_gaussians(model: TabularGaussianModel, num_options: int, seed: int) -> TabularGaussianModel:
    """Random tables that cover the same actions."""
    centre = np.mean(model.mean, (0, 1))
    spread = np.sqrt(np.mean(np.square(model.scale) + np.square(model.mean - centre), (0, 1)))
    return draw_gaussians(num_options, len(model.mean), centre, spread, float(model.floor), seed)


def _normalise(counts, old, pseudo_count):
    mass = jnp.sum(counts, -1, keepdims=True)
    total = jnp.where(mass > 0, mass + pseudo_count * counts.shape[-1], 1.0)
    return jnp.where(mass > 0, (counts + pseudo_count) / total, jnp.asarray(old))
