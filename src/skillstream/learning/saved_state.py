"""What must hold of the state of a stream that a file gives back, beyond the shapes of its arrays.

The compiled loops trust their state: one with more samples pending than there is room for would never end.
"""

from typing import Any

import numpy as np

from skillstream.errors import FileFormatError
from skillstream.policies.storage import named_arrays

_MOST_SAMPLES = 1e100  # as heavy as the newest
_ROUNDING = 1e-6
_OPTIMISER = "moving.optimiser"  # may hold what its author likes; what it makes of it is checked at each step


def check_state(where: str, state: Any, size: int) -> None:
    """Refuse numbers that no stream leads to, in a state with room for `size` pending samples."""
    tiny = np.finfo(float).tiny
    for name, array in named_arrays(state).items():
        if array.dtype.kind == "f" and not name.startswith(_OPTIMISER) and not np.isfinite(array).all():
            raise FileFormatError(f"{where}: damaged: {name} holds a number that is not finite")
        counts = name.startswith(("counts.", "store.s", "samples.weight", "queue.weight"))
        if (counts or name.startswith("window.")) and (array < 0).any():
            raise FileFormatError(f"{where}: damaged: {name} holds a number below 0")
        if counts and array.size and array.max() / _MOST_SAMPLES > max(state.totals[0], tiny):
            raise FileFormatError(f"{where}: damaged: {name} holds more than so many samples could weigh")
    chi = np.asarray(state.window.chi)
    if abs(chi.sum() - 1) > _ROUNDING:
        raise FileFormatError(f"{where}: damaged: the chances of the options add up to {chi.sum():.6g}")
    if not _are_chances(state.window):
        raise FileFormatError(f"{where}: damaged: pending samples have no posterior that adds up to 1")
    if size < 2 or size % 2 or not 0 <= int(state.window.filled) < size:
        raise FileFormatError(f"{where}: damaged: {int(state.window.filled)} of {size} places are filled")
    if state.totals[0] < 0 or state.totals[2] < 0:
        raise FileFormatError(f"{where}: damaged: the newest sample's weight or the certificate is below 0")


def _are_chances(window: Any) -> bool:
    """Whether every posterior of the pending samples is made of probabilities, as `pending` makes it."""
    chi, reach, (stay, depart, enter) = (np.asarray(part) for part in window[:3])
    with np.errstate(over="ignore", invalid="ignore"):
        options = (reach * chi[:, None]).sum(1)
        switches = enter * options * depart.sum(0)
        departs = depart * (enter * options).sum(0)
        return all((part <= 1 + _ROUNDING).all() for part in (options, switches, departs, stay * options))


def check_range(where: str, name: str, numbers: Any, size: int) -> None:
    """Refuse places outside of what they stand in."""
    found = np.asarray(numbers)
    if found.size and (found.min() < 0 or found.max() >= size):
        raise FileFormatError(f"{where}: damaged: {name} holds places outside 0 to {size - 1}")
