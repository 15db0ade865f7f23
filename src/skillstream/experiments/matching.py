"""Comparing options whose numbering means nothing."""

import numpy as np
from jaxtyping import Int
from scipy.optimize import linear_sum_assignment


def best_matching(found: Int[np.ndarray, "T"], truth: Int[np.ndarray, "T"]) -> tuple[float, np.ndarray]:
    """The largest share of steps that agree after renumbering `found`, and the new number of each option.

    Examples
    --------
    >>> share, numbers = best_matching(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]))
    >>> share, numbers
    (0.75, array([1, 0]))
    """
    size = int(max(found.max(), truth.max())) + 1
    overlap = np.zeros((size, size), np.int64)
    np.add.at(overlap, (found, truth), 1)
    rows, numbers = linear_sum_assignment(overlap, maximize=True)
    return float(overlap[rows, numbers].sum() / len(found)), numbers
