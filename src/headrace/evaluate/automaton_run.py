"""Steps Arrow rows by an automaton: cells by one compiled loop, all else (outputs, evidence, states) by whole columns.

SimpleRun is chosen for a table of one unit without timers and registers. ProductRun is chosen for a table of several units whose product is
small enough to be one automaton: a loop of a hundred is a counter beside an automaton, and to step the two in Python takes ten times as
long as one automaton with a hundred times the states. Both promise the outputs, evidence and order of the stepping in lang.ecl. Rows come
sorted by key and offset, in any number of pieces; a key may continue in the next piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate.kernel import step_rows
from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped, slices
from headrace.lang.ecl import ACTION_SHIFT, CHANGES, TO_START, ProductAutomaton, SimpleTable, Table


@dataclass(frozen=True)
class CellArrays:
    """A simple table as numpy arrays by cell."""

    table: SimpleTable
    following: np.ndarray
    marks: np.ndarray

    @classmethod
    def from_table(cls, table: Table | SimpleTable) -> CellArrays:
        simple = table if isinstance(table, SimpleTable) else SimpleTable.from_table(table)
        return cls(simple, np.array(simple.following, np.int64), np.array(simple.marks, np.int64))

    def cells(self, first: np.ndarray, symbols: np.ndarray, states: np.ndarray) -> np.ndarray:
        return step_rows(first, symbols, states, self.following, self.table.width)


class SimpleRun:
    """Steps pieces of rows; the last key of a piece continues in the next one. `stores_new`: the state of a new key counts as
    changed, whatever its events did."""

    def __init__(self, table: Table | CellArrays, *, evidence_max: int, forgets: bool = False, stores_new: bool = False) -> None:
        self._arrays = table if isinstance(table, CellArrays) else CellArrays.from_table(table)
        self._evidence_max = evidence_max
        self._forgets = forgets
        self._stores_new = stores_new
        self._last: pa.Table | None = None
        """The state of the last key so far, with a column `changed`."""

    @property
    def last_state(self) -> pa.Table | None:
        """The state of the last key so far, changed or not; None before the first row."""
        return self._last.select(STATE_SCHEMA.names) if self._last is not None else None

    def resume(self, state: pa.Table) -> None:
        """Continues a key from a state."""
        self._last = state.select(STATE_SCHEMA.names).append_column("changed", pa.array([True]))

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        if not len(rows.key):
            return Stepped(OUTPUT_SCHEMA.empty_table(), STATE_SCHEMA.empty_table())
        if self._last is not None and self._last["key"][0].as_py() == rows.key[0].as_py():
            return self._step(_with_state(rows, self._last), was_changed=self._last["changed"][0].as_py())
        complete = self.finish().states
        stepped = self._step(rows, was_changed=False)
        return Stepped(stepped.outputs, pa.concat_tables([complete, stepped.states]))

    def finish(self) -> Stepped:
        """The state of the last key, if it changed."""
        last, self._last = self._last, None
        return Stepped(OUTPUT_SCHEMA.empty_table(), STATE_SCHEMA.empty_table() if last is None else _changed_states(last))

    def _step(self, rows: Rows, *, was_changed: bool) -> Stepped:
        first = np.ones(len(rows.key), bool)
        first[1:] = pc.not_equal(rows.key[1:], rows.key[:-1]).to_numpy(zero_copy_only=False)
        is_state = rows.symbol == STATE_ROW
        states = np.zeros(len(rows.key), np.int64)
        if rows.states is not None:
            states[is_state] = pc.list_element(rows.states["units"], 0).to_numpy()
        cells = self._arrays.cells(first, rows.symbol, states)
        marks = np.where(is_state, 0, self._arrays.marks[cells])
        trail = _Trail.from_rows(rows, first, is_state, marks)
        begins = np.flatnonzero(first)
        ends = np.append(begins[1:], first.size) - 1
        state = np.where(is_state[ends], states[ends], self._arrays.following[cells[ends]])
        changed = np.add.reduceat(marks & CHANGES, begins) > 0
        changed[0] |= was_changed
        changed |= self._forgets
        if self._stores_new:
            changed |= ~is_state[begins]
        at_start = (marks[ends] & TO_START) != 0
        after = self._states(rows, begins, ends, state, at_start, trail).append_column("changed", pa.array(changed))
        self._last = after.slice(state.size - 1)
        return Stepped(self._outputs(rows, marks, trail), _changed_states(after.slice(0, state.size - 1)))

    def _outputs(self, rows: Rows, marks: np.ndarray, trail: _Trail) -> pa.Table:
        fired = np.flatnonzero(marks >> ACTION_SHIFT)
        if not fired.size:
            return OUTPUT_SCHEMA.empty_table()
        tokens = self._arrays.table.tokens
        pushed = [tokens[action] for action in (marks[fired] >> ACTION_SHIFT).tolist()]
        counts = np.fromiter(map(len, pushed), np.int64, len(pushed))
        at = np.repeat(fired, counts)
        low, high, total = trail.evidence(at, self._evidence_max)
        return pa.table(
            {
                "key": rows.key.take(pa.array(at)),
                "token": pa.array(list(chain.from_iterable(pushed)), pa.string()),
                "offset": rows.offset[at],
                "time": rows.time[at],
                "place": pa.array(np.arange(at.size) - np.repeat(np.cumsum(counts) - counts, counts) + 1, pa.int32()),
                "evidence": slices(trail.positions, low, high),
                "evidence_total": total,
                "event_id": rows.event_id.take(pa.array(at)),
                "captured": pa.nulls(at.size, pa.string()),
            },
            schema=OUTPUT_SCHEMA,
        )

    def _states(
        self, rows: Rows, begins: np.ndarray, ends: np.ndarray, state: np.ndarray, at_start: np.ndarray, trail: _Trail
    ) -> pa.Table:
        """The state of every key after its last row. The time of a state row is that of the key's first event."""
        low, high, total = trail.evidence(ends, self._evidence_max)
        return pa.table(
            {
                "key": rows.key.take(pa.array(ends)),
                "units": pa.ListArray.from_arrays(pa.array(np.arange(state.size + 1), pa.int32()), pa.array(state, pa.int32())),
                "deadlines": pa.ListArray.from_arrays(pa.array(np.zeros(state.size + 1), pa.int32()), pa.array([], pa.int64())),
                "evidence": slices(trail.positions, np.where(at_start, high, low), high),
                "evidence_total": np.where(at_start, 0, total),
                "started_at": rows.time[begins],
                "seen_at": rows.time[ends],
                "memory": pa.nulls(state.size, pa.string()),
            },
            schema=STATE_SCHEMA,
        )


def _changed_states(states: pa.Table) -> pa.Table:
    return states.filter(states["changed"]).select(STATE_SCHEMA.names)


def _with_state(rows: Rows, last: pa.Table) -> Rows:
    """The rows of a key that continues, with its last state before them."""
    states = last.select(STATE_SCHEMA.names)
    if rows.states is not None:
        states = pa.concat_tables([states, rows.states])
    return Rows(
        pa.concat_arrays([last["key"].combine_chunks(), rows.key]),
        np.append(STATE_ROW, rows.symbol),
        np.append(-1, rows.offset),
        np.append(last["started_at"][0].as_py(), rows.time),
        pa.concat_arrays([pa.nulls(1, pa.string()), rows.event_id]),
        states,
    )


@dataclass(frozen=True)
class _Trail:
    """All positions that are evidence, in the order of rows, and where each row's evidence begins and ends in them."""

    positions: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    before: np.ndarray
    """How many more there were than a state row keeps."""

    @classmethod
    def from_rows(cls, rows: Rows, first: np.ndarray, is_state: np.ndarray, marks: np.ndarray) -> _Trail:
        counts = (marks & CHANGES).astype(np.int64)
        cut = np.zeros(counts.size, np.int64)
        stored = np.array([], np.int64)
        if rows.states is not None:
            lists = rows.states["evidence"].combine_chunks()
            stored = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.int64)
            counts[is_state] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
            cut[is_state] = rows.states["evidence_total"].to_numpy() - counts[is_state]
        end = np.cumsum(counts)
        positions = np.empty(int(end[-1]), np.int64)
        from_state = np.repeat(is_state, counts)
        positions[from_state] = stored
        positions[~from_state] = rows.offset[(marks & CHANGES) != 0]
        anew = first.copy()
        anew[1:] |= (marks[:-1] & TO_START) != 0
        since = np.maximum.accumulate(np.where(anew, np.arange(counts.size), 0))
        return cls(positions, (end - counts)[since], end, cut[since])

    def evidence(self, at: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For some rows: where their evidence begins and ends, the newest `limit` of it, and how much there was."""
        begin, end = self.begin[at], self.end[at]
        return np.maximum(begin, end - limit), end, end - begin + self.before[at]


class ProductRun:
    """Steps pieces of rows; a key may continue in the next piece."""

    def __init__(self, table: Table, multiplied: ProductAutomaton, *, evidence_max: int, forgets: bool = False) -> None:
        self._radices = [alphabet.size for alphabet in table.alphabets]
        self._units = pa.array(multiplied.states, pa.list_(pa.int32()))
        self._numbers = {units: number for number, units in enumerate(multiplied.states)}
        arrays = CellArrays.from_table(multiplied.simple)
        self._run = SimpleRun(arrays, evidence_max=evidence_max, forgets=forgets, stores_new=True)

    def knows(self, states: pa.Table) -> bool:
        """Whether the automaton has these states. A state that was carried over from another version may not be reachable."""
        return all(tuple(units) in self._numbers for units in states["units"].to_pylist())

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        symbol, radix = rows.symbol.copy(), 1
        for other, size in zip(rows.others, self._radices, strict=False):
            radix *= size
            symbol += other * radix
        symbol[rows.symbol == STATE_ROW] = STATE_ROW
        states = rows.states
        if states is not None:
            numbers = [[self._numbers[tuple(units)]] for units in states["units"].to_pylist()]
            states = _with_units(states, pa.array(numbers, pa.list_(pa.int32())))
        return self._unnumbered(self._run.feed(replace(rows, symbol=symbol, others=(), states=states)))

    def finish(self) -> Stepped:
        """The state of the last key, if it changed."""
        return self._unnumbered(self._run.finish())

    def _unnumbered(self, stepped: Stepped) -> Stepped:
        numbers = stepped.states["units"].combine_chunks().flatten()
        return Stepped(stepped.outputs, _with_units(stepped.states, self._units.take(numbers)))


def _with_units(states: pa.Table, units: pa.ListArray) -> pa.Table:
    return states.set_column(STATE_SCHEMA.names.index("units"), STATE_SCHEMA.field("units"), units)
