"""Keeping a fixed number of weighted rows that stand for all there ever were, without bias."""

import numpy as np
from jaxtyping import Bool, Float


def thin(
    weights: Float[np.ndarray, "N"], count: int, rng: np.random.Generator
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Choose `count` rows at random and say what to multiply their weights by.

    A row of weight w is kept with probability p = min(1, w / tau), with tau such that `count` rows are
    kept, and is multiplied by 1 / p: heavy rows stay as they are, light ones stand for one another,
    and the expectation of every sum over rows is what it was. Rows can be thinned again and again,
    and added to in between (VarOpt sampling; Cohen, Duffield, Kaplan, Lund and Thorup, 2011).

    Examples
    --------
    >>> kept, factors = thin(np.array([9.0, 1.0, 1.0, 1.0, 1.0]), 3, np.random.default_rng(0))
    >>> kept.sum(), (factors[kept] * np.array([9.0, 1, 1, 1, 1])[kept]).sum()
    (np.int64(3), np.float64(13.0))
    """
    positive = weights > 0
    if positive.sum() <= count:
        return positive, np.ones(len(weights))
    chance = np.minimum(1.0, weights / _threshold(weights, count))
    # Systematic sampling in a random order: exactly `count` rows, each with its own probability.
    order = rng.permutation(len(weights))
    marks = np.cumsum(chance[order])
    marks *= count / marks[-1]
    kept = np.zeros(len(weights), bool)
    kept[order] = np.diff(np.floor(marks + rng.random()), prepend=0.0) > 0
    return kept, 1.0 / np.where(kept, chance, 1.0)


def _threshold(weights: Float[np.ndarray, "N"], count: int) -> float:
    """tau with sum of min(1, w / tau) = count."""
    falling = np.sort(weights)[::-1]
    light = np.cumsum(falling[::-1])[::-1]  # the sum of this weight and all lighter ones
    taus = light[:count] / (count - np.arange(count))  # if that many heavier rows are kept for certain
    heavy = int(np.argmax(falling[:count] <= taus))
    return float(taus[heavy])
