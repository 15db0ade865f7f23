"""What the samples of a stream look like: told by a policy, or by the first samples."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from skillstream.errors import InputError
from skillstream.policies.gaussian import TabularGaussianModel
from skillstream.policies.neural import GaussianActions, NeuralModel
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.tabular import TabularModel

Actions = Literal["one", "several", "numbers"]

# Until a policy or a flag says how many there are: a line that claims more is refused, not believed.
MOST_STATES, MOST_ACTIONS, MOST_NUMBERS = 10_000, 1000, 10_000
_FAR = 1e15


@dataclass(frozen=True)
class Space:
    """The form of a sample, and how far its whole numbers go."""

    observation_size: int | None
    """Numbers in an observation; None: it is a state, one whole number."""
    num_states: int
    """States, where there are any: those below this."""
    actions: Actions | None
    """one: a whole number; several: a list of them; numbers: a list of any; None: none was seen yet."""
    action_limits: tuple[int, ...]
    """Of each whole number of an action: it is below this. Of `numbers`: as many zeros."""
    far: float = _FAR
    """Beyond this a number is a mistake: what a network makes of it is not finite."""

    @staticmethod
    def of(policy: OptionPolicy) -> "Space":
        """What a policy can learn from."""
        model = policy.model
        if isinstance(model, TabularModel):
            return Space(None, model.num_states, "one", (model.num_actions,))
        if isinstance(model, TabularGaussianModel):
            states, _, size = model.mean.shape
            return Space(None, states, "numbers", (0,) * size)
        if not isinstance(model, NeuralModel):
            raise InputError(f"policy: {policy!r} is of a class of your own; use OnlineLearner itself")
        size, choices = model.shape.observation_size, model.shape.num_actions
        if isinstance(choices, GaussianActions):
            return Space(size, 0, "numbers", (0,) * choices.size, _far(model))
        if isinstance(choices, int):
            return Space(size, 0, "one", (choices,), _far(model))
        return Space(size, 0, "several", tuple(choices), _far(model))

    def limited(self, states: int | None, actions: int | None) -> "Space":
        """The same form with the numbers of states and actions that a user gives."""
        limits = self.action_limits
        if actions is not None and self.actions != "numbers":
            limits = (actions,) * len(limits)
        return replace(self, num_states=self.num_states if states is None else states, action_limits=limits)

    def empty(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns of zeros for so many samples."""
        shape = () if self.observation_size is None else (self.observation_size,)
        seen = np.zeros((steps, *shape), np.int64 if self.observation_size is None else np.float64)
        width = () if self.actions in ("one", None) else (len(self.action_limits),)
        return seen, np.zeros((steps, *width), np.float64 if self.actions == "numbers" else np.int64)


def _far(model: NeuralModel) -> float:
    """What is nearer than this the model takes, whatever the coordinate."""
    parts = [part for part in (model.observations, model.actions) if part is not None]
    return min(float(_FAR * np.min(part.scale) - np.max(np.abs(part.shift))) for part in parts)
