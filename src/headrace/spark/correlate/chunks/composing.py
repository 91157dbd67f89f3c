"""One long stream without key, in parallel: every chunk steps all states it could begin in, and the maps are composed.

A chunk is an ascending run of offsets within a partition. It does not know in which state it begins, so it follows all of them.
Once they have all come to the start state it is *settled*: from there on outputs and evidence are exact, whatever was before.
What stands before that point (its head) is left for one short task, which goes from head to head in the order of the stream.
Where chunks do not settle soon (a pattern that counts in twos never forgets), their maps state → state are composed to the state
each one begins in, and a second pass starts from those. Nothing is approximate, and no row is sorted or sent between workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.lang.ecl import Flat, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.spark.correlate.chunks.run import Starts

HEAD, CHUNK = 2, 3
CHUNK_DDL = (
    "kind int, key string, token string, `offset` bigint, time bigint, place int, evidence array<bigint>,"
    " evidence_total bigint, event_id string, units array<int>, deadlines array<bigint>, started_at bigint, seen_at bigint,"
    " symbol int, first bigint, last bigint, map array<int>, settled boolean, whole boolean"
)


@dataclass(frozen=True)
class Chunk:
    """What the driver learns of a chunk: its offsets, its map, and whether its head came along."""

    first: int
    last: int
    map: tuple[int, ...]
    whole: bool


def correlate_chunks(rows: DataFrame, table: Table, *, evidence_max: int) -> DataFrame:
    """The outputs of a simple table over classified rows of one stream. Runs its first pass at once."""
    done = _pass(rows, table, evidence_max, None)
    chunks = _chunks(done)
    if overlap(chunks):
        # The frame's partitions are not ranges of offsets: make them so, and begin again.
        rows = rows.repartitionByRange("offset").sortWithinPartitions("offset")
        done = _pass(rows, table, evidence_max, None)
        chunks = _chunks(done)
    if not all(chunk.whole for chunk in chunks):
        done = _pass(rows, table, evidence_max, composed(chunks))
    outputs = done.where("kind = 0").selectExpr(*_OUTPUTS)
    return outputs.unionByName(_heads(done, table, evidence_max).selectExpr(*_OUTPUTS))


_OUTPUTS = ("key", "token", "`offset`", "time", "place", "evidence", "evidence_total", "event_id")


def composed(chunks: Sequence[Chunk]) -> dict[int, int]:
    """The state in which each chunk begins, by its first offset; chunks come in the order of the stream."""
    state = 0
    begins: dict[int, int] = {}
    for chunk in chunks:
        begins[chunk.first] = state
        state = chunk.map[state]
    return begins


def _pass(rows: DataFrame, table: Table, evidence_max: int, begins: Mapping[int, int] | None) -> DataFrame:
    possible = starts_of(table, begins)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.chunks.run import run_chunks

        return run_chunks(batches, table, possible, evidence_max=evidence_max)

    # Kept, since it is read three times; a local checkpoint is forgotten with the frame.
    return rows.mapInArrow(run, CHUNK_DDL).localCheckpoint()


def starts_of(table: Table, begins: Mapping[int, int] | None) -> Starts:
    """The states a chunk of this first offset may begin in, and whether its head may be given up when it grows long."""
    everywhere = reachable(table)

    def of(first: int) -> tuple[list[int], bool]:
        if begins is None:
            return everywhere, True
        if first not in begins:
            raise Invalid(f"no chunk began at offset {first} in the first pass; the frame must give the same rows every time")
        return [begins[first]], False

    return of


def reachable(table: Table) -> list[int]:
    """Without the others: the final states of a pattern that never ends would never join the rest."""
    (unit,) = table.units
    assert isinstance(unit, Flat)
    found = [0]
    for state in found:
        row = unit.next[state * unit.symbols : (state + 1) * unit.symbols]
        found += [after for after in dict.fromkeys(row) if after not in found]
    return found


def _chunks(done: DataFrame) -> list[Chunk]:
    found = done.where(f"kind = {CHUNK}").select("first", "last", "map", "whole").collect()
    return sorted((Chunk(row[0], row[1], tuple(row[2]), row[3]) for row in found), key=lambda chunk: chunk.first)


def overlap(chunks: Sequence[Chunk]) -> bool:
    return any(before.last >= after.first for before, after in pairwise(chunks))


def _heads(done: DataFrame, table: Table, evidence_max: int) -> DataFrame:
    """The outputs of the heads: one task, from chunk to chunk."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.chunks.run import run_heads

        return run_heads(batches, table, evidence_max=evidence_max)

    rows = done.where(f"kind in ({HEAD}, {CHUNK})").repartition(1).sortWithinPartitions("first", "kind", "offset")
    return rows.mapInArrow(run, CHUNK_DDL)
