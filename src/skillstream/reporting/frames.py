"""An agent at work in a world that can draw itself: some frames, each with the option that runs."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from skillstream.errors import InputError, MissingExtraError
from skillstream.reporting.figures import colour, new_figure, write_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skillstream.policies.policy import OptionPolicy

_HEIGHT = 240  # pixels; larger frames are averaged down to at least this


@dataclass(frozen=True, eq=False)
class Frames:
    """Pictures of a world, and what went on in them."""

    images: Float[np.ndarray, "N H W 3"]  # from 0 to 1
    steps: Int[np.ndarray, "N"]
    options: Int[np.ndarray, "N"]  # the option that acts next


def record_frames(
    policy: "OptionPolicy", task: Any, count: int = 12, every: int = 8, seed: int = 0, **settings: Any
) -> Frames:
    """Let an agent act and keep frames of it.

    Parameters
    ----------
    policy
        What acts.
    task
        A short name, a Gymnasium id, or a function that makes an environment with `rgb_array`.
    count, every
        How many frames, and the steps from one to the next.
    seed
        Gives the same frames twice.
    settings
        For the environment.
    """
    from gymnasium.error import DependencyNotInstalled

    from skillstream.acting.agent import Agent
    from skillstream.environments.catalogue import make_env

    with warnings.catch_warnings(), _no_screen():
        warnings.simplefilter("ignore")  # Gymnasium's, of a render mode that is not there
        world = make_env(task, "rgb_array" if isinstance(task, str) else None, **settings)
        try:
            return _act(Agent(policy, seed, world), world, count, every, seed)
        except DependencyNotInstalled as error:
            raise MissingExtraError(
                f"frames: {task} cannot draw itself, run `pip install skillstream[render]`: {error}"
            ) from error
        finally:
            world.close()


def plot_frames(path: str | os.PathLike[str], frames: Frames, columns: int = 6) -> None:
    """Write frames as a PNG, framed in the colours of their options."""
    write_png(path, lambda: _figure(frames, columns))


def _act(agent: Any, world: Any, count: int, every: int, seed: int) -> Frames:
    images, steps, options = [], [], []
    observation, _ = world.reset(seed=seed)
    for step in range((count - 1) * every + 1):
        image = world.render() if step % every == 0 else None
        action = agent.act(observation)
        if step % every == 0:
            if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[-1] == 3):
                raise InputError(f"frames: {world} cannot draw itself as an RGB picture")
            images.append(_smaller(image))
            steps.append(step)
            options.append(agent.option)
        observation, _, terminated, truncated, _ = world.step(action)
        if terminated or truncated:
            break
    return Frames(np.stack(images), np.array(steps), np.array(options))


@contextmanager
def _no_screen() -> Iterator[None]:
    """Let pygame draw without looking for a screen, which it complains about where there is none."""
    name = "SDL_VIDEODRIVER"
    before = os.environ.get(name)
    os.environ[name] = before or "dummy"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


def _smaller(image: np.ndarray) -> np.ndarray:
    """An image averaged over squares, as numbers from 0 to 1."""
    side = max(1, image.shape[0] // _HEIGHT)
    height, width = image.shape[0] // side * side, image.shape[1] // side * side
    squares = image[:height, :width].reshape(height // side, side, width // side, side, 3)
    return squares.mean((1, 3)) / 255


def _figure(frames: Frames, columns: int) -> "Figure":
    count, height, width, _ = frames.images.shape
    columns = min(columns, count)
    lines = -(-count // columns)
    figure = new_figure(2.0 * columns, (2.0 * height / width + 0.3) * lines)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, image, step, option in zip(panels, frames.images, frames.steps, frames.options, strict=False):
        panel.imshow(image)
        panel.set_title(f"step {step}: option {option}", fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[:].set(visible=True, color=colour(option), linewidth=3)
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure
