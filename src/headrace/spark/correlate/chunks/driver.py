"""One long stream without a key, in parallel: every chunk steps all states it could begin in, and the summaries are composed.

A chunk is an ascending run of offsets within a partition. It does not know the state in which it begins, so it steps all of them.
Once they have all reached the start state the chunk is *settled*: from there on outputs and evidence are exact, whatever came
before. The rows before that point (its head) are left for one short task, which goes from head to head in the order of the stream.
Where chunks do not settle soon (a pattern that counts in twos never does), their maps state → state are composed to the state in
which each one begins, and a second pass starts from those. Nothing is approximate, and no row is sorted or sent between workers.

The rows come from tasks that read files or the log themselves, or else from a DataFrame of classified events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.core import Invalid
from headrace.evaluate import CHUNK, CHUNK_SCHEMA, HEAD, OUTPUT_SCHEMA, CorrelatorSpec, run_chunks, run_heads, unreadable
from headrace.lang.ecl import SimpleTable, Table
from headrace.spark.correlate.chunks.stream import Stream, stream_of
from headrace.spark.source import Unfit, map_numbers

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Iterator[pa.RecordBatch]]
RowSource = Callable[[Work], DataFrame]
"""Runs work on every partition of a stream's rows: symbol, offset, time, event_id."""


@dataclass(frozen=True)
class ChunkSummary:
    """What the driver learns of a chunk: its offsets and its map state → state. `whole`: its whole head is there."""

    first: int
    last: int
    map: tuple[int, ...]
    whole: bool


def correlate_chunks(df: DataFrame, rows: DataFrame, spec: CorrelatorSpec) -> DataFrame:
    """The outputs of a simple table over one stream: a frame, or where tasks cannot read it in order, its classified rows. Runs
    its first pass at once."""
    by_range = rows.repartitionByRange("offset").sortWithinPartitions("offset")
    sources: list[RowSource] = [partial(map_rows, rows), partial(map_rows, by_range)]
    if (stream := stream_of(df, spec)) is not None:
        sources.insert(0, partial(map_pieces, df, stream))
    for source in sources:
        result = _run_pass(source, spec, None)
        chunks = _summaries(result)
        if chunks is None:
            continue
        if source is sources[-1] or all(before.last < after.first for before, after in pairwise(chunks)):
            break
    assert chunks is not None
    if not all(chunk.whole for chunk in chunks):
        result = _run_pass(source, spec, compose(chunks))
    heads = result.where(f"kind in ({HEAD}, {CHUNK})").repartition(1).sortWithinPartitions("first", "kind", "offset")
    # One task, from chunk to chunk.
    head_outputs = map_rows(heads, partial(run_heads, table=spec.table, evidence_max=spec.evidence_max))
    return result.where("kind = 0").union(head_outputs).select(*OUTPUT_SCHEMA.names)


def map_rows(rows: DataFrame, work: Work) -> DataFrame:
    """Runs work on rows that go through Spark."""
    return rows.mapInArrow(work, from_arrow_schema(CHUNK_SCHEMA))


def map_pieces(df: DataFrame, stream: Stream, work: Work) -> DataFrame:
    """Runs work on rows that tasks read by themselves: each gets the number of its piece."""
    schema = from_arrow_schema(CHUNK_SCHEMA)
    return map_numbers(df.sparkSession, len(stream.pieces), lambda number: work(stream.rows(number)), schema)


def compose(chunks: Sequence[ChunkSummary]) -> dict[int, int]:
    """The state in which each chunk begins, by its first offset; chunks come in the order of the stream."""
    state = 0
    begins: dict[int, int] = {}
    for chunk in chunks:
        begins[chunk.first] = state
        state = chunk.map[state]
    return begins


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


def _run_pass(source: RowSource, spec: CorrelatorSpec, begins: Mapping[int, int] | None) -> DataFrame:
    # Here, so that tasks get the table: they need not compile the pattern.
    table, evidence_max = spec.table, spec.evidence_max
    states = start_states(table, begins)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        try:
            yield from run_chunks(batches, table, states, evidence_max=evidence_max, is_first_pass=begins is None)
        except Unfit:
            if begins is not None:
                raise
            yield unreadable()

    # Kept, since it is read three times; a local checkpoint is dropped with the frame.
    return source(run).localCheckpoint()


def _summaries(result: DataFrame) -> list[ChunkSummary] | None:
    """The chunks in the order of the stream; None where a task could not read its piece."""
    rows = result.where(f"kind = {CHUNK}").select("first", "last", "map", "whole").collect()
    if any(row[0] is None for row in rows):
        return None
    chunks = [ChunkSummary(first, last, tuple(map_), whole) for first, last, map_, whole in rows]
    return sorted(chunks, key=lambda chunk: chunk.first)
