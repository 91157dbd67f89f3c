"""Events classified by whole columns in the tasks that have them, and what travels from those tasks to the driver or to those that step.

Rows travel as chunks, many in one binary value: Spark then moves a few values per task instead of every event, and neither converts nor
sorts rows. Tasks send only what can matter. The driver collects a short range or a micro-batch, for it has the transaction to write the
results in, and classifies a short range itself, without a job."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.evaluate import Classifier, CorrelatorSpec, Group, RuleSpec, make_groups
from headrace.lang.ecl import SimpleTable
from headrace.spark.credentials import Access
from headrace.spark.schema import columns_for, event_schema
from headrace.spark.source import SHORT_MAX, Range, SourceOptions, map_numbers, read_split, split_for_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_SCHEMA = pa.schema([("partition", pa.int32()), ("group", pa.int32()), ("first", pa.int64()), ("data", pa.binary())])
CHUNK_TYPE = "partition int, group int, first bigint, data binary"
RULES, LIVE, ENDS = -1, -2, -3
"""Groups of rows that are no correlator's events: firings of rules, outputs of the live correlators, and where the log of a task's events
ends (shard, topic, offset, time)."""
BUFFER_ROWS = 500_000
"""Classified events that a task keeps before it makes chunks of them."""
CLASSIFIERS_MAX = 8
"""Classifiers that a process keeps."""
ROWS_AT_ONCE = 32_768
"""Rows that rules classify together: what a rule costs per batch is shared by more events."""
_classifiers: dict[object, Classifier] = {}
_FIRINGS = pa.schema([("number", pa.int32()), ("offset", pa.int64())])


class ChunkBuffer:
    """Rows of groups that wait to be sent. Those of a correlator's group go to the partitions of their keys; all others, whose groups are
    negative, to `home`."""

    def __init__(self, partitions: int = 1, home: int = 0) -> None:
        self._partitions = partitions
        self._home = home
        self._pending: dict[int, list[pa.Table]] = {}
        self._rows = 0

    def add(self, group: int, rows: pa.Table) -> None:
        if rows.num_rows:
            self._pending.setdefault(group, []).append(rows)
            self._rows += rows.num_rows

    def flush(self, rows_min: int = 0) -> Iterator[pa.RecordBatch]:
        """All rows as chunks, if there are enough of them."""
        if self._rows < rows_min:
            return
        for group, tables in self._pending.items():
            rows = pa.concat_tables(tables)
            if group < 0:
                yield make_chunk(self._home, group, rows)
            else:
                yield from make_chunks(group, rows, self._partitions)
        self._pending, self._rows = {}, 0


def make_chunks(group: int, rows: pa.Table, count: int) -> Iterator[pa.RecordBatch]:
    """The rows of a group as chunks, one per partition."""
    partitions = _partitions_of(rows["key"].combine_chunks(), count) if count > 1 else np.zeros(rows.num_rows, np.int64)
    for partition in np.unique(partitions).tolist():
        yield make_chunk(partition, group, rows if count == 1 else rows.filter(pa.array(partitions == partition)))


def make_chunk(partition: int, group: int, rows: pa.Table) -> pa.RecordBatch:
    first = rows["offset"][0].as_py() if "offset" in rows.column_names and rows.num_rows else 0
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().to_pybytes()
    return pa.record_batch([[partition], [group], [first], pa.array([data], pa.binary())], schema=CHUNK_SCHEMA)


def read_chunks(batches: Iterable[pa.RecordBatch]) -> dict[int, pa.Table]:
    """The rows of each group, by the first offset of their chunks."""
    chunks: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for group, first, data in zip(*(batch.column(name).to_pylist() for name in ("group", "first", "data")), strict=True):
            chunks.setdefault(group, []).append((first, data))
    return {
        group: pa.concat_tables([pa.ipc.open_stream(data).read_all() for _, data in sorted(parts, key=lambda part: part[0])])
        for group, parts in chunks.items()
    }


def _partitions_of(keys: pa.StringArray, count: int) -> NDArray[np.int64]:
    """The partition of each key."""
    encoded = pc.dictionary_encode(keys)
    numbers = np.fromiter(
        (zlib.crc32(key.encode()) % count for key in encoded.dictionary.to_pylist()), np.int64, len(encoded.dictionary)
    )
    partitions: NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return partitions


@dataclass(frozen=True)
class Watched:
    """Rules and correlators whose events are collected. `is_log`: the events come straight from the log, so that all payloads are JSON."""

    rules: tuple[RuleSpec, ...]
    correlators: tuple[CorrelatorSpec, ...]
    is_log: bool = True

    @property
    def identity(self) -> object:
        """Equal for definitions that classify alike."""
        specs = ((spec.name, spec.version, spec.pattern, spec.key, spec.forgets, spec.since_offset) for spec in self.correlators)
        return self.rules, tuple(specs), self.is_log

    @cached_property
    def groups(self) -> list[Group]:
        return make_groups(self.correlators)

    @property
    def classifier(self) -> Classifier:
        """A stream classifies by the same definitions batch after batch; to prepare a thousand rules takes a third of a second."""
        if self.identity not in _classifiers:
            if len(_classifiers) >= CLASSIFIERS_MAX:
                _classifiers.clear()
            _classifiers[self.identity] = Classifier(self.rules, self.groups, is_log=self.is_log)
        return _classifiers[self.identity]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read."""
        return columns_for(self.classifier.roots, "type", "offset", "appended_at")


@dataclass(frozen=True)
class ClassifiedEvents:
    """`firings`: number of the rule and offset. `events`: what each correlator steps. `ends`: the last offset and time per log."""

    firings: pa.Table
    events: dict[int, pa.Table]
    ends: dict[tuple[str | None, str | None], tuple[int, int]]


def classify_range(session: SparkSession, access: Access, range_: Range, watched: Watched) -> ClassifiedEvents:
    """Reads and classifies a range of positions of one log."""
    columns = watched.columns
    options = SourceOptions.from_options({**access.options(), "subscribe": range_.topic, "columns": ",".join(columns)})
    schema = event_schema(columns)
    parts = split_for_cores(session, range_)
    if len(range_) <= SHORT_MAX:
        chunks = (chunk for part in parts for chunk in classify_batches(read_split(options, schema, part), watched))
        return collect_chunks(chunks, watched)
    frame = map_numbers(
        session, len(parts), lambda number: classify_batches(read_split(options, schema, parts[number]), watched), CHUNK_TYPE
    )
    return collect_chunks(frame.toArrow().to_batches(), watched)


def classify_frame(df: DataFrame, watched: Watched, others: Sequence[str] = ("shard", "topic")) -> ClassifiedEvents:
    """Classifies the events of a frame; other columns are read as well where the frame has them."""
    needed = dict.fromkeys([*watched.columns, *(name for name in others if name in df.columns)])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return classify_batches(batches, watched)

    return collect_chunks(df.select(*needed).mapInArrow(run, CHUNK_TYPE).toArrow().to_batches(), watched)


def classify_batches(batches: Iterable[pa.RecordBatch], watched: Watched) -> Iterator[pa.RecordBatch]:
    """The work of a task: chunks for the driver."""
    classifier, buffer = watched.classifier, ChunkBuffer()
    for batch in batches:
        if not batch.num_rows:
            continue
        classified = classifier.classify(batch)
        offsets = batch.column("offset").to_numpy()
        for number, rows in classified.firings():
            buffer.add(RULES, pa.table([np.full(rows.size, number, np.int32), offsets[rows]], schema=_FIRINGS))
        for group, table in classified.group_rows():
            buffer.add(group, table)
        buffer.add(ENDS, _ends(batch))
    yield from buffer.flush()


def _ends(batch: pa.RecordBatch) -> pa.Table:
    columns = {
        name: batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        for name in ("shard", "topic")
    }
    places = {"last": batch.column("offset"), "time": batch.column("appended_at").cast(pa.int64())}
    grouped = pa.table({**columns, **places}).group_by(["shard", "topic"]).aggregate([("last", "max"), ("time", "max")])
    return grouped.select(["shard", "topic", "last_max", "time_max"])


def collect_chunks(chunks: Iterable[pa.RecordBatch], watched: Watched) -> ClassifiedEvents:
    """What tasks found, together."""
    groups = read_chunks(batch.cast(CHUNK_SCHEMA) for batch in chunks)
    firings = groups.pop(RULES, _FIRINGS.empty_table())
    ends: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for row in groups.pop(ENDS).to_pylist() if ENDS in groups else []:
        before = ends.get((row["shard"], row["topic"]), (0, 0))
        ends[row["shard"], row["topic"]] = max(before[0], row["last_max"]), max(before[1], row["time_max"])
    events: dict[int, pa.Table] = {}
    for number, group in enumerate(watched.groups):
        if (rows := groups.get(number)) is not None:
            events |= own_events(group, rows, watched.correlators)
    return ClassifiedEvents(firings, events, ends)


def own_events(group: Group, rows: pa.Table, specs: Sequence[CorrelatorSpec]) -> Iterator[tuple[int, pa.Table]]:
    """The events of a group as each of its correlators steps them: without those that change nothing in any of its states."""
    for number, events in group.events(rows):
        spec = specs[number]
        is_alone = len(group.numbers) == 1
        if not is_alone and not spec.forgets and spec.table.simple and (idle := SimpleTable.from_table(spec.table).idle):
            events = events.filter(pc.invert(pc.is_in(events["symbol"], pa.array(idle, pa.int64()))))
        if spec.since_offset:
            events = events.filter(pc.greater_equal(events["offset"], spec.since_offset))
        yield number, events


def within(table: pa.Table, after: int, upto: int) -> pa.Table:
    """The rows after a position up to another."""
    return table.filter(pc.and_(pc.greater(table["offset"], after), pc.less_equal(table["offset"], upto)))


def match_by_columns(
    df: DataFrame, rules: tuple[RuleSpec, ...], event_columns: Sequence[str], needed: Sequence[str]
) -> DataFrame:
    """One row per event and rule that fires on it: rule, version, action, and these columns of the event. `needed` are those that the
    conditions read."""
    from pyspark.sql import types

    head = [("rule", types.StringType()), ("version", types.IntegerType()), ("action", types.StringType())]
    fields = [types.StructField(name, type_) for name, type_ in head] + [df.schema[name] for name in event_columns]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _regroup(batches):
            yield from _hits(batch, rules, event_columns)

    selected = df.select(*dict.fromkeys([*event_columns, *needed]))
    return selected.mapInArrow(run, types.StructType(fields))


def _regroup(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= ROWS_AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _hits(batch: pa.RecordBatch, rules: tuple[RuleSpec, ...], event_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    numbers: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    for number, own in Watched(rules, (), is_log=False).classifier.classify(batch).firings():
        topic = rules[number].topic
        if topic is not None:
            own = own[pc.equal(batch.column("topic").take(pa.array(own)), topic).to_numpy(zero_copy_only=False)]
        numbers.append(np.full(own.size, number))
        rows.append(own)
    if not rows:
        return
    rule = pa.array(np.concatenate(numbers))
    events = batch.select(list(event_columns)).take(pa.array(np.concatenate(rows)))
    columns = [
        pa.array([spec.name for spec in rules], pa.string()).take(rule),
        pa.array([spec.version for spec in rules], pa.int32()).take(rule),
        pa.array([spec.action for spec in rules], pa.string()).take(rule),
        *events.columns,
    ]
    yield pa.RecordBatch.from_arrays(columns, names=["rule", "version", "action", *event_columns])
