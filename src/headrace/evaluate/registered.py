"""Steps Arrow rows by a table with registers: in Python only where an event depends on one, writes one or makes an output; a compiled
loop passes over all others, which are most.

Promises the same as GeneralRun. For tables with one machine per key and without timers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate.general import GeneralRun, read_instances
from headrace.evaluate.kernel import Ints, pass_rows
from headrace.evaluate.rows import STATE_ROW, Rows, Stepped
from headrace.lang.ecl import CHANGES, TO_START, RegisterBatch, Table

NUMBERS_MAX = 1_000
"""States, and kinds of facts, that are remembered: a table and its events may have more of them than memory is worth."""
_UNKNOWN, _IN_PYTHON = -1, -2


class RegisterRun(GeneralRun):
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
