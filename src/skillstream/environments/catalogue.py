"""Environments by name: our short names, any Gymnasium id, or an environment as it is."""

import difflib
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
from gymnasium.error import DependencyNotInstalled, Error, UnregisteredEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from skillstream.environments.discretising import DiscreteTorques
from skillstream.errors import InputError, MissingExtraError

Made = TypeVar("Made")
Source = str | gymnasium.Env | Callable[[], gymnasium.Env]

# What a short name stands for: a Gymnasium id, and settings that differ from its own.
SHORT_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "grid-world": ("skillstream/GridWorld-v0", {}),
    "hidden-goal": ("skillstream/HiddenGoal-v0", {}),
    "cart-pole": ("CartPole-v1", {"max_episode_steps": 2000}),
    "pendulum": ("Pendulum-v1", {}),
    "lunar-lander": ("LunarLander-v3", {}),
    "mountain-car": ("MountainCar-v0", {}),
    "acrobot": ("Acrobot-v1", {}),
}
_VECTORISED = ("CartPole-v0", "CartPole-v1")


def make_env(name: Source, render_mode: str | None = None, **settings: Any) -> gymnasium.Env[Any, Any]:
    """An environment.

    Parameters
    ----------
    name
        A short name (`grid-world`, `hidden-goal`, `cart-pole` with 2000 steps, `pendulum` with five
        torques, `lunar-lander`, `mountain-car`, `acrobot`), a Gymnasium id (`module:id` imports the
        module first), a function that makes an environment, or an environment, which is given back
        as it is.
    render_mode
        As Gymnasium's.
    settings
        For `gymnasium.make`, for example `max_episode_steps=500`, or `levels=7` for the pendulum.

    Examples
    --------
    >>> make_env("cart-pole").spec.max_episode_steps
    2000
    """
    if not isinstance(name, str):
        if render_mode is not None or settings:
            raise InputError("name: is an environment or makes one; give it its settings there")
        return name if isinstance(name, gymnasium.Env) else name()
    known, given = _resolve(name, settings)
    levels = given.pop("levels", 5) if name == "pendulum" else None
    world = _explained(known, lambda: gymnasium.make(known, render_mode=render_mode, **given))
    return world if levels is None else DiscreteTorques(world, levels)


def make_vector(
    name: Source, num_envs: int, render_mode: str | None = None, **settings: Any
) -> VectorEnv[Any, Any, Any]:
    """Several copies of an environment that step together.

    Autoreset is Gymnasium's `NEXT_STEP`: the step on which an episode ends gives its last
    observation, and the next call resets that copy, ignores its action, pays 0 and gives the new
    episode's first observation.

    Parameters
    ----------
    name, render_mode, settings
        As for `make`. An environment object can only be stepped alone, with `num_envs=1`.
    num_envs
        How many copies.

    Examples
    --------
    >>> make_vector("grid-world", 3).reset(seed=0)[0].tolist()
    [[1.0, 1.0, 3.0], [1.0, 1.0, 3.0], [1.0, 1.0, 3.0]]
    """
    if num_envs < 1:
        raise InputError(f"num_envs: must be at least 1, found {num_envs}")
    if isinstance(name, gymnasium.Env) and num_envs > 1:
        raise InputError(
            f"name: an environment object cannot be copied {num_envs} times; give its name, or num_envs=1"
        )
    if isinstance(name, str):
        known, given = _resolve(name, settings)
        if known in _VECTORISED and render_mode is None:
            return _explained(
                known, lambda: gymnasium.make_vec(known, num_envs, "vector_entry_point", **given)
            )
        settings = {"disable_env_checker": True, **settings}
    makers = [lambda: make_env(name, render_mode, **settings)] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def _resolve(name: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    limit = settings.get("max_episode_steps", 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"max_episode_steps: must be a whole number from 1, found {limit!r}")
    known, defaults = SHORT_NAMES.get(name, (name, {}))
    return known, {**defaults, **settings}


def _explained(name: str, make_it: Callable[[], Made]) -> Made:
    """What `make_it` makes, or an error that says what to do."""
    try:
        _load_box2d(name)
        return make_it()
    except DependencyNotInstalled as error:
        raise InputError(f"name: {name} needs a package that is not installed; {error}") from error
    except UnregisteredEnv as error:
        raise InputError(f"name: there is no environment {name!r}; {_suggestion(name, error)}") from error
    except TypeError as error:
        raise InputError(f"settings: {name} does not take them: {error}") from error
    except Error as error:
        raise InputError(f"name: {name!r} cannot be made: {error}") from error


def _suggestion(name: str, error: Exception) -> str:
    known = [*SHORT_NAMES, *gymnasium.registry]
    folded = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(folded[entry] for entry in near)}?"
    return f"short names are {', '.join(SHORT_NAMES)}, and Gymnasium says: {error}"


def _load_box2d(name: str) -> None:
    """Import Box2D with its warnings ignored: where they are errors, its import crashes the interpreter."""
    spec = gymnasium.registry.get(name)
    if spec is not None and "box2d" in str(spec.entry_point).lower():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                import Box2D  # noqa: F401
            except ImportError as error:
                raise MissingExtraError(
                    f"name: {name} needs Box2D, which is not installed; run `pip install skillstream[box2d]`"
                ) from error
