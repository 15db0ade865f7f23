"""The errors and warnings a user of skillstream can meet."""


class SkillstreamError(Exception):
    """Base of every error the library raises on purpose."""


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
