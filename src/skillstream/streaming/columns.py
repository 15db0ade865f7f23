"""Samples that are columns already: a live world with an expert in it, and data sets at rest."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.spaces import flatten_actions, flatten_observations
from skillstream.errors import InputError
from skillstream.streaming.lines import SHOWN, Batch, Reject
from skillstream.streaming.spaces import Space

_FIRST_STEPS = 1000


class World:
    """A live world and an expert that acts in it.

    Every episode begins with a seed of its own, so a restart goes back to the start of the episode that
    was running and plays it again up to where it was.

    Parameters
    ----------
    text
        `NAME?expert=NAME_OR_POLICY&seed=0&SETTING=VALUE...`: a task, the expert (the task's own by default),
        and settings of the task.
    """

    def __init__(self, text: str):
        from skillstream.acting.evaluation import actor_for
        from skillstream.environments.catalogue import make_env

        name, _, query = text.partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        expert, seed = given.pop("expert", name), given.pop("seed", "0")
        if not seed.isdecimal():
            raise InputError(f"source: seed: must be a whole number from 0, found {seed!r}")
        self.world = make_env(name, **{key: _read(value) for key, value in given.items()})
        self._actor = actor_for(_expert(expert, int(seed)), int(seed), self.world)
        self._seed = int(seed)
        self.space: Space | None = None
        self.notes: list[str] = []
        self._begin(0)

    def first(self) -> Demonstrations:
        """Some steps of the first episode, which will be played again."""
        batch = self._play(_FIRST_STEPS)
        self._begin(0)
        return Demonstrations(batch.observations, batch.actions)

    def take(self, limit: int) -> Batch:
        """The next steps, of one episode."""
        number = self._taken
        batch = self._play(limit)
        self._taken += len(batch)
        return batch if self.space is None else sift(batch, self.space, number)

    def position(self) -> dict[str, Any]:
        """Episode and step."""
        return {"episode": self._episode, "step": self._step, "taken": self._taken}

    def unread(self) -> np.ndarray:
        """Nothing: an episode can be played again."""
        return np.zeros(0, np.uint8)

    def go_to(self, position: dict[str, Any], unread: np.ndarray) -> None:
        """Play the episode that was running up to where it was."""
        self._begin(position["episode"])
        self._taken = position["taken"]
        while self._step < position["step"]:
            if self._ended or not len(self._play(position["step"] - self._step)):
                raise InputError(
                    "source: the world does not play an episode twice alike; begin with a new --state"
                )

    def wait(self, seconds: float) -> None:
        """A world is always ready."""

    def close(self) -> None:
        """Close the world."""
        self.world.close()

    def _begin(self, episode: int) -> None:
        seed = int(np.random.SeedSequence([self._seed, episode]).generate_state(1)[0])
        self._observation, _ = self.world.reset(seed=seed)
        if hasattr(self._actor, "reset"):
            self._actor.reset(seed)
        self._episode, self._step, self._ended, self._state = episode, 0, False, None
        self._taken = getattr(self, "_taken", 0)

    def _play(self, limit: int) -> Batch:
        """At most so many steps of this episode, or of the next where this one has ended."""
        if self._ended:
            self._begin(self._episode + 1)
        seen, done, first = [], [], self._step
        while len(seen) < limit and not self._ended:
            start = np.array([self._step == 0])
            actions, self._state = self._actor.predict(
                _batch_of_one(self._observation), self._state, start, False
            )
            seen.append(self._observation)
            done.append(actions[0])
            self._observation, _, terminated, truncated, _ = self.world.step(actions[0])
            self._step += 1
            self._ended = bool(terminated or truncated)
        starts = np.zeros(len(seen), bool)
        starts[:1] = first == 0
        return Batch(
            flatten_observations(self.world.observation_space, seen),
            flatten_actions(self.world.action_space, done),
            np.ones(len(seen), bool),
            starts,
        )


class AtRest:
    """A data set that is all there, one episode after another; a step that is in no table stops it.

    Parameters
    ----------
    path
        What `stream_episodes` takes.
    """

    def __init__(self, path: str):
        self._path = path
        self.space: Space | None = None
        self.notes: list[str] = []
        self._episodes = self._open()
        self._current = next(self._episodes, None)
        if self._current is None:
            raise InputError(f"demonstrations: {path} holds no episode")
        self._episode, self._step, self._taken = 0, 0, 0

    def first(self) -> Demonstrations | None:
        """The first episode."""
        return self._current

    def take(self, limit: int) -> Batch | None:
        """The next steps, of one episode."""
        while self._current is not None and self._step >= self._current.num_steps:
            self._current = next(self._episodes, None)
            self._episode, self._step = self._episode + 1, 0
        if self._current is None:
            return None
        rows = slice(self._step, self._step + limit)
        demos = self._current
        recorded = np.ones(demos.num_steps, bool) if demos.action_mask is None else demos.action_mask
        batch = Batch(demos.observations, demos.actions, recorded, demos.episode_starts)[rows]
        rejects = () if self.space is None else sift(batch, self.space, self._taken).rejects
        if rejects:
            batch = batch[: rejects[0].line - self._taken - 1]
            if not len(batch):
                raise InputError(
                    f"episode {self._episode} of {self._path}: observations: step {self._step} holds "
                    f"{rejects[0].text} ({rejects[0].reason}; see --states)"
                )
        self._step += len(batch)
        self._taken += len(batch)
        return batch

    def position(self) -> dict[str, Any]:
        """Steps taken."""
        return {"taken": self._taken}

    def unread(self) -> np.ndarray:
        """Nothing: a file can be read again."""
        return np.zeros(0, np.uint8)

    def go_to(self, position: dict[str, Any], unread: np.ndarray) -> None:
        """Pass over what was taken."""
        while self._current is not None and self._taken + self._current.num_steps <= position["taken"]:
            self._taken += self._current.num_steps
            self._current = next(self._episodes, None)
            self._episode += 1
        if self._current is None and self._taken != position["taken"]:
            raise InputError(
                f"source: {self._path} holds fewer steps than were taken of it; it is another file"
            )
        self._step = position["taken"] - self._taken
        self._taken = position["taken"]

    def wait(self, seconds: float) -> None:
        """It is always ready."""

    def close(self) -> None:
        """Nothing is open between two episodes."""

    def _open(self) -> Iterator[Demonstrations]:
        from skillstream.demonstrations.formats import stream_episodes

        return stream_episodes(self._path)


def sift(batch: Batch, space: Space, number: int) -> Batch:
    """The samples that are in the space; the others as rejects. `number` samples came before them."""
    if space.observation_size is None:
        good = _in_limits(batch.observations, (space.num_states,))
    else:
        good = _are_near(batch.observations, space)
    fits = (
        _are_near(batch.actions, space)
        if space.actions == "numbers"
        else _in_limits(batch.actions, space.action_limits)
    )
    good &= fits | ~batch.recorded
    if good.all():
        return batch
    rejects = tuple(
        Reject(
            number + int(row) + 1, "out of space", f"{batch.observations[row]}, {batch.actions[row]}"[:SHOWN]
        )
        for row in np.flatnonzero(~good)
    )
    return replace(batch[good], rejects=rejects)


def _in_limits(column: np.ndarray, limits: tuple[int, ...]) -> np.ndarray:
    rows = column.reshape(len(column), -1)
    return np.all((rows >= 0) & (rows < np.array(limits)), axis=1)


def _are_near(column: np.ndarray, space: Space) -> np.ndarray:
    return np.all(np.abs(column) <= space.far, axis=1)


def _expert(name: str, seed: int) -> Any:
    """An expert by name, or a policy in a file or a run."""
    from skillstream.experts.catalogue import make_expert
    from skillstream.policies.policy import OptionPolicy
    from skillstream.runs import policy_file

    path = Path(name)
    return OptionPolicy.load(policy_file(path)) if path.exists() else make_expert(name, seed)


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: _batch_of_one(part) for key, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]
