"""What runs on a worker for a stream in chunks: all possible states at once until they are one, then plain stepping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.evaluate.automaton_run import CellArrays, SimpleRun
from headrace.evaluate.kernel import Flags, step_states
from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, numbers
from headrace.lang.ecl import CHANGES, Table

OUTPUT, HEAD, CHUNK = range(3)
"""Kinds of rows."""
HEAD_ROWS_MAX = 20_000
"""Of a chunk that settles later than this, the first pass makes only the map."""
CHUNK_SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        *OUTPUT_SCHEMA,
        *(column for column in STATE_SCHEMA if column.name not in OUTPUT_SCHEMA.names),
        ("symbol", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("map", pa.list_(pa.int32())),
        ("settled", pa.bool_()),
        ("whole", pa.bool_()),
    ]
)
_EVENT = ("symbol", "offset", "time", "event_id")


def run_chunks(
    batches: Iterable[pa.RecordBatch],
    table: Table,
    states: Callable[[int], list[int]],
    *,
    evidence_max: int,
    is_first_pass: bool,
) -> Iterator[pa.RecordBatch]:
    """A partition: the outputs of each chunk after the point where it is settled, the rows of its head, and its summary."""
    arrays = CellArrays.from_table(table)
    chunk: _Chunk | None = None
    for batch in batches:
        for piece in ascending(batch):
            first = piece["offset"][0].as_py()
            if chunk is None or first <= chunk.last:
                if chunk is not None:
                    yield from chunk.end()
                chunk = _Chunk(arrays, first, states(first), evidence_max, may_drop_head=is_first_pass)
            yield from chunk.feed(piece)
    if chunk is not None:
        yield from chunk.end()


def tagged(kind: int, table: pa.Table) -> pa.Table:
    """Rows of one kind in the schema of all kinds, with nulls in the columns that the table lacks."""
    columns = [
        table[column.name] if column.name in table.column_names else pa.nulls(table.num_rows, column.type)
        for column in CHUNK_SCHEMA
    ]
    columns[0] = pa.array(np.full(table.num_rows, kind, np.int32))
    return pa.Table.from_arrays(columns, schema=CHUNK_SCHEMA)


def ascending(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, cut where offsets do not rise."""
    falls = np.flatnonzero(np.diff(batch["offset"].to_numpy(zero_copy_only=False)) <= 0) + 1
    for low, high in pairwise([0, *falls.tolist(), batch.num_rows]):
        if high > low:
            yield batch.slice(low, high - low)


class _Chunk:
    """One ascending run of offsets."""

    def __init__(self, arrays: CellArrays, first: int, states: list[int], evidence_max: int, *, may_drop_head: bool) -> None:
        self._arrays = arrays
        self._run = SimpleRun(arrays, evidence_max=evidence_max)
        self._first, self.last = first, first
        self._starts = np.array(states, np.int64)
        # The distinct states the chunk may be in now, and for each start the index of its state.
        self._states, self._index = self._starts.copy(), np.arange(self._starts.size)
        self._settled = False
        self._may_drop_head = may_drop_head
        self._head: list[pa.RecordBatch] | None = []
        """None: it was too long, and is dropped."""
        self._head_rows = 0

    def feed(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.last = piece["offset"][-1].as_py()
        if not self._settled:
            piece = self._narrow(piece)
        if piece.num_rows:
            yield from tagged(OUTPUT, self._run.feed(_rows(piece)).outputs).to_batches()

    def _narrow(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """Steps all states through the piece; returns the rows after the point where the chunk is settled."""
        only = int(self._states[0]) if self._states.size == 1 else None
        arrays = self._arrays
        settled, self._states, index = step_states(self._states, numbers(piece["symbol"]), arrays.following, arrays.table.width)
        self._index = index[self._index]
        self._settled = settled >= 0
        count = settled + 1 if self._settled else piece.num_rows
        self._keep_head(piece.slice(0, count), only)
        return piece.slice(count)

    def _keep_head(self, rows: pa.RecordBatch, state: int | None) -> None:
        """Keeps the rows of the head; where the state is known, only those that change it."""
        if self._head is None:
            return
        if state is not None:
            rows = rows.filter(pa.array(_changes(self._arrays, rows, state)))
        self._head.append(rows)
        self._head_rows += rows.num_rows
        if self._may_drop_head and self._head_rows > HEAD_ROWS_MAX:
            self._head = None

    def end(self) -> Iterator[pa.RecordBatch]:
        """The rows of the head, and the summary with the state at the end."""
        for rows in self._head or ():
            columns = {name: rows[name] for name in _EVENT[1:]}
            columns |= {"symbol": pa.array(numbers(rows["symbol"])), "first": pa.array(np.full(rows.num_rows, self._first))}
            yield from tagged(HEAD, pa.table(columns)).to_batches()
        last = self._run.last_state if self._settled else None
        ends = np.full(self._arrays.following.size // self._arrays.table.width, -1)
        ends[self._starts] = self._states[self._index] if last is None else last["units"][0].as_py()[0]
        summary = {"kind": CHUNK, "first": self._first, "last": self.last, "map": ends.tolist(), "settled": self._settled}
        state = last.to_pylist()[0] if last is not None else {}
        yield pa.RecordBatch.from_pylist([{**summary, "whole": self._head is not None, **state}], CHUNK_SCHEMA)


def _rows(batch: pa.RecordBatch) -> Rows:
    key = pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
    return Rows(key, numbers(batch["symbol"]), numbers(batch["offset"]), numbers(batch["time"]), batch["event_id"])


def _changes(arrays: CellArrays, rows: pa.RecordBatch, state: int) -> Flags:
    """Which rows change the state, from a known one on."""
    symbols = np.append(STATE_ROW, numbers(rows["symbol"]))
    cells = arrays.cells(np.zeros(symbols.size, np.bool_), symbols, np.full(symbols.size, state))[1:]
    changes: Flags = (arrays.marks[cells] & CHANGES) != 0
    return changes


def run_heads(batches: Iterable[pa.RecordBatch], table: Table, *, evidence_max: int) -> Iterator[pa.RecordBatch]:
    """The rows of all heads in the order of the stream, each followed by the summary of its chunk, from where that ended."""
    arrays = CellArrays.from_table(table)
    run = SimpleRun(arrays, evidence_max=evidence_max)
    for batch in batches:
        low = 0
        for at in [*np.flatnonzero(batch["kind"].to_numpy(zero_copy_only=False) == CHUNK).tolist(), batch.num_rows]:
            if at > low:
                yield from tagged(OUTPUT, run.feed(_rows(batch.slice(low, at - low))).outputs).to_batches()
            low = at + 1
            if at < batch.num_rows and batch["settled"][at].as_py():
                run = SimpleRun(arrays, evidence_max=evidence_max)
                if batch["units"][at].as_py() is not None:
                    run.resume(pa.Table.from_batches([batch.slice(at, 1).select(STATE_SCHEMA.names)]))
