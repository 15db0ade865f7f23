"""Online learning of plain tables: settled samples are counted and forgotten."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from skillstream.errors import InputError
from skillstream.learning.config import OnlineConfig
from skillstream.learning.engine import Piece, Report
from skillstream.learning.saved_state import check_range, check_state
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
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.storage import fill, named_arrays, pack, unpack
from skillstream.policies.tabular import TabularModel, check_steps

# Room for a call's samples: few sizes, so that a chunk of a new length is not a new compilation.
_CAPACITIES = (1, 64, 4096, 65536)


class TableEngine:
    """A smoother and a store of expected counts, from which tables are made as they are needed."""

    def __init__(self, policy: OptionPolicy, config: OnlineConfig):
        if config.penalties:
            raise InputError(
                f"penalties: {policy!r} learns in closed form, which has none; use OptionPolicy.neural"
            )
        assert isinstance(policy.model, TabularModel)
        self.config, self.start, self.model = config, policy, policy.model
        self.num_states, self.num_actions = self.model.num_states, self.model.num_actions
        self.reference = policy  # what rows without data fall back to
        self.learnt: OptionPolicy | None = None
        if self.num_states * self.num_actions >= 2**31:
            raise InputError("policy: has 2 ** 31 or more pairs of a state and an action")
        with jax.enable_x64(True):
            self._go_on_from(self._new_state(config.window + config.window % 2))
            self.tables = _tables(policy)

    @property
    def chi(self):
        """P(o_t | data to t)."""
        return self.state.window.chi

    @property
    def totals(self):
        """The newest sample's weight, the log-likelihood, the certificate."""
        return self.state.totals

    @property
    def window(self) -> int:
        """Samples kept pending at the most, as it stands."""
        return self.state.samples.weight.size

    def check(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` unless these are states and actions of the tables."""
        check_steps(observations, actions, mask, self.num_states, self.num_actions)

    def advance(self, piece: Piece, time: int, frozen: bool) -> Report:
        """Take in samples until they are used up, tables must be made anew, or the window must grow."""
        every, until = self.config.every, _CAPACITIES[-1]
        if every > 1:
            until = min(until, every - time % every)
        piece = piece[:until]
        live_from = len(piece)
        if every == 1 and not frozen:
            live_from = max(self.config.min_samples + 1 - time, 0)
        tags, weights = self._tags(piece), piece.weights
        capacity = next(size for size in _CAPACITIES if size >= len(piece))
        if len(piece) < capacity:
            tags = np.pad(tags, ((0, 0), (0, capacity - len(piece))))
            weights = np.pad(weights, (0, capacity - len(piece)))
        limits = np.array([len(piece), live_from], np.int32)
        self.state, report = advance(self.state, self.tables, Chunk(tags, weights, limits, self.settings))
        taken, must_grow, impossible = np.asarray(report).tolist()
        if must_grow:
            self._go_on_from(grow(self.state))
        self.learnt = None
        now = time + taken
        if every > 1 and not frozen and now > self.config.min_samples and now % every == 0:
            self._refer_to(self._maximised())
        return Report(taken, impossible, 0, 0)

    def rescale(self, factor: float, live: bool) -> None:
        """Multiply all weights so far; rows that this drives to zero keep their values."""
        if live and self.config.every == 1:
            self._refer_to(self._maximised())
        with jax.enable_x64(True):
            self.state = rescale(self.state, np.float64(factor))
        self.learnt = None

    def policy(self, live: bool) -> OptionPolicy:
        """The policy learnt so far."""
        if not live:
            return self.start
        if self.config.every > 1:
            return self.reference
        if self.learnt is None:
            self.learnt = self._maximised()
        return self.learnt

    def statistics(self, scale: float) -> dict[str, np.ndarray]:
        """Expected counts of all samples so far, as tables."""
        return self._counts(scale).counts()

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, and the tables that rows without data fall back to."""
        reference, _ = pack(self.reference)
        arrays = {f"state.{name}": np.asarray(array) for name, array in named_arrays(self.state).items()}
        return arrays | {f"reference.{name}": array for name, array in reference.items()}

    def header(self) -> dict[str, Any]:
        """Nothing: the arrays say everything."""
        return {}

    def expected(self, header: dict[str, Any]) -> set[str]:
        """The names of `arrays`."""
        return set(self.arrays())

    def resume(self, where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        """Go on from saved arrays."""
        state = {name.removeprefix("state."): x for name, x in arrays.items() if name.startswith("state.")}
        size = state["samples.weight"].size
        with jax.enable_x64(True):
            template = jax.eval_shape(lambda: self._new_state(size))
            check_state(where, fill(where, template, state), size)
            cells = self.num_states * self.num_actions
            check_range(where, "samples.tags", state["samples.tags"][0], self.num_states)
            check_range(where, "samples.tags", state["samples.tags"][1], cells + 1)
            self._go_on_from(jax.tree.map(jnp.asarray, fill(where, template, state)))
        reference = {
            name.removeprefix("reference."): x for name, x in arrays.items() if name.startswith("reference.")
        }
        self._refer_to(OptionPolicy(*unpack(where, reference, {"model": "tabular"})))

    def _new_state(self, window: int) -> StreamState:
        model = self.model
        return new_stream(model.num_options, model.num_states, model.num_actions, window)

    def _tags(self, piece: Piece) -> np.ndarray:
        tags = np.empty((3, len(piece)), np.int32)
        tags[0] = piece.observations
        tags[1] = piece.observations * self.num_actions + piece.actions
        tags[1, ~piece.recorded] = self.num_states * self.num_actions
        tags[2] = piece.starts
        return tags

    def _maximised(self) -> OptionPolicy:
        scale = 1.0 if self.config.weighting == "uniform" else float(self.totals[0])
        return maximise(self._counts(scale), self.reference, self.config.pseudo_count)

    def _counts(self, scale: float) -> TableStatistics:
        with jax.enable_x64(True):
            counts = all_counts(self.state)
        scale = max(scale, np.finfo(float).tiny)
        base = np.asarray(counts.base) / scale
        selection, stop, stay, _ = (np.ascontiguousarray(part) for part in np.split(base, 4, axis=1))
        by_action = np.asarray(counts.cells).reshape(self.model.by_action.shape) / scale
        return TableStatistics(selection, stop, stay, by_action, np.asarray(counts.initial) / scale)

    def _go_on_from(self, state: StreamState) -> None:
        """A window that cannot double any more has to settle samples as they are."""
        self.state = state
        tolerance = self.config.tolerance if 2 * self.window <= self.config.max_window else np.inf
        self.settings = jnp.array([tolerance, self.config.pseudo_count])

    def _refer_to(self, policy: OptionPolicy) -> None:
        self.reference = policy
        with jax.enable_x64(True):
            self.tables = _tables(policy)


def _tables(policy: OptionPolicy) -> Tables:
    model = policy.model
    assert isinstance(model, TabularModel)
    base = np.concatenate([model.selection, model.stop, model.stay], axis=1)
    cells = model.by_action.reshape(-1, model.num_options)
    return Tables(jnp.asarray(base), jnp.asarray(cells), jnp.asarray(policy.initial))
