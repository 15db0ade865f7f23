"""Online learning of policies that need samples: all of them, or a fixed number that stand for all."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from skillstream.errors import FileFormatError, InputError
from skillstream.learning.ascent import adamax, rows_for, start
from skillstream.learning.config import OnlineConfig
from skillstream.learning.engine import Piece, Report
from skillstream.learning.reservoir import thin
from skillstream.learning.sample_stream import (
    CHUNK,
    Fixed,
    Samples,
    SampleState,
    Store,
    advance,
    compiled_for,
    deepen,
    new_state,
    rescale,
    widen,
    with_pending,
)
from skillstream.learning.saved_state import check_range, check_state
from skillstream.policies.chains import padded_size
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.protocol import ConditionalModel
from skillstream.policies.storage import fill, named_arrays, pack, unpack

_FIRST_CAPACITY = 1024


class SampleEngine:
    """A smoother, a store of distinct samples with their weights, and the rows they have in it."""

    def __init__(
        self, policy: OptionPolicy, config: OnlineConfig, optimiser: optax.GradientTransformation | None
    ):
        assert isinstance(policy.model, ConditionalModel)
        if hasattr(policy.model, "maximise") and config.penalties:
            raise InputError(
                f"penalties: {policy!r} learns in closed form, which has none; use OptionPolicy.neural"
            )
        self.config, self.start, self.model = config, policy, policy.model
        self.optimiser = optimiser or adamax(config.learning_rate)
        self.learnt: OptionPolicy | None = None
        self.state: SampleState | None = None  # made for the first sample, which tells its shape
        self.size = config.window + config.window % 2
        self._forget_rows()

    @property
    def chi(self):
        """P(o_t | data to t)."""
        return self.start.initial if self.state is None else self.state.window.chi

    @property
    def totals(self):
        """The newest sample's weight, the log-likelihood, the certificate."""
        return np.zeros(3) if self.state is None else self.state.totals

    @property
    def window(self) -> int:
        """Samples kept pending at the most, as it stands."""
        return self.size if self.state is None else self.state.queue.row.size

    def check(self, observations: np.ndarray, actions: np.ndarray, mask: np.ndarray | None) -> None:
        """Raise an `InputError` for samples the policy cannot be asked about, or of another shape."""
        self.model.check_steps(observations, actions, mask)
        if self.state is None:
            return
        for name, new, kept in zip(
            ("observations", "actions"), (observations, actions), self.state.store[:2], strict=True
        ):
            if new.shape[1:] != kept.shape[1:] or _column(new).dtype != kept.dtype:
                raise InputError(
                    f"{name}: the stream so far has rows {kept.dtype} {list(kept.shape[1:])}, found "
                    f"{new.dtype} {list(new.shape[1:])}"
                )

    def advance(self, piece: Piece, time: int, frozen: bool) -> Report:
        """Take in at most a chunk of samples."""
        piece = piece[:CHUNK]
        samples = self._samples(piece, time, frozen)
        if self.state is None:
            self._allocate(samples, _FIRST_CAPACITY, self.size)
        rows, new_states = self._find_rows(samples, len(piece))
        samples = samples._replace(row=_padded(rows), new_state=_padded(new_states))
        assert self.state is not None
        with jax.enable_x64(True):
            count, tolerance = np.array(len(rows), np.int32), np.array(self._tolerance(), np.float64)
            seed = np.array(self.config.seed)
            given = (self.model, self.start.initial, samples, count, tolerance, seed)
            fixed = Fixed(*given, self.optimiser, compiled_for(self.config))
            self.state, report, must_grow = advance(fixed, self.state)
            self.learnt = None
            if must_grow:
                self.state = widen(self.state)
        return Report(*np.asarray(report).tolist())

    def rescale(self, factor: float, live: bool) -> None:
        """Multiply all weights so far."""
        if self.state is not None:
            with jax.enable_x64(True):
                self.state = rescale(self.state, np.array(factor))

    def policy(self, live: bool) -> OptionPolicy:
        """The policy learnt so far."""
        if self.state is None or not live:
            return self.start
        if self.learnt is None:
            _, rest = eqx.partition(self.model, self.model.trainable())
            model = eqx.combine(jax.tree.map(np.array, self.state.moving.parameters), rest)
            self.learnt = OptionPolicy(model, self.start.initial)
        return self.learnt

    def statistics(self, scale: float) -> dict[str, np.ndarray]:
        """Distinct samples and how much each counts for every option."""
        if self.state is None:
            raise InputError("statistics: there are none before the first sample")
        used, store = int(self.state.used), self.state.store
        with jax.enable_x64(True):
            sums = np.asarray(with_pending(self.state))[:used] / max(scale, np.finfo(float).tiny)
        switches, stay, stop, options = np.split(sums, 4, axis=1)
        return {
            "observations": np.asarray(store.observations)[:used],
            "actions": np.asarray(store.actions)[:used],
            "selection": switches,
            "termination": np.stack([stay, stop], -1),
            "action": options,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The state; the rows' keys are made from it again."""
        return {f"state.{name}": np.asarray(array) for name, array in named_arrays(self.state).items()}

    def header(self) -> dict[str, Any]:
        """The sizes of the state."""
        if self.state is None:
            return {"capacity": 0}
        columns = {
            name: {"shape": list(column.shape[1:]), "dtype": str(column.dtype)}
            for name, column in zip(("observations", "actions"), self.state.store[:2], strict=True)
        }
        return {"capacity": len(self.state.store.states), "window": self.window, **columns}

    def expected(self, header: dict[str, Any]) -> set[str]:
        """The names of `arrays`."""
        if not header["capacity"]:
            return set()
        return {f"state.{name}" for name in named_arrays(self._template(header))}

    def resume(self, where: str, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        """Go on from saved arrays."""
        if not header["capacity"]:
            return
        state = {name.removeprefix("state."): x for name, x in arrays.items()}
        with jax.enable_x64(True):
            filled = fill(where, self._template(header), state)
            self._check_saved(where, filled)
            self.state = jax.tree.map(jnp.asarray, filled)
        unpack(where, *pack(self.policy(live=True)), self.model)  # what was learnt, checked like any policy
        self._remember_rows()

    def _check_saved(self, where: str, state: SampleState) -> None:
        """Refuse a state that no stream leads to."""
        used, capacity, size = int(state.used), len(state.store.states), state.queue.row.size
        check_state(where, state, size)
        if not 0 < used <= capacity or capacity != rows_for(capacity):
            raise FileFormatError(f"{where}: damaged: {used} of {capacity} rows are in use")
        check_range(where, "queue.row", state.queue.row[: int(state.window.filled)], used)
        seen, done = (np.asarray(column)[:used] for column in state.store[:2])
        self.model.check_steps(seen, done, None)

    def _template(self, header: dict[str, Any]) -> SampleState:
        """The shapes of a state of these sizes, none of it allocated."""
        columns = {}
        for name in ("observations", "actions"):
            shape, dtype = header[name]["shape"], header[name]["dtype"]
            if dtype not in ("int64", "float64"):
                raise InputError(f"{name}: are of the type {dtype}")
            columns[name] = jax.ShapeDtypeStruct((CHUNK, *shape), dtype)
        example = Samples(**columns, **dict.fromkeys(Samples._fields[2:]))  # pyright: ignore
        optimiser_state = start(self.model, self.optimiser)

        def build():
            return new_state(
                self.model, optimiser_state, example, int(header["capacity"]), int(header["window"])
            )

        with jax.enable_x64(True):
            return jax.eval_shape(build)

    def _allocate(self, example: Samples, capacity: int, window: int) -> None:
        with jax.enable_x64(True):
            self.state = new_state(self.model, start(self.model, self.optimiser), example, capacity, window)

    def _samples(self, piece: Piece, time: int, frozen: bool) -> Samples:
        """The piece as the loop takes it, but for the rows."""
        config, now = self.config, np.arange(time + 1, time + 1 + len(piece))
        due = np.zeros(len(piece), bool)
        if config.every and not frozen:
            due = (now > config.min_samples) & (now % config.every == 0)
        columns = (_column(piece.observations), _column(piece.actions))
        row = np.zeros(len(piece), np.int32)
        rest = (piece.weights, piece.recorded, piece.starts, row > 0, due, now)
        return Samples(*(_padded(column) for column in (*columns, row, *rest)))

    def _find_rows(self, samples: Samples, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The row of each sample, distinct ones in new rows, for as many samples as there is room.

        Where the first one does not fit, room is made.
        """
        assert self.state is not None
        rows, new_states = np.zeros(count, np.int32), np.zeros(count, bool)
        for i in range(count):
            state = samples.observations[i].tobytes()
            key = state + samples.actions[i].tobytes()
            row = self.rows.get(key)
            if row is None:
                if len(self.rows) >= self._limit():
                    if i:
                        return rows[:i], new_states[:i]
                    self._make_room()
                row = self.rows[key] = len(self.rows)
                new_states[i] = state not in self.states
                self.states.add(state)
            rows[i] = row
        return rows, new_states

    def _limit(self) -> int:
        """Rows that may be filled before room must be made."""
        assert self.state is not None
        if self.config.memory is None:
            return len(self.state.store.states)
        # Settled samples are thinned a good many at a time; pending ones come on top.
        return self.config.memory + self.window + max(self.config.memory // 4, CHUNK)

    def _make_room(self) -> None:
        """More rows, or fewer samples in them."""
        assert self.state is not None
        capacity = len(self.state.store.states)
        if self.config.memory is not None and self._limit() <= capacity:
            self._thin(self.config.memory)
            return
        wanted = 2 * capacity if self.config.memory is None else rows_for(padded_size(self._limit()))
        with jax.enable_x64(True):
            self.state = deepen(self.state, wanted)
        if self.config.memory is not None and len(self.rows) >= self._limit():
            self._thin(self.config.memory)

    def _thin(self, memory: int) -> None:
        """Keep so many settled samples, drawn without bias, and all that are pending."""
        assert self.state is not None
        used, store, queue = int(self.state.used), self.state.store, self.state.queue
        sums, states = np.asarray(store.sums), np.asarray(store.states)
        settled = np.ones(used, bool)
        pending = np.asarray(queue.row)[: int(self.state.window.filled)]
        settled[pending] = False
        options = self.start.num_options
        mass = np.where(settled, sums[:used, options : 3 * options].sum(1), 0.0)
        # Seeded by what there is, so that a stream cut and resumed draws the same.
        entropy = np.frombuffer(np.asarray(self.state.window.chi).tobytes(), np.uint32)
        rng = np.random.default_rng([self.config.seed, used, *entropy.tolist()])
        kept, factors = thin(mass, memory, rng)
        chosen = np.flatnonzero(kept | ~settled)
        factors = np.where(settled, factors, 1.0)[chosen]
        place = np.zeros(len(states), np.int32)
        place[chosen] = np.arange(len(chosen))

        def compact(column, factor=None):
            new = np.zeros_like(column)
            new[: len(chosen)] = column[chosen] if factor is None else (column[chosen].T * factor).T
            return jnp.asarray(new)

        with jax.enable_x64(True):
            self.state = self.state._replace(
                store=Store(
                    compact(np.asarray(store.observations)),
                    compact(np.asarray(store.actions)),
                    compact(sums, factors),
                    compact(states, factors),
                ),
                queue=queue._replace(row=jnp.asarray(place[np.asarray(queue.row)])),
                used=jnp.int32(len(chosen)),
            )
        self._remember_rows()

    def _tolerance(self) -> float:
        """A window that cannot double any more has to settle samples as they are."""
        return self.config.tolerance if 2 * self.window <= self.config.max_window else np.inf

    def _forget_rows(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.states: set[bytes] = set()

    def _remember_rows(self) -> None:
        """The rows' keys, from the store."""
        assert self.state is not None
        self._forget_rows()
        used = int(self.state.used)
        observations, actions = (np.asarray(column) for column in self.state.store[:2])
        for row in range(used):
            state = observations[row].tobytes()
            self.states.add(state)
            self.rows[state + actions[row].tobytes()] = row


def _column(column: np.ndarray) -> np.ndarray:
    """Integers and floats of one width each, so that the same sample has the same bytes."""
    return column.astype(np.int64 if column.dtype.kind == "i" else np.float64)


def _padded(column: np.ndarray) -> np.ndarray:
    return np.pad(column, [(0, CHUNK - len(column))] + [(0, 0)] * (column.ndim - 1))
