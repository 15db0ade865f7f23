"""Gymnasium's own heuristic for the lunar lander, for many landers at once."""

import numpy as np
from jaxtyping import Float, Int

_IDLE, _TURN_LEFT, _MAIN, _TURN_RIGHT = range(4)


def land(observations: Float[np.ndarray, "n 8"]) -> Int[np.ndarray, "n"]:
    """What `gymnasium.envs.box2d.lunar_lander.heuristic` would do, without Box2D."""
    x, height, drift, fall, angle, turn, left, right = np.asarray(observations).T
    wanted = np.clip(0.5 * x + drift, -0.4, 0.4)
    landed = (left > 0) | (right > 0)
    turning = np.where(landed, 0.0, (wanted - angle) * 0.5 - turn)
    hovering = np.where(landed, -0.5 * fall, (0.55 * np.abs(x) - height) * 0.5 - 0.5 * fall)
    actions = np.where(turning < -0.05, _TURN_RIGHT, np.where(turning > 0.05, _TURN_LEFT, _IDLE))
    return np.where((hovering > np.abs(turning)) & (hovering > 0.05), _MAIN, actions)
