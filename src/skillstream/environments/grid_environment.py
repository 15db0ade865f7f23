"""Grid tasks as Gymnasium environments."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from skillstream.environments.drawing import draw_frame, draw_text
from skillstream.environments.rules import GridRules, TabularDynamics
from skillstream.errors import InputError

OBSERVATIONS = ("coordinates", "index")
_RENDER_MODES = ("rgb_array", "ansi")


class GridEnvironment(gymnasium.Env):
    """An environment that steps by `GridRules`; concrete tasks say which."""

    metadata = {"render_modes": list(_RENDER_MODES), "render_fps": 8}  # noqa: RUF012

    def __init__(self, rules: GridRules, observation: str, render_mode: str | None):
        if observation not in OBSERVATIONS:
            raise InputError(
                f"observation: {observation!r} is not known; choose one of {', '.join(OBSERVATIONS)}"
            )
        if render_mode not in (None, *_RENDER_MODES):
            raise InputError(
                f"render_mode: {render_mode!r} is not known; choose {' or '.join(_RENDER_MODES)}, or None"
            )
        self.rules, self.render_mode, self._as_index = rules, render_mode, observation == "index"
        self._moves, self._modes = _cumulated(rules.moves), _cumulated(rules.modes)
        self._first_modes = _cumulated(rules.first_modes)
        self._cell, self._mode = rules.layout.base, 0
        self.action_space = spaces.Discrete(rules.num_actions)
        self.observation_space = self._space()

    @property
    def dynamics(self) -> TabularDynamics:
        """The tables by which this environment steps, for value iteration."""
        return self.rules.dynamics

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """Coordinates `[..., D]` as the whole numbers that `observation="index"` gives, `[...]`."""
        return self.rules.encode(observations)

    def decode(self, states: np.ndarray) -> np.ndarray:
        """The reverse of `encode`."""
        return self.rules.decode(states)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Begin an episode at the base."""
        super().reset(seed=seed)
        self._cell = self.rules.layout.base
        self._mode = _draw(self._first_modes, self.np_random.random())
        return self._observation(), self._info()

    def step(self, action: Any):
        """Move, be paid, and let the mode change."""
        if not 0 <= action < self.rules.num_actions:
            raise InputError(f"action: must be from 0 to {self.rules.num_actions - 1}, found {action!r}")
        uniforms = self.np_random.random(2)
        self._cell = _draw(self._moves[self._cell, action], uniforms[0])
        reward = float(self.rules.rewards[self._mode, self._cell])
        self._mode = _draw(self._modes[self._mode, self._cell], uniforms[1])
        return self._observation(), reward, False, False, self._info()

    def render(self):
        """A picture, or a map in text."""
        if self.render_mode is None:
            return None
        draw = draw_text if self.render_mode == "ansi" else draw_frame
        return draw(self.rules, self._cell, self._mode)

    def _space(self) -> spaces.Space:
        if self._as_index:
            return spaces.Discrete(self.rules.num_observations)
        rows, columns = self.rules.layout.grid.shape
        highest = [rows - 1, columns - 1, self.rules.num_modes - 1][: 3 if self.rules.visible else 2]
        return spaces.Box(np.zeros(len(highest), np.float32), np.array(highest, np.float32))

    def _observation(self):
        number = self.rules.observe(self._cell, self._mode)
        return number if self._as_index else self.rules.decode(np.asarray(number))

    def _info(self) -> dict[str, Any]:
        return {"mode": self._mode}


def _cumulated(probabilities: np.ndarray) -> np.ndarray:
    sums = np.cumsum(probabilities, -1)
    return sums / sums[..., -1:]


def _draw(cumulated: np.ndarray, uniform: float) -> int:
    return int(np.searchsorted(cumulated, uniform, side="right"))
