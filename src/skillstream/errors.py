"""The errors and warnings a user of skillstream can meet."""

import reprlib
from typing import Any

_LONGEST = 2000


class SkillstreamError(Exception):
    """Base of every error the library raises on purpose; a message that quotes a whole file is cut short."""

    def __init__(self, message: str = "", *details: object):
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
        super().__init__(message, *details)


class InputError(SkillstreamError, ValueError):
    """An argument is not what it should be; the message names it and says what to do."""


class ImpossibleDataError(InputError):
    """The demonstrations have probability zero under the policy."""


class FileFormatError(SkillstreamError, ValueError):
    """A file is damaged, of another kind, or of a version this library does not know."""


class MissingExtraError(SkillstreamError, ImportError):
    """A library that one of skillstream's extras brings is not installed; the message says which extra."""


class ImpossibleSampleWarning(UserWarning):
    """A streamed sample had probability zero and was learnt from as if its action were missing."""


class RefusedStepWarning(UserWarning):
    """An M-step gave numbers that are not finite and was refused; the last good parameters stay."""


def shown(value: Any) -> str:
    """`value` as a message quotes it: like `repr`, but short and shallow, whatever a file has put there."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a whole number with more digits than Python writes
        return f"a {type(value).__name__} too long to write"


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
