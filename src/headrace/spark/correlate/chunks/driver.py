"""One long stream without a key, in parallel: every chunk steps all states it could begin in, and the summaries are composed.

A chunk is an ascending run of offsets within a partition. It does not know the state in which it begins, so it steps all of them.
Once they have all reached the start state the chunk is *settled*: from there on outputs and evidence are exact, whatever came
before. The rows before that point (its head) are left for one short task, which goes from head to head in the order of the stream.
Where chunks do not settle soon (a pattern that counts in twos never does), their maps state → state are composed to the state in
which each one begins, and a second pass starts from those. Nothing is approximate, and no row is sorted or sent between workers.

There are two sources of rows: a DataFrame of classified events, and tasks that read files or the log themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from headrace.core import Invalid
from headrace.lang.ecl import SimpleTable, Table
from headrace.spark.correlate.chunks.stream import Stream, Unfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Batches = Iterable[pa.RecordBatch]
    Work = Callable[[Batches], Iterator[pa.RecordBatch]]

HEAD, CHUNK = 2, 3
CHUNK_DDL = (
    "kind int, key string, token string, `offset` bigint, time bigint, place int, evidence array<bigint>,"
    " evidence_total bigint, event_id string, units array<int>, deadlines array<bigint>, started_at bigint, seen_at bigint,"
    " symbol bigint, first bigint, last bigint, map array<int>, settled boolean, whole boolean"
)
_OUTPUTS = ("key", "token", "`offset`", "time", "place", "evidence", "evidence_total", "event_id")


@dataclass(frozen=True)
class ChunkSummary:
    """What the driver learns of a chunk: its offsets, its map state → state, and whether its whole head is there."""

    first: int
    last: int
    map: tuple[int, ...]
    whole: bool


class RowSource(Protocol):
    """The rows of one stream: symbol, offset, time, event_id."""

    def map(self, work: Work) -> DataFrame:
        """Runs `work` on the rows of every partition."""
        ...

    def by_range(self) -> RowSource | None:
        """The same rows in partitions that are ranges of offsets; None where the source cannot do that."""
        ...


@dataclass(frozen=True)
class FrameRows:
    """Rows that go through Spark."""

    frame: DataFrame

    def map(self, work: Work) -> DataFrame:
        return self.frame.mapInArrow(work, CHUNK_DDL)

    def by_range(self) -> RowSource:
        return FrameRows(self.frame.repartitionByRange("offset").sortWithinPartitions("offset"))


@dataclass(frozen=True)
class TaskRows:
    """Rows that tasks read by themselves: each gets the number of its piece."""

    session: SparkSession
    stream: Stream

    def map(self, work: Work) -> DataFrame:
        stream, count = self.stream, len(self.stream.pieces)

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from work(stream.rows(number))

        return self.session.range(0, count, 1, count).mapInArrow(run, CHUNK_DDL)

    def by_range(self) -> None:
        return None


def correlate_chunks(source: RowSource, table: Table, *, evidence_max: int) -> DataFrame | None:
    """The outputs of a simple table over one stream; None where the source cannot give its rows in order. Runs its first pass at
    once."""
    result = _run_pass(source, table, evidence_max, None)
    chunks = _summaries(result)
    if chunks and overlap(chunks):
        ranges = source.by_range()
        if ranges is None:
            return None
        source = ranges
        result = _run_pass(source, table, evidence_max, None)
        chunks = _summaries(result)
    if chunks is None:
        return None
    if not all(chunk.whole for chunk in chunks):
        result = _run_pass(source, table, evidence_max, compose(chunks))
    outputs = result.where("kind = 0").selectExpr(*_OUTPUTS)
    return outputs.unionByName(_correlate_heads(result, table, evidence_max).selectExpr(*_OUTPUTS))


def compose(chunks: Sequence[ChunkSummary]) -> dict[int, int]:
    """The state in which each chunk begins, by its first offset; chunks come in the order of the stream."""
    state = 0
    begins: dict[int, int] = {}
    for chunk in chunks:
        begins[chunk.first] = state
        state = chunk.map[state]
    return begins


def overlap(chunks: Sequence[ChunkSummary]) -> bool:
    return any(before.last >= after.first for before, after in pairwise(chunks))


def start_states(table: Table, begins: Mapping[int, int] | None) -> Callable[[int], list[int]]:
    """The states in which the chunk of a first offset may begin: all reachable ones, or the one that is known."""
    reachable = SimpleTable.of(table).reachable

    def states(first: int) -> list[int]:
        if begins is None:
            return reachable
        if first not in begins:
            raise Invalid(f"no chunk began at offset {first} in the first pass; the rows must be the same every time")
        return [begins[first]]

    return states


def _run_pass(source: RowSource, table: Table, evidence_max: int, begins: Mapping[int, int] | None) -> DataFrame:
    states = start_states(table, begins)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.chunks.worker import run_chunks, unreadable

        try:
            yield from run_chunks(batches, table, states, evidence_max=evidence_max, is_first_pass=begins is None)
        except Unfit:
            if begins is not None:
                raise
            yield unreadable()

    # Kept, since it is read three times; a local checkpoint is dropped with the frame.
    return source.map(run).localCheckpoint()


def _summaries(result: DataFrame) -> list[ChunkSummary] | None:
    """The chunks in the order of the stream; None where a task could not read its piece."""
    rows = result.where(f"kind = {CHUNK}").select("first", "last", "map", "whole").collect()
    if any(row[0] is None for row in rows):
        return None
    chunks = [ChunkSummary(first, last, tuple(map_), whole) for first, last, map_, whole in rows]
    return sorted(chunks, key=lambda chunk: chunk.first)


def _correlate_heads(result: DataFrame, table: Table, evidence_max: int) -> DataFrame:
    """The outputs of the heads: one task, from chunk to chunk."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.chunks.worker import run_heads

        return run_heads(batches, table, evidence_max=evidence_max)

    rows = result.where(f"kind in ({HEAD}, {CHUNK})").repartition(1).sortWithinPartitions("first", "kind", "offset")
    return rows.mapInArrow(run, CHUNK_DDL)
