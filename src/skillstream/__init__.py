"""skillstream: learn options (skills) from expert demonstrations, in batch or from a stream.

Names are loaded when they are first used, so that importing the package costs almost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillstream.acting.agent import Agent
    from skillstream.acting.collection import collect
    from skillstream.acting.evaluation import Evaluation, evaluate
    from skillstream.demonstrations.dataset import Demonstrations
    from skillstream.demonstrations.formats import stream_episodes
    from skillstream.demonstrations.spaces import flatten_actions, flatten_observations
    from skillstream.environments.catalogue import make_env
    from skillstream.errors import (
        FileFormatError,
        ImpossibleDataError,
        ImpossibleSampleWarning,
        InputError,
        MissingExtraError,
        RefusedStepWarning,
        SkillstreamError,
    )
    from skillstream.experts.catalogue import make_expert
    from skillstream.learning.batch import clone, fit
    from skillstream.learning.config import BatchConfig, OnlineConfig, Penalties
    from skillstream.learning.online import OnlineLearner
    from skillstream.policies.distributions import Categorical, DiagonalGaussian, ProductOfCategoricals
    from skillstream.policies.policy import OptionPolicy
    from skillstream.policies.posteriors import decode, predict_actions, sample_paths, smooth
    from skillstream.policies.protocol import ConditionalModel, Conditionals
    from skillstream.policies.segmentation import Segmentation, segment
    from skillstream.policies.shape import GaussianActions

_HOMES = {
    "Agent": "acting.agent",
    "BatchConfig": "learning.config",
    "Categorical": "policies.distributions",
    "ConditionalModel": "policies.protocol",
    "Conditionals": "policies.protocol",
    "Demonstrations": "demonstrations.dataset",
    "DiagonalGaussian": "policies.distributions",
    "Evaluation": "acting.evaluation",
    "FileFormatError": "errors",
    "GaussianActions": "policies.shape",
    "ImpossibleDataError": "errors",
    "ImpossibleSampleWarning": "errors",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "OnlineConfig": "learning.config",
    "OnlineLearner": "learning.online",
    "OptionPolicy": "policies.policy",
    "Penalties": "learning.config",
    "ProductOfCategoricals": "policies.distributions",
    "RefusedStepWarning": "errors",
    "Segmentation": "policies.segmentation",
    "SkillstreamError": "errors",
    "clone": "learning.batch",
    "collect": "acting.collection",
    "decode": "policies.posteriors",
    "evaluate": "acting.evaluation",
    "fit": "learning.batch",
    "flatten_actions": "demonstrations.spaces",
    "flatten_observations": "demonstrations.spaces",
    "make_env": "environments.catalogue",
    "make_expert": "experts.catalogue",
    "predict_actions": "policies.posteriors",
    "sample_paths": "policies.posteriors",
    "segment": "policies.segmentation",
    "smooth": "policies.posteriors",
    "stream_episodes": "demonstrations.formats",
}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "BatchConfig",
    "Categorical",
    "ConditionalModel",
    "Conditionals",
    "Demonstrations",
    "DiagonalGaussian",
    "Evaluation",
    "FileFormatError",
    "GaussianActions",
    "ImpossibleDataError",
    "ImpossibleSampleWarning",
    "InputError",
    "MissingExtraError",
    "OnlineConfig",
    "OnlineLearner",
    "OptionPolicy",
    "Penalties",
    "ProductOfCategoricals",
    "RefusedStepWarning",
    "Segmentation",
    "SkillstreamError",
    "clone",
    "collect",
    "decode",
    "evaluate",
    "fit",
    "flatten_actions",
    "flatten_observations",
    "make_env",
    "make_expert",
    "predict_actions",
    "sample_paths",
    "segment",
    "smooth",
    "stream_episodes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skillstream' has no attribute {name!r}")
    value = getattr(import_module(f"skillstream.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
