"""Correlators over the events of any frame, by tasks: keys side by side, or one long stream without a key in chunks.

With keys, tasks classify by whole columns and send chunks of rows, and a task per partition of the keys steps. Rows may come in any order;
those of a key meet in one task, which holds its rows in memory.

A chunk of a stream without a key is an ascending run of offsets within a partition. It does not know the state in which it begins, so it
steps all of them. Once they have all reached the start state the chunk is *settled*: from there on outputs and evidence are exact, whatever
came before. The rows before that point (its head) are left for one short task, which goes from head to head in the order of the stream.
Where chunks do not settle soon (a pattern that counts in twos never does), their maps state → state are composed to the state in which each
one begins, and a second pass starts from those. Nothing is approximate, and no row is sorted or sent between workers.

A correlator runs over one log: positions of two logs say nothing about the order of their events. Promises: outputs, evidence and order of
the database's engine; a frame with events of several topics or shards is rejected, not mixed; timers fire up to the end of the log,
whatever key has its last event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.core import Invalid
from headrace.evaluate import (
    CHUNK,
    CHUNK_SCHEMA,
    HEAD,
    NUMBERED_SCHEMA,
    OUTPUT,
    OUTPUT_SCHEMA,
    Classifier,
    CorrelatorSpec,
    Group,
    Rows,
    make_groups,
    make_run,
    run_chunks,
    run_heads,
    sort_rows,
)
from headrace.lang.condition import micros_of
from headrace.lang.ecl import SimpleTable, Table, leaves, types_that_matter
from headrace.spark.frames.classified_events import BUFFER_ROWS, CHUNK_TYPE, ChunkBuffer, own_events, read_chunks
from headrace.spark.schema import columns_for, text_literal
from headrace.spark.source import LogRead, Piece, are_readable, find_log_read, find_pieces, has_one_log, map_numbers, plain_batch

PARTITIONS_PER_CORE = 4
"""More partitions need less memory each, and cost a few milliseconds each."""
Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


LogName = tuple[str | None, str | None]
"""Shard and topic; None where the frame does not say."""


@dataclass(frozen=True)
class FrameLogs:
    """A frame, and its logs with the time of their last events in microseconds. Without `ends`, it has one log, and nobody needs
    its end."""

    frame: DataFrame
    ends: Mapping[LogName, int] | None

    def end_of(self, spec: CorrelatorSpec) -> int | None:
        """Where the log of a correlator ends; None for a frame without events of it. Raises Invalid for several logs."""
        if self.ends is None:
            return None
        logs = [log for log in self.ends if spec.topic is None or log[1] is None or log[1] == spec.topic]
        if len(logs) > 1:
            names = ", ".join(sorted(f"{topic or 'a topic'} on shard {shard or '?'}" for shard, topic in logs))
            advice = "filter the frame, or give the correlator a topic" if spec.topic is None else "filter the frame by shard"
            raise Invalid(
                f"correlator {spec.name!r} runs over one log, but the frame has events of {len(logs)}: {names}; {advice}"
            )
        return self.ends[logs[0]] if logs else None


def find_frame_logs(df: DataFrame, specs: Sequence[CorrelatorSpec], columns: Sequence[str], until: datetime | None) -> FrameLogs:
    """The logs of a frame. A plain read of the source asks the database, and is narrowed to these columns; for other frames, a
    job counts them, unless they are known to come from one log whose end is not needed."""
    if df.isStreaming:
        raise Invalid("correlate takes a batch; for a stream use correlate_stream, or run the correlator as a pipeline")
    needs_end = until is None and any(spec.table.timers for spec in specs)
    read = find_log_read(df)
    if read is not None and read.is_whole and _keeps_the_end(read):
        positions, times = read.ends()
        frame = read.narrow(df, columns, positions)
        return FrameLogs(frame, {log: micros_of(time) for log, time in times.items()})
    if not needs_end and (read.is_one_log if read is not None else has_one_log(df)):
        return FrameLogs(df, None)
    return FrameLogs(df, _count_logs(df))


def _keeps_the_end(read: LogRead) -> bool:
    """The options do not cut the log before its end, so that the end of the log is the end of the frame."""
    rows = read.options.rows
    return rows.from_time is None and rows.to_time is None and read.options.to_position is None


def _count_logs(df: DataFrame) -> dict[LogName, int]:
    names = [name for name in ("shard", "topic") if name in df.columns]
    ends = df.groupBy(*names).agg({"appended_at": "max"}).toDF(*names, "last").selectExpr(*names, "unix_micros(last) as last")
    logs: dict[LogName, int] = {}
    for row in ends.collect():
        values = row.asDict()
        if values["last"] is not None:
            logs[values.get("shard"), values.get("topic")] = values["last"]
    return logs


@dataclass(frozen=True)
class Reading:
    """What is read of a frame: some columns, of events of some types (None: of all), and the ids of those that may push."""

    columns: tuple[str, ...]
    types: list[str] | None
    pushing: list[str] | None

    @classmethod
    def for_specs(cls, df: DataFrame, specs: Sequence[CorrelatorSpec]) -> Reading:
        roots = Classifier((), make_groups(specs)).roots
        topic = ["topic"] if any(spec.topic is not None for spec in specs) else []
        names = columns_for(roots, "type", "offset", "appended_at", "event_id", *topic)
        return cls(tuple(column for column in df.columns if column in names), types_to_read(specs), types_that_push(specs))

    def pieces(self, df: DataFrame) -> tuple[Piece, ...]:
        """The frame in pieces that tasks read by themselves; none where only Spark can read it."""
        pieces = find_pieces(df)
        return pieces if are_readable(pieces, self.columns) else ()

    def map_pieces(self, df: DataFrame, pieces: Sequence[Piece], work: Work, schema: StructType | str) -> DataFrame:
        """Runs work on rows that tasks read: nothing goes through Java but the results."""

        def read(number: int) -> Iterator[pa.RecordBatch]:
            return work(map(plain_batch, pieces[number].batches(self.columns)))

        return map_numbers(df.sparkSession, len(pieces), read, schema)

    def select(self, df: DataFrame) -> DataFrame:
        """The rows by Spark, before they go to Python: events of other types then cost next to nothing."""
        columns = [f"`{name}`" for name in self.columns]
        if self.pushing is not None:
            columns[self.columns.index("event_id")] = f"case when {_is_among(self.pushing)} then event_id end as event_id"
        events = df if self.types is None else df.where(_is_among(self.types))
        return events.selectExpr(*columns)

    def narrow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same of a batch that a task has read, so that less is sent."""
        if self.types is not None:
            batch = batch.filter(pc.is_in(batch.column("type"), pa.array(self.types, pa.string())))
        if self.pushing is not None:
            place = batch.schema.get_field_index("event_id")
            may_push = pc.is_in(batch.column("type"), pa.array(self.pushing, pa.string()))
            ids = pc.if_else(may_push, batch.column("event_id"), pa.scalar(None, pa.string()))
            batch = batch.set_column(place, "event_id", ids)
        return batch


def _is_among(types: Sequence[str]) -> str:
    return f"type in ({', '.join(map(text_literal, types))})" if types else "false"


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
        (alphabet,), symbols = spec.table.alphabets, set(SimpleTable.from_table(spec.table).pushing)
        if not symbols.isdisjoint(leaves(alphabet.other)):
            return None
        types |= {name for name, decision in alphabet.types.items() if not symbols.isdisjoint(leaves(decision))}
    return sorted(types)


@dataclass(frozen=True)
class TopicCorrelators:
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
    topics = correlators_by_topic(specs)
    count = _partitions(df)

    def classify(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return classify_topics(batches, topics, count)

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _step(batches, topics, specs, untils)

    reading = Reading.for_specs(df, specs)
    pieces = reading.pieces(df)
    if pieces:
        chunks = reading.map_pieces(df, pieces, lambda batches: classify(map(reading.narrow, batches)), CHUNK_TYPE)
    else:
        chunks = reading.select(df).mapInArrow(classify, CHUNK_TYPE)
    return chunks.repartitionById(count, "partition").mapInArrow(step, from_arrow_schema(NUMBERED_SCHEMA))


def correlators_by_topic(specs: Sequence[CorrelatorSpec]) -> list[TopicCorrelators]:
    topics: list[TopicCorrelators] = []
    first = 0
    for name in dict.fromkeys(spec.topic for spec in specs):
        numbers = tuple(number for number, spec in enumerate(specs) if spec.topic == name)
        topics.append(TopicCorrelators(name, tuple(specs[number] for number in numbers), numbers, first))
        first += len(topics[-1].groups)
    return topics


def _partitions(df: DataFrame) -> int:
    """As many as the session shuffles into, but not many more than it has cores."""
    session = df.sparkSession
    shuffled = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    context = getattr(session, "_sc", None)
    return shuffled if context is None else max(1, min(shuffled, PARTITIONS_PER_CORE * context.defaultParallelism))


def classify_topics(
    batches: Iterable[pa.RecordBatch], topics: Sequence[TopicCorrelators], count: int
) -> Iterator[pa.RecordBatch]:
    classifiers = [Classifier((), topic.groups, is_log=False) for topic in topics]
    buffer = ChunkBuffer(count)
    for batch in batches:
        for topic, classifier in zip(topics, classifiers, strict=True):
            own = _events_of_topic(batch, topic.topic)
            for number, table in classifier.classify(own).group_rows() if own.num_rows else ():
                buffer.add(topic.first_group + number, table)
        yield from buffer.flush(BUFFER_ROWS)
    yield from buffer.flush()


def _events_of_topic(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    return batch if topic is None else batch.filter(pc.equal(batch.column("topic"), topic))


def _step(
    batches: Iterable[pa.RecordBatch],
    topics: Sequence[TopicCorrelators],
    specs: Sequence[CorrelatorSpec],
    untils: Sequence[int | None],
) -> Iterator[pa.RecordBatch]:
    for number, events in events_by_correlator(batches, topics):
        spec = specs[number]
        run = make_run(spec.table, evidence_max=spec.evidence_max, until=untils[number], forgets=spec.forgets)
        for stepped in (run.feed(Rows.from_table(events)), run.finish()) if events.num_rows else ():
            numbers = pa.array(np.full(stepped.outputs.num_rows, number, np.int32))
            outputs = pa.Table.from_arrays([numbers, *stepped.outputs.columns], schema=NUMBERED_SCHEMA)
            yield from outputs.to_batches(max_chunksize=10_000)


def events_by_correlator(chunks: Iterable[pa.RecordBatch], topics: Sequence[TopicCorrelators]) -> Iterator[tuple[int, pa.Table]]:
    """The events in chunks as each correlator steps them, by its number."""
    groups = read_chunks(chunks)
    for topic in topics:
        for place, group in enumerate(topic.groups):
            rows = groups.pop(topic.first_group + place, None)
            for number, events in own_events(group, sort_rows(rows), topic.specs) if rows is not None else ():
                yield topic.numbers[number], events


@dataclass(frozen=True)
class ChunkSummary:
    """What the driver learns of a chunk: its offsets and its map state → state. `whole`: its whole head is there."""

    first: int
    last: int
    map: tuple[int, ...]
    whole: bool


def step_stream(df: DataFrame, spec: CorrelatorSpec) -> DataFrame:
    """The outputs of a simple table over one stream without a key, in chunks. Runs its first pass at once."""
    reading = Reading.for_specs(df, [spec])
    schema = from_arrow_schema(CHUNK_SCHEMA)
    by_range = df.repartitionByRange("offset").sortWithinPartitions("offset")
    sources: list[Callable[[Work], DataFrame]] = [
        lambda work: reading.select(df).mapInArrow(work, schema),
        lambda work: reading.select(by_range).mapInArrow(work, schema),
    ]
    if pieces := reading.pieces(df):
        sources.insert(0, lambda work: reading.map_pieces(df, pieces, work, schema))
    for source in sources:
        result = _run_pass(source, spec, None)
        chunks = _summaries(result)
        if all(before.last < after.first for before, after in pairwise(chunks)):
            break
    if not all(chunk.whole for chunk in chunks):
        result = _run_pass(source, spec, compose(chunks))
    heads = result.where(f"kind in ({HEAD}, {CHUNK})").repartition(1).sortWithinPartitions("first", "kind", "offset")
    # One task, from chunk to chunk.
    head_outputs = heads.mapInArrow(partial(run_heads, table=spec.table, evidence_max=spec.evidence_max), schema)
    return result.where(f"kind = {OUTPUT}").union(head_outputs).select(*OUTPUT_SCHEMA.names)


def classify_stream(batches: Iterable[pa.RecordBatch], spec: CorrelatorSpec) -> Iterator[pa.RecordBatch]:
    """The events of a stream that its correlator steps: symbol, offset, time, event_id."""
    groups = make_groups([spec])
    classifier = Classifier((), groups, is_log=False)
    for batch in batches:
        own = _events_of_topic(batch, spec.topic)
        for _, rows in classifier.classify(own).group_rows() if own.num_rows else ():
            for _, events in own_events(groups[0], rows, [spec]):
                yield from events.select(["symbol", "offset", "time", "event_id"]).combine_chunks().to_batches()


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
    reachable = SimpleTable.from_table(table).reachable

    def states(first: int) -> list[int]:
        if begins is None:
            return reachable
        if first not in begins:
            raise Invalid(f"no chunk began at offset {first} in the first pass; the rows must be the same every time")
        return [begins[first]]

    return states


def _run_pass(source: Callable[[Work], DataFrame], spec: CorrelatorSpec, begins: Mapping[int, int] | None) -> DataFrame:
    # Here, so that tasks get the table: they need not compile the pattern.
    table, evidence_max = spec.table, spec.evidence_max
    states = start_states(table, begins)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        events = classify_stream(batches, spec)
        return run_chunks(events, table, states, evidence_max=evidence_max, is_first_pass=begins is None)

    # Kept, since it is read three times; a local checkpoint is dropped with the frame.
    return source(run).localCheckpoint()


def _summaries(result: DataFrame) -> list[ChunkSummary]:
    """The chunks in the order of the stream."""
    rows = result.where(f"kind = {CHUNK}").select("first", "last", "map", "whole").collect()
    chunks = [ChunkSummary(first, last, tuple(map_), whole) for first, last, map_, whole in rows]
    return sorted(chunks, key=lambda chunk: chunk.first)
