"""What options do: distributions over actions, for `N` observations and `K` options at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Categorical(eqx.Module):
    """One of `A` actions."""

    logs: Float[Array, "N K A"]

    def log_probability(self, actions: Int[Array, "N"]) -> Float[Array, "N K"]:
        """log pi_lo(a | s, o) of the actions taken."""
        taken = actions[:, None, None] == jnp.arange(self.logs.shape[-1], dtype=actions.dtype)
        return jnp.sum(jnp.where(taken, self.logs, 0.0), -1)

    def probabilities(self) -> Float[Array, "N K A"]:
        """pi_lo(a | s, o) of every action."""
        return jnp.exp(self.logs)

    def divergences(self, form: str) -> Float[Array, "N K K"]:
        """Kullback-Leibler of each pair of options (`full`), or squared Hellinger distance (`bounded`)."""
        if form == "full":
            return _relative_entropy(self.logs)
        return 1 - jnp.exp(self.log_affinity())

    def log_affinity(self) -> Float[Array, "N K K"]:
        """The logarithm of sum_a sqrt(p(a) q(a)), at most 0."""
        return jax.nn.logsumexp((self.logs[:, :, None] + self.logs[:, None]) / 2, -1)


class ProductOfCategoricals(eqx.Module):
    """Several independent choices at once (Gymnasium's `MultiDiscrete`)."""

    parts: tuple[Categorical, ...]

    def log_probability(self, actions: Int[Array, "N M"]) -> Float[Array, "N K"]:
        """log pi_lo(a | s, o) of the actions taken."""
        return sum(part.log_probability(actions[:, i]) for i, part in enumerate(self.parts))  # pyright: ignore

    def divergences(self, form: str) -> Float[Array, "N K K"]:
        """Kullback-Leibler of each pair of options (`full`), or squared Hellinger distance (`bounded`)."""
        if form == "full":
            return sum(part.divergences(form) for part in self.parts)  # pyright: ignore
        return 1 - jnp.exp(sum(part.log_affinity() for part in self.parts))  # pyright: ignore


class DiagonalGaussian(eqx.Module):
    """Continuous actions, each coordinate on its own."""

    mean: Float[Array, "N K M"]
    scale: Float[Array, "N K M"]

    def log_probability(self, actions: Float[Array, "N M"]) -> Float[Array, "N K"]:
        """The log-density of the actions taken."""
        actions = actions.astype(self.mean.dtype)
        distance = (actions[:, None] - self.mean) / self.scale
        return -jnp.sum(jnp.log(self.scale) + 0.5 * distance**2 + 0.5 * jnp.log(2 * jnp.pi), -1)

    def divergences(self, form: str) -> Float[Array, "N K K"]:
        """Kullback-Leibler of each pair of options (`full`), or squared Hellinger distance (`bounded`)."""
        gap = (self.mean[:, :, None] - self.mean[:, None]) ** 2
        first, second = self.scale[:, :, None], self.scale[:, None]
        if form == "full":
            terms = jnp.log(second) - jnp.log(first) + (first**2 + gap) / (2 * second**2) - 0.5
            return jnp.sum(terms, -1)
        both = first**2 + second**2
        log_affinity = 0.5 * (jnp.log(2 * first) + jnp.log(second) - jnp.log(both)) - gap / (4 * both)
        return 1 - jnp.exp(jnp.sum(log_affinity, -1))


def _relative_entropy(logs: Float[Array, "N K A"]) -> Float[Array, "N K K"]:
    """KL(option o || option o') over the last axis; an outcome of probability zero adds nothing."""
    probabilities = jnp.exp(logs)[:, :, None]
    ratio = jnp.where(probabilities > 0, logs[:, :, None] - logs[:, None], 0.0)
    return jnp.sum(probabilities * ratio, -1)
