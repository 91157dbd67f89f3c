"""What runs on a worker for a stream in chunks: following all states at once until they are one, then plain stepping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lang.ecl import Table
from headrace.spark.correlate.chunks.composing import CHUNK, HEAD
from headrace.spark.correlate.rows import BOTH_SCHEMA, OUTPUT, STATE_SCHEMA, Rows, tagged
from headrace.spark.correlate.simple import MOVED, SimpleRun, SimpleTable

Starts = Callable[[int], tuple[list[int], bool]]
Ints = NDArray[np.int64]
HEAD_ROWS_MAX = 20_000
"""Of a chunk that settles later than this, only the map is made in the first pass."""
CHUNK_SCHEMA = pa.schema(
    [
        *BOTH_SCHEMA,
        ("symbol", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("map", pa.list_(pa.int32())),
        ("settled", pa.bool_()),
        ("whole", pa.bool_()),
    ]
)


def run_chunks(batches: Iterable[pa.RecordBatch], table: Table, starts: Starts, *, evidence_max: int) -> Iterator[pa.RecordBatch]:
    """A partition: outputs behind the point where a chunk is settled, the rows of its head, and a row about the chunk."""
    simple = SimpleTable.of(table)
    chunk: _Chunk | None = None
    for batch in batches:
        for piece in ascending(batch):
            first = piece["offset"][0].as_py()
            if chunk is None or first <= chunk.last:
                if chunk is not None:
                    yield from chunk.end()
                chunk = _Chunk(table, simple, first, *starts(first), evidence_max)
            yield from chunk.feed(piece)
    if chunk is not None:
        yield from chunk.end()


def ascending(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, cut where offsets do not rise."""
    falls = np.flatnonzero(np.diff(batch["offset"].to_numpy(zero_copy_only=False)) <= 0) + 1
    bounds = [0, *falls.tolist(), batch.num_rows]
    for low, high in pairwise(bounds):
        if high > low:
            yield batch.slice(low, high - low)


class _Chunk:
    """One ascending run of offsets."""

    def __init__(
        self, table: Table, simple: SimpleTable, first: int, starts: list[int], may_give_up: bool, evidence_max: int
    ) -> None:
        self._simple = simple
        self._run = SimpleRun(table, evidence_max=evidence_max)
        self._first, self.last = first, first
        self._known = np.array(starts, np.int64)
        # `ways` are the different states the chunk may be in now, `way_of` says for each start which of them.
        self._ways, self._way_of = self._known.copy(), np.arange(self._known.size)
        self._settled = False
        self._may_give_up = may_give_up
        self._head: list[pa.RecordBatch] = []
        self._head_rows = 0
        self._whole = True

    def feed(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.last = piece["offset"][-1].as_py()
        if not self._settled:
            piece = self._narrowed(piece)
        if piece.num_rows:
            outputs, _ = self._run.feed(Rows.of(piece))
            yield from _told(tagged(OUTPUT, outputs))

    def _narrowed(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """Follows all ways through the piece; what is left behind the point where they are settled."""
        simple = self._simple
        symbols = np.asarray(piece["symbol"].to_numpy(zero_copy_only=False), np.int64)
        before = self._ways[0] if self._ways.size == 1 else None
        settled, self._ways, joined = narrow()(self._ways, symbols, simple.following, simple.width)
        self._way_of = joined[self._way_of]
        self._settled = settled >= 0
        taken = piece.num_rows if settled < 0 else settled + 1
        self._keep(piece.slice(0, taken), before)
        return piece.slice(taken)

    def _keep(self, rows: pa.RecordBatch, state: int | None) -> None:
        """Of the head, all rows; with one way only, those that move it."""
        if state is not None:
            rows = rows.filter(pa.array(_moves(self._simple, rows, int(state))))
        if self._whole:
            self._head.append(rows)
            self._head_rows += rows.num_rows
        if self._may_give_up and self._head_rows > HEAD_ROWS_MAX:
            self._whole, self._head = False, []

    def end(self) -> Iterator[pa.RecordBatch]:
        for rows in self._head:
            kept = {name: rows[name] for name in ("key", "symbol", "offset", "time", "event_id")}
            yield from _rows(HEAD, rows.num_rows, first=self._first, **kept)
        tail = self._run.carried if self._settled else None
        state = int(tail["units"][0].as_py()[0]) if tail is not None else 0
        ends = np.full(self._simple.following.size // self._simple.width, -1)
        ends[self._known] = state if self._settled else self._ways[self._way_of]
        told = {name: tail[name] for name in STATE_SCHEMA.names} if tail is not None else {}
        about = {"last": self.last, "map": pa.array([ends.tolist()], pa.list_(pa.int32()))}
        yield from _rows(CHUNK, 1, first=self._first, settled=self._settled, whole=self._whole, **about, **told)


def _moves(simple: SimpleTable, rows: pa.RecordBatch, state: int) -> NDArray[np.bool_]:
    from headrace.spark.correlate.cells import cells

    symbols = np.append(-1, np.asarray(rows["symbol"].to_numpy(zero_copy_only=False), np.int64))
    first = np.zeros(symbols.size, np.bool_)
    found = cells(first, symbols, np.full(symbols.size, state), simple.following, simple.width)[1:]
    return cast("NDArray[np.bool_]", (simple.marks[found] & MOVED) != 0)


def run_heads(batches: Iterable[pa.RecordBatch], table: Table, *, evidence_max: int) -> Iterator[pa.RecordBatch]:
    """The rows of all heads in the order of the stream, each chunk's row behind its head: from where it left off."""
    run = SimpleRun(table, evidence_max=evidence_max)
    for batch in batches:
        about = np.flatnonzero(batch["kind"].to_numpy(zero_copy_only=False) == CHUNK).tolist()
        low = 0
        for at in [*about, batch.num_rows]:
            if at > low:
                yield from _told(tagged(OUTPUT, run.feed(Rows.of(batch.slice(low, at - low).select(_EVENT)))[0]))
            low = at + 1
            if at < batch.num_rows and batch["settled"][at].as_py():
                run = SimpleRun(table, evidence_max=evidence_max)
                if batch["units"][at].as_py() is not None:
                    run.resume(pa.Table.from_batches([batch.slice(at, 1).select(STATE_SCHEMA.names)]))


_EVENT = ["key", "symbol", "offset", "time", "event_id"]


def _told(table: pa.Table) -> Iterator[pa.RecordBatch]:
    if table.num_rows:
        columns = {name: table[name] for name in BOTH_SCHEMA.names if name != "kind"}
        yield from _rows(OUTPUT, table.num_rows, **columns)


def _rows(kind: int, count: int, **given: object) -> Iterator[pa.RecordBatch]:
    """Rows of one kind: columns as given, single values for all of them, nulls elsewhere."""
    columns = []
    for column in CHUNK_SCHEMA:
        value = kind if column.name == "kind" else given.get(column.name)
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        columns.append(value.cast(column.type) if isinstance(value, pa.Array) else _same(value, count, column.type))
    if count:
        yield pa.RecordBatch.from_arrays(columns, schema=CHUNK_SCHEMA)


def _same(value: object, count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.array([value] * count, kind)


Narrow = Callable[[Ints, Ints, Ints, int], tuple[int, Ints, Ints]]


@lru_cache(maxsize=1)
def narrow() -> Narrow:
    if find_spec("numba") is None:
        return follow
    import numba

    return cast(Narrow, numba.njit(cache=True)(follow))


def follow(ways: Ints, symbols: Ints, following: Ints, width: int) -> tuple[int, Ints, Ints]:
    """Steps all ways through the symbols, joining those that meet, until all are at the start.

    Returns the row at which they are (-1: never), the ways that are left, and for each way given which of these it became."""
    now = ways.copy()
    count = now.size
    became = np.arange(count)
    seen = np.full(following.size // width, -1, np.int64)
    for row in range(symbols.size):
        for way in range(count):
            now[way] = following[now[way] * width + symbols[row]]
        # Looking for ways that met costs as much as a step: at every step while few, now and then while many.
        if count > 1 and (count <= 4 or row % 16 == 15 or row == symbols.size - 1):
            left = 0
            place = np.empty(count, np.int64)
            for way in range(count):
                state = now[way]
                if seen[state] < 0:
                    seen[state] = left
                    now[left] = state
                    left += 1
                place[way] = seen[state]
            for way in range(left):
                seen[now[way]] = -1
            for way in range(became.size):
                became[way] = place[became[way]]
            count = left
        if count == 1 and now[0] == 0:
            return row, now[:1].copy(), became
    return -1, now[:count].copy(), became
