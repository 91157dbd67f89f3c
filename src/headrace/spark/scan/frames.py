"""Correlators over the events of any frame: tasks classify by whole columns and send chunks, a task per partition of the keys steps.

Promises: outputs, evidence and order of the database's engine. Rows may come in any order; those of a key meet in one task, which
holds its rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate import NUMBERED_SCHEMA, Classifier, CorrelatorSpec, Group, Rows, make_groups, make_run, sort_rows
from headrace.lang.condition import spark_literal
from headrace.lang.ecl import SimpleTable, leaves, types_that_matter
from headrace.spark.scan.chunks import CHUNK_TYPE, make_chunks, read_chunks
from headrace.spark.scan.collecting import own_events
from headrace.spark.schema import COLUMN_OF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUFFER_ROWS = 500_000
"""Classified events that a task keeps before it makes chunks of them."""
PARTITIONS_PER_CORE = 4
"""More partitions need less memory each, and cost a few milliseconds each."""


@dataclass(frozen=True)
class _TopicCorrelators:
    """The correlators of one topic, or of whatever topic the frame has; `numbers` are their places among all."""

    topic: str | None
    specs: tuple[CorrelatorSpec, ...]
    numbers: tuple[int, ...]
    first_group: int

    @cached_property
    def groups(self) -> list[Group]:
        return make_groups(self.specs)


def step_frame(df: DataFrame, specs: Sequence[CorrelatorSpec], untils: Sequence[int | None]) -> DataFrame:
    """The outputs of correlators over a frame of events, with the number of their correlator. Timers fire up to `untils`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from headrace.spark.source import are_readable, find_pieces, map_numbers, plain_batch

    topics = _by_topic(specs)
    count = _partitions(df)
    roots = {root for topic in topics for root in Classifier((), topic.groups).roots}
    names = {COLUMN_OF.get(root, root) for root in roots} | {"type", "offset", "appended_at", "event_id"}
    names |= {"topic"} if any(topic.topic is not None for topic in topics) else set()

    def classify(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _classify(batches, topics, count)

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _step(batches, topics, untils)

    reading = _Reading(tuple(column for column in df.columns if column in names), types_to_read(specs), types_that_push(specs))
    pieces = find_pieces(df)
    if pieces and are_readable(pieces, reading.columns):
        # Tasks read by themselves: nothing goes through Java but the chunks.
        def read(number: int) -> Iterator[pa.RecordBatch]:
            return classify(map(reading.narrow, map(plain_batch, pieces[number].batches(reading.columns))))

        chunks = map_numbers(df.sparkSession, len(pieces), read, CHUNK_TYPE)
    else:
        chunks = reading.select(df).mapInArrow(classify, CHUNK_TYPE)
    return chunks.repartitionById(count, "partition").mapInArrow(step, from_arrow_schema(NUMBERED_SCHEMA))


@dataclass(frozen=True)
class _Reading:
    """What is read of a frame: some columns, of events of some types (None: of all), and the ids of those that may push."""

    columns: tuple[str, ...]
    types: list[str] | None
    pushing: list[str] | None

    def select(self, df: DataFrame) -> DataFrame:
        """By Spark, before the rows go to Python: events of other types then cost next to nothing."""
        columns = list(map(_quoted, self.columns))
        if self.pushing is not None:
            columns[self.columns.index("event_id")] = f"case when {_is_among(self.pushing)} then event_id end as event_id"
        events = df if self.types is None else df.where(_is_among(self.types))
        return events.selectExpr(*columns)

    def narrow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same of a batch that a task has read."""
        if self.types is not None:
            batch = batch.filter(pc.is_in(batch.column("type"), pa.array(self.types, pa.string())))
        if self.pushing is not None:
            place = batch.schema.get_field_index("event_id")
            may_push = pc.is_in(batch.column("type"), pa.array(self.pushing, pa.string()))
            ids = pc.if_else(may_push, batch.column("event_id"), pa.scalar(None, pa.string()))
            batch = batch.set_column(place, "event_id", ids)
        return batch


def _is_among(types: Sequence[str]) -> str:
    return f"type in ({', '.join(map(spark_literal, types))})" if types else "false"


def _quoted(name: str) -> str:
    return f"`{name}`"


def types_to_read(specs: Sequence[CorrelatorSpec]) -> list[str] | None:
    """The event types that can change a state of some correlator; None if that may be any type."""
    types = [None if spec.forgets else types_that_matter(spec.table) for spec in specs]
    return sorted({name for own in types for name in own or ()}) if None not in types else None


def types_that_push(specs: Iterable[CorrelatorSpec]) -> list[str] | None:
    """The event types that can push a token of some correlator; None if that may be any type."""
    types: set[str] = set()
    for spec in specs:
        if spec.forgets or not spec.table.simple:
            return None
        (alphabet,), symbols = spec.table.alphabets, set(SimpleTable.of(spec.table).pushing)
        if not symbols.isdisjoint(leaves(alphabet.other)):
            return None
        types |= {name for name, decision in alphabet.types.items() if not symbols.isdisjoint(leaves(decision))}
    return sorted(types)


def _by_topic(specs: Sequence[CorrelatorSpec]) -> list[_TopicCorrelators]:
    topics: list[_TopicCorrelators] = []
    first = 0
    for name in dict.fromkeys(spec.topic for spec in specs):
        numbers = tuple(number for number, spec in enumerate(specs) if spec.topic == name)
        topics.append(_TopicCorrelators(name, tuple(specs[number] for number in numbers), numbers, first))
        first += len(topics[-1].groups)
    return topics


def _partitions(df: DataFrame) -> int:
    """As many as the session shuffles into, but not many more than it has cores."""
    session = df.sparkSession
    shuffled = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    context = getattr(session, "_sc", None)
    return shuffled if context is None else max(1, min(shuffled, PARTITIONS_PER_CORE * context.defaultParallelism))


def _classify(batches: Iterable[pa.RecordBatch], topics: Sequence[_TopicCorrelators], count: int) -> Iterator[pa.RecordBatch]:
    classifiers = [Classifier((), topic.groups, is_log=False) for topic in topics]
    pending: dict[int, list[pa.Table]] = {}
    rows = 0
    for batch in batches:
        for topic, classifier in zip(topics, classifiers, strict=True):
            own = batch if topic.topic is None else batch.filter(pc.equal(batch.column("topic"), topic.topic))
            for number, table in classifier.classify(own).group_rows() if own.num_rows else ():
                pending.setdefault(topic.first_group + number, []).append(table)
                rows += table.num_rows
        if rows >= BUFFER_ROWS:
            yield from _flush(pending, count)
            pending, rows = {}, 0
    yield from _flush(pending, count)


def _flush(pending: Mapping[int, Sequence[pa.Table]], count: int) -> Iterator[pa.RecordBatch]:
    for group, tables in pending.items():
        rows = pa.concat_tables(tables)
        if rows.num_rows:
            yield from make_chunks(group, rows, count)


def _step(
    batches: Iterable[pa.RecordBatch], topics: Sequence[_TopicCorrelators], untils: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    chunks = read_chunks(batches)
    for topic in topics:
        for place, group in enumerate(topic.groups):
            rows = chunks.pop(topic.first_group + place, None)
            if rows is None:
                continue
            for own_number, events in group.events(sort_rows(rows)):
                spec, number = topic.specs[own_number], topic.numbers[own_number]
                own = own_events(events, spec, is_alone=len(group.numbers) == 1)
                run = make_run(spec.table, evidence_max=spec.evidence_max, until=untils[number], forgets=spec.forgets)
                for stepped in (run.feed(Rows.from_table(own)), run.finish()) if own.num_rows else ():
                    numbers = pa.array(np.full(stepped.outputs.num_rows, number, np.int32))
                    yield from pa.Table.from_arrays([numbers, *stepped.outputs.columns], schema=NUMBERED_SCHEMA).to_batches(
                        max_chunksize=10_000
                    )
