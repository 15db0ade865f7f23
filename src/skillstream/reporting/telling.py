"""Which coordinates of the observations tell the options apart."""

import itertools

import numpy as np
from jaxtyping import Float, Int

_BINS = 8
_CANDIDATES = 12  # coordinates that are tried in pairs


def most_telling(
    observations: Float[np.ndarray, "T D"], probabilities: Float[np.ndarray, "T K"], count: int
) -> list[int]:
    """The coordinates that, each by itself, tell most of the option: the greatest mutual information."""
    places = [_binned(column) for column in observations.T]
    scores = [_information(column, probabilities) for column in places]
    return np.argsort(-np.array(scores), kind="stable")[:count].tolist()


def most_telling_pair(
    observations: Float[np.ndarray, "T D"], probabilities: Float[np.ndarray, "T K"]
) -> tuple[int, int]:
    """The two coordinates that together tell most of the option."""
    candidates = sorted(most_telling(observations, probabilities, _CANDIDATES))
    places = {column: _binned(observations[:, column]) for column in candidates}
    return max(
        itertools.combinations(candidates, 2),
        key=lambda pair: _information(places[pair[0]] * _BINS + places[pair[1]], probabilities),
    )


def _binned(values: Float[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
    """Each value's bin; the bins hold about as many values each."""
    return np.searchsorted(np.quantile(values, np.arange(1, _BINS) / _BINS), values, side="right")


def _information(places: Int[np.ndarray, "T"], probabilities: Float[np.ndarray, "T K"]) -> float:
    """Mutual information of bin and option, in nats."""
    joint = np.zeros((int(places.max()) + 1, probabilities.shape[1]))
    np.add.at(joint, places, probabilities / len(places))
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum())
