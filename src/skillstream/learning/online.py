"""Online Baum-Welch (the paper's Algorithm 2), by settled windows."""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from skillstream.demonstrations.dataset import check_column
from skillstream.errors import ImpossibleSampleWarning, InputError
from skillstream.learning import checkpoint
from skillstream.learning.config import OnlineConfig
from skillstream.learning.stream import (
    Chunk,
    StreamState,
    Tables,
    advance,
    all_counts,
    grow,
    new_stream,
    rescale,
)
from skillstream.learning.tables import TableStatistics, maximise
from skillstream.learning.weights import Weights
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.tabular import check_steps

# Room for a call's samples: few sizes, so that a chunk of a new length is not a new compilation.
_CAPACITIES = (1, 64, 4096, 65536)


class OnlineLearner:
    """Learns a hierarchy from a stream, sample by sample, in memory that does not grow.

    Parameters
    ----------
    policy
        Where learning starts; a tabular policy.
    config
        When to start updating, how to weigh samples, how exact to be.

    Examples
    --------
    >>> learner = OnlineLearner(OptionPolicy.tabular(2, 3, 2), OnlineConfig(min_samples=4))
    >>> learner.partial_fit([0, 1, 2, 0], [1, 0, 1, 1]).partial_fit([1, 2], [0, 1]).num_samples
    6
    """

    def __init__(self, policy: OptionPolicy, config: OnlineConfig | None = None):
        self.config = config or OnlineConfig()
        self._start = policy
        self._reference = policy  # what rows without data fall back to
        self._num_samples = 0
        self._block = 0
        self._num_impossible = 0
        self._weights = Weights(self.config)
        self._num_states, self._num_actions = policy.model.num_states, policy.model.num_actions
        if self._num_states * self._num_actions >= 2**31:
            raise InputError("policy: has 2 ** 31 or more pairs of a state and an action")
        with jax.enable_x64(True):
            window = self.config.window + self.config.window % 2
            self._resume(new_stream(policy.num_options, self._num_states, self._num_actions, window))
            self._tables = _tables(policy)
        self._learnt: OptionPolicy | None = None

    def partial_fit(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        episode_starts: ArrayLike | None = None,
        action_mask: ArrayLike | None = None,
    ) -> "OnlineLearner":
        """Learn from the next samples of the stream; chunks of any size give the same answer.

        Parameters
        ----------
        observations, actions
            The next samples, in order; an empty chunk changes nothing.
        episode_starts
            Booleans, True where a sample is an episode's first. Default: the episode goes on. The
            stream's very first sample always starts an episode.
        action_mask
            Booleans, False where the action was not recorded.
        """
        tags = self._check(observations, actions, episode_starts, action_mask)
        before = self._num_impossible
        with jax.enable_x64(True):
            self._learn(tags)
        impossible = self._num_impossible - before
        if impossible:
            warnings.warn(
                f"{impossible} of {tags.shape[1]} samples had probability 0 under the policy learnt so far; "
                "their actions said nothing about the option, but are learnt (a pseudo_count avoids this)",
                ImpossibleSampleWarning,
                stacklevel=2,
            )
        return self

    @property
    def policy(self) -> OptionPolicy:
        """The policy learnt so far; the one given until `min_samples` were exceeded."""
        if not self._live:
            return self._start
        if self.config.update_every > 1:
            return self._reference
        if self._learnt is None:
            self._learnt = maximise(self._statistics(), self._reference, self.config.pseudo_count)
        return self._learnt

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """Expected counts of all samples so far, as tables; the newest sample counts 1."""
        return self._statistics().counts()

    @property
    def option_probabilities(self) -> Float[np.ndarray, "K"]:
        """P(o_t | data to t): which option is running now. Before the first sample: mu."""
        return np.asarray(self._state.window.chi) if self._num_samples else self._start.initial.copy()

    @property
    def certificate(self) -> float:
        """The most that any settled posterior could still have changed by."""
        return float(self._state.totals[2])

    @property
    def log_likelihood(self) -> float:
        """The sum of log P(a_t | s_t, past) of each sample under the policy learnt before it."""
        return float(self._state.totals[1])

    @property
    def num_samples(self) -> int:
        """Samples seen."""
        return self._num_samples

    @property
    def num_impossible(self) -> int:
        """Samples that had probability zero when they came."""
        return self._num_impossible

    @property
    def window(self) -> int:
        """Samples kept pending at the most, as it stands."""
        return self._state.samples.weight.size

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the whole learner to a directory, whole or not at all."""
        checkpoint.save(
            directory,
            self.config,
            {"start": self._start, "reference": self._reference},
            self._state,
            {
                "num_samples": self._num_samples,
                "num_impossible": self._num_impossible,
                "block": self._block,
                "log2_decay": self._weights.log2_decay,
            },
        )

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "OnlineLearner":
        """A learner that goes on, to the last bit, as the saved one would have."""
        config, policies, state, numbers = checkpoint.load(directory)
        learner = cls(policies["start"], config)
        with jax.enable_x64(True):
            learner._resume(state)
        learner._num_samples, learner._num_impossible = numbers["num_samples"], numbers["num_impossible"]
        learner._block = numbers["block"]
        learner._weights.log2_decay = numbers["log2_decay"]
        learner._refer_to(policies["reference"])
        return learner

    @property
    def _live(self) -> bool:
        """Whether an M-step has been made."""
        return self.config.update_every > 0 and self._num_samples > self.config.min_samples

    def _statistics(self) -> TableStatistics:
        with jax.enable_x64(True):
            counts = all_counts(self._state)
        model, newest = self._start.model, max(float(self._state.totals[0]), np.finfo(float).tiny)
        scale = 1.0 if self.config.weights == "uniform" else newest
        base = np.asarray(counts.base) / scale
        selection, stop, stay, _ = (np.ascontiguousarray(part) for part in np.split(base, 4, axis=1))
        by_action = np.asarray(counts.cells).reshape(model.by_action.shape) / scale
        return TableStatistics(selection, stop, stay, by_action, np.asarray(counts.initial) / scale)

    def _check(self, observations, actions, episode_starts, action_mask) -> np.ndarray:
        """The chunk's tags as the loop takes them, or an error before anything has changed."""
        states = check_column("observations", observations)
        mask = None if action_mask is None else _flags("action_mask", action_mask, len(states))
        chosen = check_column("actions", actions, None if mask is None else ~mask)
        if chosen.ndim == 0 or len(chosen) != len(states):
            raise InputError(
                f"actions: must have one row a sample; observations has {len(states)}, actions {len(chosen)}"
            )
        check_steps(states, chosen, mask, self._num_states, self._num_actions)
        tags = np.zeros((3, len(states)), np.int32)
        tags[0] = states
        tags[1] = states * self._num_actions + chosen
        if mask is not None:
            tags[1, ~mask] = self._num_states * self._num_actions
        if episode_starts is not None:
            tags[2] = _flags("episode_starts", episode_starts, len(states))
        if not self._num_samples:
            tags[2, :1] = 1
        return tags

    def _learn(self, tags: np.ndarray) -> None:
        """Take in a checked chunk, in pieces where tables or the weights' scale must change between."""
        total = tags.shape[1]
        weights, blocks, decays = self._weights.of(self._num_samples, total)
        done = 0
        while done < total:
            if blocks[done] != self._block:
                self._move_to_block(int(blocks[done]))
            end = done + min(self._uninterrupted(), _CAPACITIES[-1], total - done)
            same = blocks[done:end] == self._block
            end = end if same.all() else done + int(np.argmin(same))
            taken = self._advance(tags[:, done:end], weights[done:end])
            done += taken
            self._num_samples += taken
            self._learnt = None
            self._weights.log2_decay = float(decays[done - 1])
            if (
                self.config.update_every > 1
                and self._live
                and self._num_samples % self.config.update_every == 0
            ):
                self._refer_to(maximise(self._statistics(), self._reference, self.config.pseudo_count))

    def _uninterrupted(self) -> int:
        """How many samples may come before the tables are made anew outside the loop."""
        every = self.config.update_every
        return every - self._num_samples % every if every > 1 else _CAPACITIES[-1]

    def _advance(self, tags: np.ndarray, weights: np.ndarray) -> int:
        """Take in samples until they are used up or the window must grow, which is then done."""
        steps = len(weights)
        capacity = next(size for size in _CAPACITIES if size >= steps)
        if steps < capacity:
            tags = np.pad(tags, ((0, 0), (0, capacity - steps)))
            weights = np.pad(weights, (0, capacity - steps))
        live_from = steps
        if self.config.update_every == 1:
            live_from = max(self.config.min_samples + 1 - self._num_samples, 0)
        chunk = Chunk(tags, weights, np.array([steps, live_from], np.int32), self._settings)
        self._state, report = advance(self._state, self._tables, chunk)
        taken, must_grow, impossible = np.asarray(report).tolist()
        self._num_impossible += impossible
        if must_grow:
            self._resume(grow(self._state))
        return taken

    def _resume(self, state: StreamState) -> None:
        """Go on from `state`; a window that cannot double any more has to settle samples as they are."""
        self._state = state
        tolerance = self.config.tolerance if 2 * self.window <= self.config.max_window else np.inf
        self._settings = jnp.array([tolerance, self.config.pseudo_count])

    def _move_to_block(self, block: int) -> None:
        """Rescale all weights by a power of two; rows that this drives to zero keep their value."""
        if self._live and self.config.update_every == 1:
            self._refer_to(self.policy)
        self._state = rescale(self._state, np.float64(Weights.factor(block - self._block)))
        self._block = block

    def _refer_to(self, policy: OptionPolicy) -> None:
        self._reference = policy
        with jax.enable_x64(True):
            self._tables = _tables(policy)


def _tables(policy: OptionPolicy) -> Tables:
    model = policy.model
    base = np.concatenate([model.selection, model.stop, model.stay], axis=1)
    cells = model.by_action.reshape(-1, model.num_options)
    return Tables(jnp.asarray(base), jnp.asarray(cells), jnp.asarray(policy.initial))


def _flags(name: str, values: ArrayLike, count: int) -> np.ndarray:
    flags = np.asarray(values)
    if flags.shape != (count,) or flags.dtype != bool:
        raise InputError(
            f"{name}: must be {count} booleans, one a sample, found {flags.dtype} {list(flags.shape)}"
        )
    return flags
