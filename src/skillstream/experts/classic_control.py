"""Gymnasium's classic control worlds, many at once: the same physics as arrays, for fast Q-learning.

Each world is a set of pure functions of the states `[n, D]`; the tests hold them against Gymnasium's step
by step.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float, Int


class BatchWorld(Protocol):
    """What Q-learning needs of a world."""

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        ...

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is cut off."""
        ...

    def start(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n D"]:
        """States where episodes begin, as Gymnasium draws them."""
        ...

    def anywhere(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n D"]:
        """States from all over the space, to explore from."""
        ...

    def step(
        self, states: Float[np.ndarray, "n D"], actions: Int[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Next states, rewards, and where the episode has ended."""
        ...

    def observe(self, states: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n E"]:
        """What Gymnasium's environment shows of the states."""
        ...


def _uniform(rng: np.random.Generator, count: int, highest: list[float]) -> np.ndarray:
    return rng.uniform(-1, 1, (count, len(highest))) * highest


@dataclass(frozen=True)
class CartPoleWorld:
    """`CartPole-v1`: position, velocity, angle, angular velocity."""

    num_actions: int = 2
    time_limit: int = 2000

    def start(self, rng, count):
        """As Gymnasium draws them."""
        return _uniform(rng, count, [0.05] * 4)

    def anywhere(self, rng, count):
        """Within the limits, at moderate speeds."""
        return _uniform(rng, count, [2.0, 1.5, 0.18, 1.5])

    def step(self, states, actions):
        """Euler's method, as Gymnasium's."""
        x, speed, angle, turn = states.T
        force = np.where(actions == 1, 10.0, -10.0)
        cosine, sine = np.cos(angle), np.sin(angle)
        push = (force + 0.05 * turn**2 * sine) / 1.1
        turning = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        speeding = push - 0.05 * turning * cosine / 1.1
        x, angle = x + 0.02 * speed, angle + 0.02 * turn
        after = np.stack([x, speed + 0.02 * speeding, angle, turn + 0.02 * turning], 1)
        fallen = (np.abs(x) > 2.4) | (np.abs(angle) > 12 * 2 * np.pi / 360)
        return after, np.ones(len(states)), fallen

    def observe(self, states):
        """The states themselves."""
        return states.astype(np.float32)


@dataclass(frozen=True)
class PendulumWorld:
    """`Pendulum-v1` with levels of torque: angle, angular velocity."""

    torques: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
    time_limit: int = 200

    @property
    def num_actions(self) -> int:
        """One a level."""
        return len(self.torques)

    def start(self, rng, count):
        """As Gymnasium draws them."""
        return _uniform(rng, count, [np.pi, 1.0])

    def anywhere(self, rng, count):
        """At any angle and speed."""
        return _uniform(rng, count, [np.pi, 8.0])

    def step(self, states, actions):
        """As Gymnasium's; it never ends by itself."""
        angle, speed = states.T
        torque = np.array(self.torques)[actions]
        folded = (angle + np.pi) % (2 * np.pi) - np.pi
        cost = folded**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = np.clip(speed + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8, 8)
        return np.stack([angle + speed * 0.05, speed], 1), -cost, np.zeros(len(states), bool)

    def observe(self, states):
        """Cosine and sine of the angle, and the speed."""
        angle, speed = states.T
        return np.stack([np.cos(angle), np.sin(angle), speed], 1).astype(np.float32)


@dataclass(frozen=True)
class MountainCarWorld:
    """`MountainCar-v0`: position, velocity."""

    num_actions: int = 3
    time_limit: int = 200

    def start(self, rng, count):
        """As Gymnasium draws them."""
        return np.stack([rng.uniform(-0.6, -0.4, count), np.zeros(count)], 1)

    def anywhere(self, rng, count):
        """Anywhere short of the goal, at any speed."""
        return np.stack([rng.uniform(-1.2, 0.5, count), rng.uniform(-0.07, 0.07, count)], 1)

    def step(self, states, actions):
        """As Gymnasium's: -1 a step until the goal is reached."""
        position, speed = states.T
        speed = np.clip(speed + (actions - 1) * 0.001 - 0.0025 * np.cos(3 * position), -0.07, 0.07)
        position = np.clip(position + speed, -1.2, 0.6)
        speed = np.where((position == -1.2) & (speed < 0), 0.0, speed)
        return np.stack([position, speed], 1), -np.ones(len(states)), (position >= 0.5) & (speed >= 0)

    def observe(self, states):
        """The states themselves."""
        return states.astype(np.float32)


@dataclass(frozen=True)
class AcrobotWorld:
    """`Acrobot-v1`: two angles, two angular velocities."""

    num_actions: int = 3
    time_limit: int = 500
    limits: tuple[float, float] = (4 * np.pi, 9 * np.pi)

    def start(self, rng, count):
        """As Gymnasium draws them."""
        return _uniform(rng, count, [0.1] * 4)

    def anywhere(self, rng, count):
        """At any angles, at moderate speeds."""
        return _uniform(rng, count, [np.pi, np.pi, 5.0, 8.0])

    def step(self, states, actions):
        """One step of Runge and Kutta, as Gymnasium's: -1 until the tip is high enough."""
        torque, dt = actions - 1.0, 0.2
        k1 = _acrobot_change(states, torque)
        k2 = _acrobot_change(states + dt / 2 * k1, torque)
        k3 = _acrobot_change(states + dt / 2 * k2, torque)
        k4 = _acrobot_change(states + dt * k3, torque)
        after = states + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        after[:, :2] = (after[:, :2] + np.pi) % (2 * np.pi) - np.pi
        after[:, 2:] = np.clip(after[:, 2:], np.negative(self.limits), self.limits)
        high = -np.cos(after[:, 0]) - np.cos(after[:, 0] + after[:, 1]) > 1
        return after, np.where(high, 0.0, -1.0), high

    def observe(self, states):
        """Cosines and sines of the angles, and the speeds."""
        first, second, *speeds = states.T
        angles = [np.cos(first), np.sin(first), np.cos(second), np.sin(second)]
        return np.stack([*angles, *speeds], 1).astype(np.float32)


def _acrobot_change(states: Float[np.ndarray, "n 4"], torque: Float[np.ndarray, "n"]) -> np.ndarray:
    """How fast the states change: the equations of Sutton and Barto's book with unit links."""
    first, second, turn, bend = states.T
    cosine, sine = np.cos(second), np.sin(second)
    d1 = 0.25 + 1.25 + cosine + 2
    d2 = 0.25 + 0.5 * cosine + 1
    pull = 0.5 * 9.8 * np.cos(first + second - np.pi / 2)
    whole = -0.5 * bend**2 * sine - bend * turn * sine + 1.5 * 9.8 * np.cos(first - np.pi / 2) + pull
    bending = (torque + d2 / d1 * whole - 0.5 * turn**2 * sine - pull) / (1.25 - d2**2 / d1)
    return np.stack([turn, bend, -(d2 * bending + whole) / d1, bending], 1)
