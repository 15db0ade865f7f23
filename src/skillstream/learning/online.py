"""Online Baum-Welch (the paper's Algorithm 2), by settled windows."""

import os
import warnings
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import Float
from numpy.typing import ArrayLike

from skillstream.demonstrations.dataset import Demonstrations, check_column
from skillstream.errors import ImpossibleSampleWarning, InputError, RefusedStepWarning
from skillstream.learning import checkpoint
from skillstream.learning.config import OnlineConfig
from skillstream.learning.engine import Engine, Piece
from skillstream.learning.interrupts import Uninterrupted
from skillstream.learning.sample_engine import SampleEngine
from skillstream.learning.table_engine import TableEngine
from skillstream.learning.weights import Weights
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.tabular import TabularModel


class OnlineLearner:
    """Learns a hierarchy from a stream, sample by sample, in memory that does not grow.

    Tables are learnt from expected counts. Other policies are learnt from the samples themselves, the
    same ones merged; give `OnlineConfig(memory=...)` where they never repeat and the stream is long.

    Parameters
    ----------
    policy
        Where learning starts.
    config
        When to start updating, how to weigh samples, how exact to be, how to take gradient steps.
    optimiser
        Any Optax optimiser for policies learnt by gradient steps. Default: Adamax with
        `config.learning_rate`.

    Examples
    --------
    >>> learner = OnlineLearner(OptionPolicy.tabular(2, 3, 2), OnlineConfig(min_samples=4))
    >>> learner.partial_fit([0, 1, 2, 0], [1, 0, 1, 1]).partial_fit([1, 2], [0, 1]).num_samples
    6
    """

    def __init__(
        self,
        policy: OptionPolicy,
        config: OnlineConfig | None = None,
        optimiser: optax.GradientTransformation | None = None,
    ):
        self.config = OnlineConfig() if config is None else config
        if not isinstance(self.config, OnlineConfig):
            raise InputError(f"config: must be an OnlineConfig, found {type(config).__name__}")
        self._start = policy
        self._engine = _engine(policy, self.config, optimiser)
        self._num_samples = 0
        self._absorbed = 0
        self._block = 0
        self._num_impossible = 0
        self._weights = Weights(self.config)

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
        self._learn(self._check(observations, actions, episode_starts, action_mask), frozen=False)
        return self

    def absorb(self, demos: Demonstrations) -> "OnlineLearner":
        """Take demonstrations into the statistics without moving the policy.

        For a policy that was fitted to them in batch: the stream that follows goes on from what the
        fit knew, and does not forget it at the first M-step.

        Examples
        --------
        >>> demos = Demonstrations([0, 1, 2, 0], [1, 0, 1, 1])
        >>> learner = OnlineLearner(OptionPolicy.tabular(2, 3, 2)).absorb(demos)
        >>> learner.num_samples
        4
        """
        piece = self._check(demos.observations, demos.actions, demos.episode_starts, demos.action_mask)
        self._learn(piece, frozen=True)
        self._absorbed = self._num_samples
        return self

    def __repr__(self) -> str:
        return f"OnlineLearner({self.num_samples} samples, {self.policy!r})"

    @property
    def policy(self) -> OptionPolicy:
        """The policy learnt so far; the one given until `min_samples` were exceeded."""
        return self._engine.policy(self._live)

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """What the M-step is made from: expected counts as tables, or samples and their weights.

        Weights are such that the newest sample counts 1.
        """
        return self._engine.statistics(
            1.0 if self.config.weighting == "uniform" else float(self._engine.totals[0])
        )

    @property
    def option_probabilities(self) -> Float[np.ndarray, "K"]:
        """P(o_t | data to t): which option is running now. Before the first sample: mu."""
        return np.array(self._engine.chi) if self._num_samples else self._start.initial.copy()

    @property
    def certificate(self) -> float:
        """The most that any settled posterior could still have changed by."""
        return float(self._engine.totals[2])

    @property
    def log_likelihood(self) -> float:
        """The sum of log P(a_t | s_t, past) of each sample under the policy learnt before it."""
        return float(self._engine.totals[1])

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
        return self._engine.window

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the whole learner to a directory, whole or not at all."""
        checkpoint.save(directory, self.config, self._start, self._engine, self._numbers())

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str],
        like: OptionPolicy | None = None,
        optimiser: optax.GradientTransformation | None = None,
    ) -> "OnlineLearner":
        """A learner that goes on, to the last bit, as the saved one would have.

        `like` is needed for policies of a class of your own, as in `OptionPolicy.load`; `optimiser`,
        if the saved learner was given one.
        """
        parts = checkpoint.load(directory, like, lambda policy, config: _engine(policy, config, optimiser))
        return cls._of(*parts, optimiser)

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as arrays and a header of JSON, for a file that holds more than the learner."""
        return checkpoint.packed(self.config, self._start, self._engine, self._numbers())

    @classmethod
    def unpack(cls, where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> "OnlineLearner":
        """The learner that `pack` took apart, or a `FileFormatError` that begins with `where`."""
        parts = checkpoint.unpacked(
            where, arrays, header, None, lambda policy, config: _engine(policy, config, None)
        )
        return cls._of(*parts)

    def _numbers(self) -> dict[str, int | float]:
        return {
            "num_samples": self._num_samples,
            "num_impossible": self._num_impossible,
            "block": self._block,
            "log2_decay": self._weights.log2_decay,
            "absorbed": self._absorbed,
        }

    @classmethod
    def _of(
        cls,
        config: OnlineConfig,
        policy: OptionPolicy,
        engine: Engine,
        numbers: dict[str, Any],
        optimiser: optax.GradientTransformation | None = None,
    ) -> "OnlineLearner":
        learner = cls(policy, config, optimiser)
        learner._engine = engine
        learner._num_samples, learner._num_impossible = numbers["num_samples"], numbers["num_impossible"]
        learner._absorbed, learner._block = numbers["absorbed"], numbers["block"]
        learner._weights.log2_decay = numbers["log2_decay"]
        return learner

    def forget(self, samples: int) -> "OnlineLearner":
        """Let all samples so far count as no more than so many of the newest would.

        For an expert that is known to have changed: what comes next soon outweighs what was.

        Examples
        --------
        >>> learner = OnlineLearner(OptionPolicy.tabular(1, 1, 2), OnlineConfig(weights="uniform"))
        >>> learner.partial_fit([0] * 500, [0] * 500).forget(10).statistics["action"].sum().round(6)
        np.float64(10.0)
        """
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise InputError(f"samples: must be a whole number from 1, found {samples!r}")
        counted = float(self.statistics["termination"].sum()) if self._num_samples else 0.0
        if counted > samples:
            with Uninterrupted():
                self._engine.rescale(samples / counted, self._live)
        return self

    @property
    def _live(self) -> bool:
        """Whether an M-step has been made."""
        every, seen = self.config.every, self._num_samples
        return every > 0 and seen > self._absorbed and seen > self.config.min_samples

    def _check(self, observations, actions, episode_starts, action_mask) -> Piece:
        """The chunk as the engine takes it, or an error before anything has changed."""
        seen = check_column("observations", observations)
        count = len(seen)
        mask = None if action_mask is None else _flags("action_mask", action_mask, count)
        done = check_column("actions", actions, None if mask is None else ~mask)
        if done.ndim == 0 or len(done) != count:
            raise InputError(
                f"actions: must have one row a sample; observations has {count}, actions {len(done)}"
            )
        if count:
            self._engine.check(seen, done, mask)
        starts = np.zeros(count, bool)
        if episode_starts is not None:
            starts = _flags("episode_starts", episode_starts, count).copy()
        if not self._num_samples:
            starts[:1] = True
        recorded = np.ones(count, bool) if mask is None else mask
        return Piece(seen, done, recorded, starts, np.empty(count))

    def _learn(self, piece: Piece, frozen: bool) -> None:
        """Take in checked samples, in parts where the weights' scale must change between."""
        total, done, impossible, refused = len(piece), 0, 0, None
        weights, blocks, decays = self._weights.of(self._num_samples, total)
        piece = Piece(piece.observations, piece.actions, piece.recorded, piece.starts, weights)
        while done < total:
            if blocks[done] != self._block:
                self._move_to_block(int(blocks[done]))
            same = blocks[done:] == self._block
            end = total if same.all() else done + int(np.argmin(same))
            with Uninterrupted(), jax.enable_x64(True):
                report = self._engine.advance(piece[done:end], self._num_samples, frozen)
                if report.refused and refused is None:
                    refused = self._num_samples + report.first_refused
                done += report.taken
                impossible += report.impossible
                self._num_samples += report.taken
                self._num_impossible += report.impossible
                self._weights.log2_decay = float(decays[done - 1])
        _warn(impossible, refused, total)

    def _move_to_block(self, block: int) -> None:
        """Rescale all weights by a power of two."""
        with Uninterrupted():
            self._engine.rescale(Weights.factor(block - self._block), self._live)
            self._block = block


def _engine(
    policy: OptionPolicy, config: OnlineConfig, optimiser: optax.GradientTransformation | None
) -> Engine:
    if isinstance(policy.model, TabularModel):
        return TableEngine(policy, config)
    return SampleEngine(policy, config, optimiser)


def _warn(impossible: int, refused: int | None, total: int) -> None:
    if impossible:
        warnings.warn(
            f"{impossible} of {total} samples had probability 0 under the policy learnt so far; "
            "their actions said nothing about the option, but are learnt (a pseudo_count avoids this)",
            ImpossibleSampleWarning,
            stacklevel=4,
        )
    if refused is not None:
        warnings.warn(
            f"the M-step at sample {refused} (from 0) gave numbers that are not finite and was refused; the "
            "last good parameters stay. A smaller learning_rate or standardise= may help",
            RefusedStepWarning,
            stacklevel=4,
        )


def _flags(name: str, values: ArrayLike, count: int) -> np.ndarray:
    flags = np.asarray(values)
    if flags.shape != (count,) or flags.dtype != bool:
        raise InputError(
            f"{name}: must be {count} booleans, one a sample, found {flags.dtype} {list(flags.shape)}"
        )
    return flags
