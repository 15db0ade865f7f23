"""What the paper and the authors' published files say: Figure 1, and how long it took."""

from typing import NamedTuple

PublishedLearner = str  # "batch" or "online"


class Published(NamedTuple):
    """A point of the published Figure 1: mean and std over seeds of the mean return, the expert being 1."""

    mean: float
    std: float
    seconds: float  # of training, on the authors' machine


# Return of the authors' own experts; the published shares are shares of these.
EXPERTS = {"grid-world": 8.964, "cart-pole": 1974.97, "pendulum": -177.75, "lunar-lander": 186.16}

_ROWS = {
    "grid-world": {
        100: (0.429, 0.171, 0.465, 0.190, 632, 666),
        200: (0.577, 0.128, 0.663, 0.127, 1515, 1579),
        500: (0.708, 0.173, 0.843, 0.078, 5670, 5823),
        1000: (0.798, 0.133, 0.927, 0.063, 18596, 18887),
        2000: (0.834, 0.099, 0.925, 0.049, 63439, 41451),
    },
    "cart-pole": {
        50: (0.158, 0.124, 0.449, 0.380, 170, 181),
        100: (0.621, 0.311, 0.797, 0.318, 422, 444),
        200: (0.770, 0.294, 0.725, 0.290, 997, 1040),
        400: (0.950, 0.121, 0.992, 0.028, 2606, 2693),
        600: (1.013, 0.000, 0.979, 0.055, 4842, 4972),
    },
    "pendulum": {
        100: (0.633, 0.110, 0.630, 0.116, 425, 448),
        200: (0.637, 0.110, 0.644, 0.124, 1031, 1074),
        500: (0.887, 0.116, 0.917, 0.083, 3753, 3658),
        1000: (0.946, 0.071, 0.945, 0.092, 12040, 10075),
        2000: (0.991, 0.015, 0.994, 0.012, 41481, 33460),
    },
    "lunar-lander": {
        100: (0.490, 0.282, 0.452, 0.224, 1095, 1139),
        200: (0.719, 0.215, 0.713, 0.177, 2867, 2953),
        500: (0.837, 0.089, 0.940, 0.123, 12858, 13087),
        1000: (0.999, 0.065, 0.982, 0.044, 43985, 44493),
    },
}


def published(task: str, size: int) -> dict[PublishedLearner, Published]:
    """The published points of a task at a size; none where the paper has none.

    Examples
    --------
    >>> published("grid-world", 500)["online"].mean
    0.843
    """
    row = _ROWS.get(task, {}).get(size)
    if row is None:
        return {}
    return {"batch": Published(row[0], row[1], row[4]), "online": Published(row[2], row[3], row[5])}


def published_sizes(task: str) -> tuple[int, ...]:
    """The training sizes of a task's panel."""
    return tuple(_ROWS.get(task, {}))
