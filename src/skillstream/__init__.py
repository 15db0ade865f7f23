"""skillstream: learn options (skills) from expert demonstrations, in batch or from a stream.

Names are loaded when they are first used, so that importing the package costs almost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.errors import (
        FileFormatError,
        ImpossibleDataError,
        ImpossibleSampleWarning,
        InputError,
        SkillstreamError,
    )
    from skillstream.learning.batch import fit
    from skillstream.learning.config import BatchConfig, OnlineConfig
    from skillstream.learning.online import OnlineLearner
    from skillstream.policies.policy import OptionPolicy
    from skillstream.policies.posteriors import decode, predict_actions, sample_paths, smooth

_HOMES = {
    "BatchConfig": "learning.config",
    "Demonstrations": "demonstrations.dataset",
    "FileFormatError": "errors",
    "ImpossibleDataError": "errors",
    "ImpossibleSampleWarning": "errors",
    "InputError": "errors",
    "OnlineConfig": "learning.config",
    "OnlineLearner": "learning.online",
    "OptionPolicy": "policies.policy",
    "SkillstreamError": "errors",
    "decode": "policies.posteriors",
    "fit": "learning.batch",
    "predict_actions": "policies.posteriors",
    "sample_paths": "policies.posteriors",
    "smooth": "policies.posteriors",
}

__version__ = "0.1.0"
__all__ = [
    "BatchConfig",
    "Demonstrations",
    "FileFormatError",
    "ImpossibleDataError",
    "ImpossibleSampleWarning",
    "InputError",
    "OnlineConfig",
    "OnlineLearner",
    "OptionPolicy",
    "SkillstreamError",
    "decode",
    "fit",
    "predict_actions",
    "sample_paths",
    "smooth",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skillstream' has no attribute {name!r}")
    value = getattr(import_module(f"skillstream.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
