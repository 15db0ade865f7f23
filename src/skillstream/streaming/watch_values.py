"""What the files of a stream say, as values that a page can show: of the right type and size, or None."""

import json
import math
from typing import Any

LARGEST_COUNT = 2**53 - 1  # what JavaScript can hold exactly
LARGEST_NUMBER = 1e30  # sums and differences of such stay finite
MOST_OPTIONS = 256


def number(value: Any, low: float = -LARGEST_NUMBER, high: float = LARGEST_NUMBER) -> float | None:
    """A finite number between the limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and low <= found <= high else None


def count(value: Any) -> int | None:
    """A whole number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    whole = value == value and 0 <= value <= LARGEST_COUNT and int(value) == value
    return int(value) if whole else None


def shares(value: Any) -> list[float] | None:
    """Numbers from 0 to 1, one for each option; one that is not known counts as none."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_OPTIONS:
        return None
    # What it should be is taken as it is: this is most of the work of reading a long stream.
    fit = (part if type(part) is float and 0.0 <= part <= 1.0 else number(part, 0.0, 1.0) for part in value)
    return [round(part or 0.0, 4) for part in fit]


def words(value: Any, length: int = 200) -> str:
    """Any value as one line of text in which every character shows; what does not is written as its code.

    Control characters, lone surrogates and marks that turn the direction of the text are such.

    Examples
    --------
    >>> words("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if not isinstance(value, str):
        try:
            value = json.dumps(value)
        except (ValueError, RecursionError):
            return "?"
    cut = value[: length + 1]
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in cut[:length]
    )
    return shown + ("…" if len(cut) > length else "")
