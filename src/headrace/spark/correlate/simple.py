"""Stepping a simple table: cells by one loop, all else (outputs, evidence, states) by whole columns.

Promises: outputs, evidence and order of the table's own function. Rows come sorted by key and offset, in as many pieces as the
caller likes; a key may go on in the next piece."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lang.ecl import Flat, Table
from headrace.spark.correlate.cells import cells
from headrace.spark.correlate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, slices

MOVED, TO_START = 1, 2


@dataclass(frozen=True)
class SimpleTable:
    """A simple table as arrays by cell: the next state, and marks: what it means for evidence, and its action × 4."""

    width: int
    following: np.ndarray
    marks: np.ndarray
    tokens: tuple[tuple[str, ...], ...]
    idle: tuple[int, ...]

    @classmethod
    def of(cls, table: Table) -> SimpleTable:
        (unit,) = table.units
        assert isinstance(unit, Flat)
        following, action = np.array(unit.next, np.int64), np.array(unit.action, np.int64)
        # Final states' rows lead back to themselves, so their cells neither move nor push.
        state = np.repeat(np.arange(following.size // unit.symbols), unit.symbols)
        moved = (following != state) | (action > 0)
        marks = moved * MOVED + (following == 0) * TO_START + action * 4
        idle = np.flatnonzero(~moved.reshape(-1, unit.symbols).any(axis=0))
        tokens = tuple(tuple(table.tokens[token] for token in tokens) for tokens, _ in table.actions)
        return cls(unit.symbols, following, marks, tokens, tuple(idle.tolist()))


class SimpleRun:
    """Steps pieces of rows; the last key of a piece is carried into the next."""

    def __init__(self, table: Table, *, evidence_max: int, forgets: bool = False) -> None:
        self._table = SimpleTable.of(table)
        self._evidence_max = evidence_max
        self._forgets = forgets
        self._carried: pa.Table | None = None

    def feed(self, rows: Rows) -> tuple[pa.Table, pa.Table]:
        """The outputs of these rows, and the states of the keys that are done and that moved."""
        if not len(rows.key):
            return OUTPUT_SCHEMA.empty_table(), STATE_SCHEMA.empty_table()
        if self._carried is not None and self._carried["key"][0].as_py() == rows.key[0].as_py():
            return self._step(_with_state(rows, self._carried), moved_before=self._carried["moved"][0].as_py())
        done = self.finish()
        outputs, states = self._step(rows, moved_before=False)
        return outputs, pa.concat_tables([done, states])

    @property
    def carried(self) -> pa.Table | None:
        """The state of the last key so far, moved or not; None before the first row."""
        return self._carried.select(STATE_SCHEMA.names) if self._carried is not None else None

    def resume(self, state: pa.Table) -> None:
        """Goes on with a key from a state."""
        self._carried = state.select(STATE_SCHEMA.names).append_column("moved", pa.array([True]))

    def finish(self) -> pa.Table:
        """The state of the last key, if it moved."""
        carried, self._carried = self._carried, None
        return _moved_states(carried) if carried is not None else STATE_SCHEMA.empty_table()

    def _step(self, rows: Rows, *, moved_before: bool) -> tuple[pa.Table, pa.Table]:
        table = self._table
        first = np.ones(len(rows.key), bool)
        first[1:] = pc.not_equal(rows.key[1:], rows.key[:-1]).to_numpy(zero_copy_only=False)
        sets = rows.symbol == STATE_ROW
        given = np.zeros(len(rows.key), np.int64)
        if rows.states is not None:
            given[sets] = pc.list_element(rows.states["units"], 0).to_numpy()
        found = cells(first, rows.symbol, given, table.following, table.width)
        marks = np.where(sets, 0, table.marks[found])
        trail = _Trail.of(rows, first, sets, marks)
        outputs = self._outputs(rows, marks, trail)
        begins = np.flatnonzero(first)
        ends = np.append(begins[1:], first.size) - 1
        state = np.where(sets[ends], given[ends], table.following[found[ends]])
        moved = np.add.reduceat(marks & MOVED, begins) > 0
        moved[0] |= moved_before
        moved |= self._forgets
        made = self._states(rows, begins, ends, state, (marks[ends] & TO_START) != 0, trail).append_column(
            "moved", pa.array(moved)
        )
        self._carried = made.slice(state.size - 1)
        return outputs, _moved_states(made.slice(0, state.size - 1))

    def _outputs(self, rows: Rows, marks: np.ndarray, trail: _Trail) -> pa.Table:
        fired = np.flatnonzero(marks >> 2)
        if not fired.size:
            return OUTPUT_SCHEMA.empty_table()
        pushed = [self._table.tokens[action] for action in (marks[fired] >> 2).tolist()]
        counts = np.fromiter(map(len, pushed), np.int64, len(pushed))
        at = np.repeat(fired, counts)
        low, high, total = trail.evidence(at, self._evidence_max)
        return pa.table(
            {
                "key": rows.key.take(pa.array(at)),
                "token": pa.array([token for tokens in pushed for token in tokens], pa.string()),
                "offset": rows.offset[at],
                "time": rows.time[at],
                "place": pa.array(np.arange(at.size) - np.repeat(np.cumsum(counts) - counts, counts) + 1, pa.int32()),
                "evidence": slices(trail.positions, low, high),
                "evidence_total": total,
                "event_id": rows.event_id.take(pa.array(at)),
            },
            schema=OUTPUT_SCHEMA,
        )

    def _states(
        self, rows: Rows, begins: np.ndarray, ends: np.ndarray, state: np.ndarray, fresh: np.ndarray, trail: _Trail
    ) -> pa.Table:
        """The state of every key after its last row. A state row's time is that of the key's first event."""
        low, high, total = trail.evidence(ends, self._evidence_max)
        return pa.table(
            {
                "key": rows.key.take(pa.array(ends)),
                "units": pa.ListArray.from_arrays(pa.array(np.arange(state.size + 1), pa.int32()), pa.array(state, pa.int32())),
                "deadlines": pa.ListArray.from_arrays(pa.array(np.zeros(state.size + 1), pa.int32()), pa.array([], pa.int64())),
                "evidence": slices(trail.positions, np.where(fresh, high, low), high),
                "evidence_total": np.where(fresh, 0, total),
                "started_at": rows.time[begins],
                "seen_at": rows.time[ends],
            },
            schema=STATE_SCHEMA,
        )


def _moved_states(made: pa.Table) -> pa.Table:
    return made.filter(made["moved"]).select(STATE_SCHEMA.names)


def _with_state(rows: Rows, carried: pa.Table) -> Rows:
    """The rows with the state of the carried key, with which they go on, before them."""
    states = carried.select(STATE_SCHEMA.names)
    if rows.states is not None:
        states = pa.concat_tables([states, rows.states])
    return Rows(
        pa.concat_arrays([carried["key"].combine_chunks(), rows.key]),
        np.append(STATE_ROW, rows.symbol),
        np.append(-1, rows.offset),
        np.append(carried["started_at"][0].as_py(), rows.time),
        pa.concat_arrays([pa.nulls(1, pa.string()), rows.event_id]),
        states,
    )


@dataclass(frozen=True)
class _Trail:
    """All positions that moved a machine, in the order of rows, and where each row's evidence begins and ends in them."""

    positions: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    before: np.ndarray
    """How many more there were than a state row has kept."""

    @classmethod
    def of(cls, rows: Rows, first: np.ndarray, sets: np.ndarray, marks: np.ndarray) -> _Trail:
        counts = (marks & MOVED).astype(np.int64)
        cut = np.zeros(counts.size, np.int64)
        kept = np.array([], np.int64)
        if rows.states is not None:
            lists = rows.states["evidence"].combine_chunks()
            kept = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.int64)
            counts[sets] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
            cut[sets] = rows.states["evidence_total"].to_numpy() - counts[sets]
        end = np.cumsum(counts)
        positions = np.empty(int(end[-1]), np.int64)
        from_state = np.repeat(sets, counts)
        positions[from_state] = kept
        positions[~from_state] = rows.offset[(marks & MOVED) != 0]
        anew = first.copy()
        anew[1:] |= (marks[:-1] & TO_START) != 0
        since = np.maximum.accumulate(np.where(anew, np.arange(counts.size), 0))
        return cls(positions, (end - counts)[since], end, cut[since])

    def evidence(self, at: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some rows: from where to where their evidence goes, the newest `most`, and how much there was."""
        begin, end = self.begin[at], self.end[at]
        return np.maximum(begin, end - most), end, end - begin + self.before[at]
