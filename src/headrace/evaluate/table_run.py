"""Steps Arrow rows key by key, in Python: TableRun by any table, RegisterRun by one whose keys keep values.

TableRun uses the stepping of the database's engine, and is chosen for tables with timers or too many states for one automaton. RegisterRun
is chosen for tables with registers, one machine per key and no timers, where loops are compiled: it is in Python only where an event
depends on a register, writes one or makes an output; a compiled loop passes over all others, which are most. Both promise the outputs,
evidence and order of the stepping in lang.ecl; timers due by an event's time fire before it, and at the end those due by `until`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate.kernel import Ints, pass_rows
from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped
from headrace.lang.ecl import CHANGES, TO_START, Correlation, Instance, RegisterBatch, Table, TimerFlood, make_batch

FIRINGS_MAX = 100_000
"""Timer firings of one key between two events; more means a pattern that ticks through a long silence."""


class TableRun:
    """Steps pieces of rows, key by key; a key may continue in the next piece."""

    def __init__(self, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False) -> None:
        self._batch = make_batch(table, evidence_max, forgets)
        self._until = until
        self._key: str | None = None
        self._event_ids: list[str | None] = []
        """Of each output."""
        self._changed: list[Instance] = []

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        batch, outputs = self._batch, self._batch.outputs
        states = read_instances(rows.states)
        symbols = zip(rows.symbol.tolist(), *(other.tolist() for other in rows.others), strict=True)
        facts = repeat(None, len(rows.key)) if rows.facts is None else rows.facts.to_pylist()
        columns = (rows.key.to_pylist(), symbols, rows.offset.tolist(), rows.time.tolist(), rows.event_id.to_pylist(), facts)
        for key, symbol, offset, time, event_id, fact in zip(*columns, strict=True):
            if key != self._key:
                self._end_key()
                self._key = key
            if symbol[0] == STATE_ROW:
                batch.load([next(states)])
                continue
            before = len(outputs)
            batch.ticks_left = FIRINGS_MAX
            if not batch.step(key, offset, symbol, time, fact):
                raise _flood(key, time)
            if len(outputs) > before:
                self._event_ids += [None if output.position is None else event_id for output in outputs[before:]]
        return self._results()

    def finish(self) -> Stepped:
        """What is left: the timers of the last key, and its state."""
        self._end_key()
        return self._results()

    def _end_key(self) -> None:
        """The last key is complete: fire its timers until the end, and keep its state."""
        if self._key is None:
            return
        self._batch.ticks_left = FIRINGS_MAX
        if self._until is not None and not self._batch.tick(self._key, self._until):
            raise _flood(self._key, self._until)
        self._event_ids += [None] * (len(self._batch.outputs) - len(self._event_ids))
        instance = self._batch.pop(self._key)
        if instance.is_changed:
            self._changed.append(instance)
        self._key = None

    def _results(self) -> Stepped:
        outputs = _output_table(self._batch.outputs, self._event_ids)
        states = _state_table(self._changed)
        self._batch.outputs.clear()
        self._event_ids, self._changed = [], []
        return Stepped(outputs, states)


def _flood(key: str, time: int) -> TimerFlood:
    return TimerFlood(f"key {key!r}: more than {FIRINGS_MAX} timer firings up to {time} us; use longer timers")


def _output_table(outputs: list[Correlation], event_ids: list[str | None]) -> pa.Table:
    if not outputs:
        return OUTPUT_SCHEMA.empty_table()
    keys, positions, times, tokens, places, evidence, totals, captured = zip(*outputs, strict=True)
    return pa.table([keys, tokens, positions, times, places, evidence, totals, event_ids, captured], schema=OUTPUT_SCHEMA)


def _state_table(instances: list[Instance]) -> pa.Table:
    if not instances:
        return STATE_SCHEMA.empty_table()
    rows = [(i.key, i.units, i.deadlines, i.evidence, i.evidence_total, i.started_at, i.seen_at, i.memory) for i in instances]
    return pa.table(list(zip(*rows, strict=True)), schema=STATE_SCHEMA)


def read_instances(states: pa.Table | None) -> Iterator[Instance]:
    """The instances of state rows."""
    if states is None:
        return
    names = ("key", "units", "deadlines", "memory", "started_at", "seen_at", "evidence", "evidence_total")
    for key, units, deadlines, memory, *rest in zip(*(states[name].to_pylist() for name in names), strict=True):
        instance = Instance(key, tuple(units), tuple(deadlines), *rest)
        instance.memory = memory
        yield instance


NUMBERS_MAX = 1_000
"""States, and kinds of facts, that are remembered: a table and its events may have more of them than memory is worth."""
_UNKNOWN, _IN_PYTHON = -1, -2


class RegisterRun(TableRun):
    """Steps pieces of rows, key by key; a key may continue in the next piece."""

    def __init__(self, table: Table, *, evidence_max: int, forgets: bool = False) -> None:
        super().__init__(table, evidence_max=evidence_max, forgets=forgets)
        assert table.program is not None and isinstance(self._batch, RegisterBatch)
        self._registers = self._batch
        self._cells = _Cells(self._batch, table.start_units)
        self._static = 1 + len(table.program.static)

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        if not len(rows.key):
            return self._results()
        piece = _Piece(rows, self._cells, self._static)
        states = read_instances(rows.states)
        for key, (begin, end) in zip(piece.keys, pairwise(piece.bounds), strict=True):
            if key != self._key:
                self._end_key()
                self._key = key
            if rows.symbol[begin] == STATE_ROW:
                self._batch.load([next(states)])
                begin += 1
            if begin < end:
                self._step_key(key, piece, begin, end)
        return self._results()

    def _step_key(self, key: str, piece: _Piece, row: int, end: int) -> None:
        batch, cells, outputs = self._registers, self._cells, self._batch.outputs
        units = batch.units_of(key, piece.times[row])
        while row < end:
            begin, number = row, cells.number(units)
            row, number, count, is_anew = pass_rows(row, end, number, piece.codes, piece.rows.offset, cells.array, piece.kept)
            if row > begin:
                units = cells.states[number]
                batch.step_over(key, units, piece.kept[:count].tolist(), piece.times[row - 1], is_anew=is_anew)
            if row == end:
                return
            if cells.learn(number, units, int(piece.codes[row])):
                continue
            before = len(outputs)
            batch.step(key, piece.offsets[row], (0,), piece.times[row], piece.facts(row))
            if len(outputs) > before:
                self._event_ids += [piece.rows.event_id[row].as_py()] * (len(outputs) - before)
            units = batch.units_of(key, piece.times[row])
            row += 1


class _Cells:
    """What events of known facts do to a machine in a known state, by the number of the state and the code of the facts.

    Number and code 0 are for all others, which Python steps."""

    def __init__(self, batch: RegisterBatch, start: tuple[int, ...]) -> None:
        self._batch = batch
        self._start = start
        self.states: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {}
        self._facts: list[tuple[str | None, ...]] = [()]
        self._codes: dict[tuple[str | None, ...], int] = {}
        self.array = np.full((1, 1), _IN_PYTHON, np.int64)

    def number(self, units: tuple[int, ...]) -> int:
        """The number of a state."""
        if units not in self._numbers and len(self.states) < NUMBERS_MAX:
            self._numbers[units] = len(self.states)
            self.states.append(units)
            self._make_room()
        return self._numbers.get(units, 0)

    def code(self, facts: tuple[str | None, ...]) -> int:
        """The code of an event's type and truths."""
        if facts not in self._codes and len(self._facts) < NUMBERS_MAX:
            self._codes[facts] = len(self._facts)
            self._facts.append(facts)
            self._make_room()
        return self._codes.get(facts, 0)

    def learn(self, number: int, units: tuple[int, ...], code: int) -> bool:
        """Finds out what is in a cell. False: Python has to step such an event every time."""
        if self.array[number, code] == _IN_PYTHON:
            return False
        known = self._batch.known_step(units, self._facts[code])
        after = self.number(known[0]) if known is not None else 0
        mark = 0 if known is None or not known[1] else TO_START if known[0] == self._start else CHANGES
        self.array[number, code] = after << 2 | mark if after else _IN_PYTHON
        return after > 0

    def _make_room(self) -> None:
        states, codes = self.array.shape
        if len(self.states) > states or len(self._facts) > codes:
            larger = np.full((max(states, 2 * len(self.states)), max(codes, 2 * len(self._facts))), _UNKNOWN, np.int64)
            larger[:states, :codes] = self.array
            larger[0, :] = larger[:, 0] = _IN_PYTHON
            self.array = larger


class _Piece:
    """Rows with the code of their facts, and what the loop and Python read of them."""

    def __init__(self, rows: Rows, cells: _Cells, static: int) -> None:
        assert rows.facts is not None
        first = np.ones(len(rows.key), bool)
        first[1:] = pc.not_equal(rows.key[1:], rows.key[:-1]).to_numpy(zero_copy_only=False)
        begins = np.flatnonzero(first)
        self.rows = rows
        self.keys: list[str] = rows.key.take(pa.array(begins)).to_pylist()
        self.bounds: list[int] = [*begins.tolist(), len(rows.key)]
        self.offsets: list[int] = rows.offset.tolist()
        self.times: list[int] = rows.time.tolist()
        self.kept = np.empty(len(rows.key), np.int64)
        """Room for the loop: the offsets that changed a machine."""
        self._read_facts(rows.facts, cells, static)

    def facts(self, row: int) -> list[str | None]:
        begin = self._events[row] * self._width
        return self._texts[begin : begin + self._width]

    def _read_facts(self, facts: pa.ListArray, cells: _Cells, static: int) -> None:
        """State rows have no facts; all events have as many."""
        is_event = facts.is_valid().to_numpy(zero_copy_only=False)
        events, flat = int(is_event.sum()), facts.flatten()
        self._events: list[int] = (np.cumsum(is_event) - 1).tolist()
        self._texts: list[str | None] = flat.to_pylist()
        self._width = len(flat) // max(events, 1)
        self.codes = np.zeros(is_event.size, np.int64)
        if events:
            columns = [flat.take(pa.array(np.arange(at, len(flat), self._width))) for at in range(static)]
            self.codes[is_event] = _code_facts(columns, cells)


def _code_facts(columns: list[pa.StringArray], cells: _Cells) -> Ints:
    """The code of each event's type and truths."""
    packed = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        packed = packed * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        # Numbered anew after each column, so that the product stays small.
        _, packed = np.unique(packed, return_inverse=True)
    _, first, numbers = np.unique(packed, return_index=True, return_inverse=True)
    codes = [cells.code(tuple(column[row].as_py() for column in columns)) for row in first.tolist()]
    return np.array(codes, np.int64)[numbers]
