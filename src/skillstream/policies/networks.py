"""Small networks, all options' networks of a kind as one batched operation, features first."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Networks(eqx.Module):
    """`K` fully connected networks of one shape."""

    weights: tuple[Float[Any, "K _ _"], ...]  # outputs by inputs
    biases: tuple[Float[Any, "K _"], ...]
    activation: str = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, "N D1"]) -> Float[Array, "K O N"]:
        """The networks' outputs at inputs that end in a column of ones, `D1 = D + 1`.

        With the ones the first layer's biases cost nothing of their own, forwards or backwards.
        """
        activate = getattr(jax.nn, self.activation)
        first = jnp.concatenate([self.weights[0], self.biases[0][:, :, None]], -1)
        count, size, width = first.shape
        hidden = first.reshape(-1, width) @ inputs.T
        hidden = hidden.reshape(count, size, len(inputs))
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = weight @ activate(hidden) + bias[:, :, None]
        return hidden


def draw_networks(
    rng: np.random.Generator,
    count: int,
    sizes: Sequence[int],
    activation: str,
    weight_range: float,
    dtype: str,
) -> Networks:
    """`count` networks with these layer sizes, all weights and biases U(-range, range), each drawn anew."""

    def uniform(*shape):
        return rng.uniform(-weight_range, weight_range, shape).astype(dtype)

    layers = list(pairwise(sizes))
    weights = tuple(uniform(count, outputs, inputs) for inputs, outputs in layers)
    biases = tuple(uniform(count, outputs) for _, outputs in layers)
    return Networks(weights, biases, activation)
