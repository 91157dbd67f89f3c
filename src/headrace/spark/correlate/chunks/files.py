"""A stream without key whose tasks read it by themselves, in two passes: look, then push.

The first pass reads types and offsets only. Of every chunk (an ascending run of offsets within a piece) it tells the map state →
state and, where the chunk is settled, the evidence that is open at its end. From those the driver knows the state and the
evidence with which each chunk begins; chunks that did not settle are looked at again from the state they begin in, so that their
open evidence is known too. The second pass starts every chunk from there, and only its outputs go through Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.lang.ecl import Table
from headrace.spark.correlate.chunks.composing import Chunk, composed, overlap
from headrace.spark.correlate.chunks.stream import Stream, Unfit, stream_of
from headrace.spark.correlate.symbols import CorrelatorSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OUTPUT_DDL = (
    "key string, token string, `offset` bigint, time bigint, place int, evidence array<bigint>, evidence_total bigint,"
    " event_id string"
)
SEEN_DDL = "piece int, first bigint, last bigint, map array<int>, fresh boolean, evidence array<bigint>, total bigint"


@dataclass(frozen=True)
class Open:
    """The newest of the evidence that is open at a place, and how much there is."""

    evidence: tuple[int, ...] = ()
    total: int = 0


@dataclass(frozen=True)
class Seen(Chunk):
    """A chunk as the first pass saw it. `open` is None where it depends on the state in which the chunk begins; where it is not
    `fresh`, the machine was never at the start within the chunk, and what was open before still is."""

    piece: int
    open: Open | None
    fresh: bool


@dataclass(frozen=True)
class Begin:
    """What stands before a chunk."""

    state: int
    open: Open = Open()


Look = Callable[[Sequence[int], Mapping[int, int] | None], Sequence[Seen]]
"""Looks at pieces: at all their chunks, or at those whose first offsets are given, from the state they begin in."""


def correlate_files(df: DataFrame, spec: CorrelatorSpec, time: str) -> DataFrame | None:
    """The outputs of a simple table over a frame that is a plain read; None where it is not. Runs its first pass at once."""
    stream = stream_of(df, spec, time)
    if stream is None:
        return None
    session, table, most = df.sparkSession, spec.table, spec.evidence_max
    try:
        begins = begins_of(len(stream.pieces), _looking(session, stream, table, most), evidence_max=most)
    except Unfit:
        return None
    if begins is None:
        return None

    def push(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.chunks.look import push_piece

        for number in _numbers(batches):
            yield from push_piece(stream, number, table, begins, evidence_max=most)

    return _tasks(session, len(stream.pieces)).mapInArrow(push, OUTPUT_DDL)


def begins_of(pieces: int, look: Look, *, evidence_max: int) -> dict[int, Begin] | None:
    """What every chunk begins with, by its first offset; None where chunks overlap, so that they are in no order."""
    seen = sorted(look(range(pieces), None), key=lambda chunk: chunk.first)
    if overlap(seen):
        return None
    states = composed(seen)
    late = {chunk.first: states[chunk.first] for chunk in seen if chunk.open is None}
    if late:
        again = {chunk.first: chunk for chunk in look(sorted({c.piece for c in seen if c.first in late}), late)}
        seen = [replace(again[c.first], map=c.map) if c.first in late else c for c in seen]
    begins: dict[int, Begin] = {}
    now = Open()
    for chunk in seen:
        begins[chunk.first] = Begin(states[chunk.first], now)
        assert chunk.open is not None
        evidence = chunk.open.evidence if chunk.fresh else (*now.evidence, *chunk.open.evidence)
        total = chunk.open.total + (0 if chunk.fresh else now.total)
        now = Open(evidence[len(evidence) - min(evidence_max, len(evidence)) :], total)
    return begins


def begin_of(begins: Mapping[int, Begin], first: int) -> Begin:
    if first not in begins:
        raise Invalid(f"no chunk began at offset {first} in the first pass; the files must not change while they are read")
    return begins[first]


def _looking(session: SparkSession, stream: Stream, table: Table, evidence_max: int) -> Look:
    def look(pieces: Sequence[int], begins: Mapping[int, int] | None) -> Sequence[Seen]:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from headrace.spark.correlate.chunks.look import look_at_piece, told

            for number in _numbers(batches):
                yield told(look_at_piece(stream, pieces[number], table, begins, evidence_max=evidence_max))

        found = _tasks(session, len(pieces)).mapInArrow(run, SEEN_DDL).collect()
        return [_seen(*row) for row in found]

    return look


def _seen(
    piece: int, first: int | None, last: int, after: list[int], fresh: bool, evidence: list[int] | None, total: int
) -> Seen:
    if first is None:
        raise Unfit("a file can only be read by Spark")
    return Seen(first, last, tuple(after), True, piece, None if evidence is None else Open(tuple(evidence), total), fresh)


def _tasks(session: SparkSession, count: int) -> DataFrame:
    """So many tasks, each of which gets its number."""
    return session.range(0, count, 1, count)


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
