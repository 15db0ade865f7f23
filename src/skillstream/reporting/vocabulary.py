"""What the numbers of the tasks we know mean, in words."""

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.environments.catalogue import SHORT_NAMES

_OBSERVATIONS = {
    "grid-world": ("row", "column", "psi"),
    "hidden-goal": ("row", "column"),
    "cart-pole": ("position", "velocity", "angle", "angular velocity"),
    "pendulum": ("cosine of angle", "sine of angle", "angular velocity"),
    "lunar-lander": (
        "across",
        "height",
        "speed across",
        "speed upwards",
        "angle",
        "angular velocity",
        "left leg down",
        "right leg down",
    ),
    "mountain-car": ("position", "velocity"),
    "acrobot": ("cosine 1", "sine 1", "cosine 2", "sine 2", "angular velocity 1", "angular velocity 2"),
}
_ACTIONS = {
    "grid-world": ("north", "south", "east", "west", "hover"),
    "hidden-goal": ("north", "south", "east", "west"),
    "cart-pole": ("push left", "push right"),
    "pendulum": ("torque -2", "torque -1", "no torque", "torque 1", "torque 2"),
    "lunar-lander": ("no engine", "left engine", "main engine", "right engine"),
    "mountain-car": ("push left", "no push", "push right"),
    "acrobot": ("torque -1", "no torque", "torque 1"),
}
_SHORT = {known: name for name, (known, _) in SHORT_NAMES.items()}


def short_name(task: str | None) -> str | None:
    """The short name of a task that may be given by its Gymnasium id; others stay as they are."""
    return None if task is None else _SHORT.get(task, task)


def observation_names(demos: Demonstrations, task: str | None) -> list[str]:
    """A name for each coordinate; numbers where the task, or what was made of it, is not known."""
    size = 1 if demos.observations.ndim == 1 else demos.observations.shape[1]
    known = _OBSERVATIONS.get(short_name(task) or "", ())
    if demos.observations.ndim == 2 and len(known) == size:
        return list(known)
    return [f"observation {column}" for column in range(size)]


def action_names(demos: Demonstrations, task: str | None) -> list[str]:
    """A name for each of finitely many actions, as far as the task has names for them."""
    known = _ACTIONS.get(short_name(task) or "", ())
    highest = int(demos.actions.max()) if demos.actions.dtype.kind == "i" else -1
    if highest >= len(known) or demos.actions.ndim == 2:
        return [f"action {action}" for action in np.arange(highest + 1)]
    return list(known)
