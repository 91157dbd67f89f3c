"""Classified events of a short range or of a micro-batch, collected by the driver, which has the transaction to write the results in.

Tasks classify and send only what can matter; the driver classifies a short range itself, without a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate import Classifier, CorrelatorSpec, Group, RuleSpec, make_groups
from headrace.lang.ecl import SimpleTable
from headrace.spark.credentials import Access
from headrace.spark.scan.chunks import CHUNK_SCHEMA, CHUNK_TYPE, RULES, make_chunk, read_chunks
from headrace.spark.schema import COLUMN_OF, EVENT_COLUMNS, event_schema
from headrace.spark.source import SHORT_MAX, Range, SourceOptions, map_numbers, read_split, split_for_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDS = -3
"""The group of rows that say where the log of a task's events ends: shard, topic, offset, time."""
PREPARED_MAX = 8
"""Classifiers that a process keeps."""
_prepared: dict[object, Classifier] = {}
_FIRINGS = pa.schema([("number", pa.int32()), ("offset", pa.int64())])


@dataclass(frozen=True)
class Watched:
    """Rules and correlators whose events are collected."""

    rules: tuple[RuleSpec, ...]
    correlators: tuple[CorrelatorSpec, ...]

    @property
    def identity(self) -> object:
        """Equal for definitions that classify alike."""
        specs = ((spec.name, spec.version, spec.pattern, spec.key, spec.forgets, spec.since_offset) for spec in self.correlators)
        return self.rules, tuple(specs)

    @cached_property
    def groups(self) -> list[Group]:
        return make_groups(self.correlators)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read."""
        names = {COLUMN_OF.get(root, root) for root in _classifier(self).roots} | {"type", "offset", "appended_at"}
        return tuple(column.name for column in EVENT_COLUMNS if column.name in names)


@dataclass(frozen=True)
class ClassifiedEvents:
    """`firings`: number of the rule and offset. `events`: what each correlator steps. `ends`: the last offset and time per log."""

    firings: pa.Table
    events: dict[int, pa.Table]
    ends: dict[tuple[str | None, str | None], tuple[int, int]]


def classify_range(session: SparkSession, access: Access, range_: Range, watched: Watched) -> ClassifiedEvents:
    """Reads and classifies a range of positions of one log."""
    columns = watched.columns
    options = SourceOptions.of({**access.options(), "subscribe": range_.topic, "columns": ",".join(columns)})
    schema = event_schema(columns)
    parts = split_for_cores(session, range_)
    if len(range_) <= SHORT_MAX:
        chunks = (chunk for part in parts for chunk in _classify(read_split(options, schema, part), watched))
        return _collect(chunks, watched)
    frame = map_numbers(
        session, len(parts), lambda number: _classify(read_split(options, schema, parts[number]), watched), CHUNK_TYPE
    )
    return _collect(frame.toArrow().to_batches(), watched)


def classify_frame(df: DataFrame, watched: Watched) -> ClassifiedEvents:
    """Classifies the events of a frame."""
    needed = [*watched.columns, *(name for name in ("shard", "topic") if name in df.columns)]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _classify(batches, watched)

    return _collect(df.select(*needed).mapInArrow(run, CHUNK_TYPE).toArrow().to_batches(), watched)


def _classify(batches: Iterable[pa.RecordBatch], watched: Watched) -> Iterator[pa.RecordBatch]:
    classifier = _classifier(watched)
    pending: dict[int, list[pa.Table]] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        classified = classifier.classify(batch)
        offsets = batch.column("offset").to_numpy()
        for number, rows in classified.firings():
            if rows.size:
                fired = pa.table([np.full(rows.size, number, np.int32), offsets[rows]], schema=_FIRINGS)
                pending.setdefault(RULES, []).append(fired)
        for group, table in classified.group_rows():
            if table.num_rows:
                pending.setdefault(group, []).append(table)
        pending.setdefault(ENDS, []).append(_ends(batch))
    for group, tables in pending.items():
        yield make_chunk(0, group, pa.concat_tables(tables))


def _classifier(watched: Watched) -> Classifier:
    """A stream classifies by the same definitions batch after batch; to prepare a thousand rules takes a third of a second."""
    if watched.identity not in _prepared:
        if len(_prepared) >= PREPARED_MAX:
            _prepared.clear()
        _prepared[watched.identity] = Classifier(watched.rules, watched.groups)
    return _prepared[watched.identity]


def _ends(batch: pa.RecordBatch) -> pa.Table:
    names = [name for name in ("shard", "topic") if name in batch.schema.names]
    columns = {
        name: batch.column(name) if name in names else pa.nulls(batch.num_rows, pa.string()) for name in ("shard", "topic")
    }
    places = {"last": batch.column("offset"), "time": batch.column("appended_at").cast(pa.int64())}
    grouped = pa.table({**columns, **places}).group_by(["shard", "topic"]).aggregate([("last", "max"), ("time", "max")])
    return grouped.select(["shard", "topic", "last_max", "time_max"])


def _collect(chunks: Iterable[pa.RecordBatch], watched: Watched) -> ClassifiedEvents:
    groups = read_chunks(batch.cast(CHUNK_SCHEMA) for batch in chunks)
    firings = groups.pop(RULES, _FIRINGS.empty_table())
    ends: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for row in groups.pop(ENDS).to_pylist() if ENDS in groups else []:
        before = ends.get((row["shard"], row["topic"]), (0, 0))
        ends[row["shard"], row["topic"]] = max(before[0], row["last_max"]), max(before[1], row["time_max"])
    events: dict[int, pa.Table] = {}
    for number, group in enumerate(watched.groups):
        rows = groups.get(number)
        for correlator, own in group.events(rows) if rows is not None else ():
            events[correlator] = own_events(own, watched.correlators[correlator], is_alone=len(group.numbers) == 1)
    return ClassifiedEvents(firings, events, ends)


def own_events(events: pa.Table, spec: CorrelatorSpec, *, is_alone: bool) -> pa.Table:
    """The events of a group that one of its correlators steps: without those that change nothing in any of its states."""
    if not is_alone and not spec.forgets and spec.table.simple and (idle := SimpleTable.of(spec.table).idle):
        events = events.filter(pc.invert(pc.is_in(events["symbol"], pa.array(idle, pa.int64()))))
    if spec.since_offset:
        events = events.filter(pc.greater_equal(events["offset"], spec.since_offset))
    return events


def within(table: pa.Table, after: int, upto: int) -> pa.Table:
    """The rows after a position up to another."""
    return table.filter(pc.and_(pc.greater(table["offset"], after), pc.less_equal(table["offset"], upto)))
