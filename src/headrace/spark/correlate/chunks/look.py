"""What runs on a worker for a stream that it reads by itself: looking at the chunks of a piece, and pushing their outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.lang.ecl import Table
from headrace.spark.correlate.cells import cells
from headrace.spark.correlate.chunks.composing import reachable
from headrace.spark.correlate.chunks.files import Begin, Open, Seen, begin_of
from headrace.spark.correlate.chunks.run import Ints, ascending, narrow
from headrace.spark.correlate.chunks.stream import Stream, Unfit
from headrace.spark.correlate.rows import STATE_ROW, STATE_SCHEMA, Rows
from headrace.spark.correlate.simple import MOVED, TO_START, SimpleRun, SimpleTable

SEEN_SCHEMA = pa.schema(
    [
        ("piece", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("map", pa.list_(pa.int32())),
        ("fresh", pa.bool_()),
        ("evidence", pa.list_(pa.int64())),
        ("total", pa.int64()),
    ]
)


def look_at_piece(
    stream: Stream, number: int, table: Table, begins: Mapping[int, int] | None, *, evidence_max: int
) -> Iterator[Seen | int]:
    """The chunks of a piece, or those whose states are given. The number alone says that the piece cannot be read here."""
    simple, starts = SimpleTable.of(table), reachable(table)
    now: _Looking | None = None
    passed = False
    try:
        for batch in stream.batches(number):
            for run in ascending(batch):
                first = run["offset"][0].as_py()
                if now is None or first <= now.last:
                    if now is not None and not passed:
                        yield now.seen(number)
                    passed = begins is not None and first not in begins
                    state = None if begins is None else begins.get(first)
                    now = _Looking(simple, first, starts, state, evidence_max)
                now.last = run["offset"][-1].as_py()
                if not passed:
                    now.feed(symbols_of(stream, run["type"]), run["offset"].to_numpy())
    except Unfit:
        yield number
        return
    if now is not None and not passed:
        yield now.seen(number)


def told(found: Iterator[Seen | int]) -> pa.RecordBatch:
    """Chunks as rows."""
    rows: list[dict[str, object]] = []
    for one in found:
        if isinstance(one, int):
            rows.append({"piece": one})
            continue
        left = one.open
        row = {"piece": one.piece, "first": one.first, "last": one.last, "map": list(one.map), "fresh": one.fresh}
        rows.append({**row, "evidence": left and list(left.evidence), "total": left and left.total})
    return pa.RecordBatch.from_pylist(rows, SEEN_SCHEMA)


class _Looking:
    """One chunk, looked at: from all states it could begin in, or from the one that is given."""

    def __init__(self, simple: SimpleTable, first: int, starts: Sequence[int], state: int | None, evidence_max: int) -> None:
        self._simple, self._evidence_max = simple, evidence_max
        self._first = self.last = first
        self._starts = np.array(starts, np.int64)
        # `ways` are the different states the chunk may be in now, `way_of` says for each start which of them.
        self._ways, self._way_of = self._starts.copy(), np.arange(len(starts))
        self._state = state
        """The state now, once it is known."""
        self._fresh = False
        self._evidence = np.array([], np.int64)
        self._total = 0

    def feed(self, symbols: Ints, offsets: Ints) -> None:
        if self._state is None:
            settled, self._ways, joined = narrow()(self._ways, symbols, self._simple.following, self._simple.width)
            self._way_of = joined[self._way_of]
            if settled < 0:
                return
            self._state, self._fresh = 0, True
            symbols, offsets = symbols[settled + 1 :], offsets[settled + 1 :]
        if symbols.size:
            self._walk(self._state, symbols, offsets)

    def _walk(self, state: int, symbols: Ints, offsets: Ints) -> None:
        """Goes on from a known state; of the evidence, keeps what came after the last time at the start."""
        simple = self._simple
        given = np.full(symbols.size + 1, state)
        found = cells(np.zeros(given.size, np.bool_), np.append(STATE_ROW, symbols), given, simple.following, simple.width)[1:]
        marks = simple.marks[found]
        starts = np.flatnonzero(marks & TO_START)
        if starts.size:
            self._fresh, self._evidence, self._total = True, self._evidence[:0], 0
            marks, offsets = marks[starts[-1] + 1 :], offsets[starts[-1] + 1 :]
        more = offsets[(marks & MOVED) != 0]
        self._total += more.size
        kept = np.append(self._evidence, more)
        self._evidence = kept[kept.size - min(self._evidence_max, kept.size) :]
        self._state = int(simple.following[found[-1]])

    def seen(self, piece: int) -> Seen:
        ends = np.full(self._simple.following.size // self._simple.width, -1)
        ends[self._starts] = self._ways[self._way_of] if self._state is None else self._state
        known = None if self._state is None else Open(tuple(self._evidence.tolist()), self._total)
        return Seen(self._first, self.last, tuple(ends.tolist()), True, piece, known, self._fresh)


def push_piece(
    stream: Stream, number: int, table: Table, begins: Mapping[int, Begin], *, evidence_max: int
) -> Iterator[pa.RecordBatch]:
    """The outputs of a piece: every chunk from what stands before it."""
    simple, last = SimpleRun(table, evidence_max=evidence_max), None
    for batch in stream.batches(number, [stream.time, "event_id"]):
        for run in ascending(batch):
            first = run["offset"][0].as_py()
            if last is None or first <= last:
                simple = SimpleRun(table, evidence_max=evidence_max)
                simple.resume(_state_row(begin_of(begins, first)))
            last = run["offset"][-1].as_py()
            yield from simple.feed(_rows(stream, run))[0].to_batches()


def _rows(stream: Stream, run: pa.RecordBatch) -> Rows:
    time = run[stream.time].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    key = pa.repeat(pa.scalar("", pa.string()), run.num_rows)
    return Rows(key, symbols_of(stream, run["type"]), run["offset"].to_numpy(), time, run["event_id"])


def _state_row(begin: Begin) -> pa.Table:
    row = {
        "key": "",
        "units": [begin.state],
        "deadlines": [],
        "evidence": list(begin.open.evidence),
        "evidence_total": begin.open.total,
        "started_at": 0,
        "seen_at": 0,
    }
    return pa.Table.from_pylist([row], STATE_SCHEMA)


def symbols_of(stream: Stream, types: pa.Array) -> Ints:
    """The symbols of a column of types; an event without type is one of any other."""
    coded = types if isinstance(types, pa.DictionaryArray) else types.dictionary_encode()
    known = [stream.symbols.get(name, stream.other) for name in coded.dictionary.to_pylist()]
    places = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    found: Ints = np.array([*known, stream.other], np.int64)[places]
    return found
