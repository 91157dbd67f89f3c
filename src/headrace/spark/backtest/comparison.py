"""What would fire and what did, compared: one row per output, in the tasks that read and step.

A task reads a range, classifies it by whole columns and sends what can matter on as chunks; a second task per partition of the keys
steps the correlators and compares their outputs with the live ones. Events themselves never pass through Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.db import map_database_errors, query
from headrace.evaluate import Classifier, CorrelatorSpec, Group, Rows, RuleSpec, make_groups, make_run, sort_rows
from headrace.lang.condition import micros_of
from headrace.spark.backtest.ranges import Source, TopicRange
from headrace.spark.frames import BUFFER_ROWS, CHUNK_TYPE, LIVE, RULES, ChunkBuffer, make_chunks, own_events, read_chunks
from headrace.spark.schema import columns_for, event_schema, text_literal
from headrace.spark.source import SourceOptions, Split, map_numbers, plan_splits, read_split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LIVE = ("name", "token", "key", "position", "time", "event_id", "evidence", "evidence_total")
"""As the query spark/recorded_correlations returns them."""


def compare_outputs(
    source: Source,
    part: TopicRange,
    rules: Sequence[RuleSpec],
    correlators: Sequence[CorrelatorSpec],
    namespace: str | None,
    *,
    only_counts: bool,
) -> DataFrame:
    """The outputs of the tested definitions and of the live ones of the same names over a range, which is read once; or, with
    `only_counts`, their numbers by day and token."""
    definitions = Definitions(tuple(rules), tuple(correlators), micros_of(part.to_at))
    firings: dict[str, list[int]] = {}
    for name, position, _ in _read_live("firings", part, [rule.name for rule in rules], namespace):
        firings.setdefault(str(name), []).append(int(str(position)))
    pushed = _read_live("correlations", part, [correlator.name for correlator in correlators], namespace)
    # Correlators, and firings of versions with another event type, need all events.
    types = sorted({rule.event_type for rule in rules}) if not correlators and not firings else ()
    options = source.read_options(part, definitions.columns, types)
    live = LiveOutputs(firings, _table(pushed))
    frame = scan(source.spark, options, plan_splits(options), definitions, live, only_counts=only_counts)
    return frame.selectExpr("*", f"{text_literal(part.shard)} as shard")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The outputs of all ranges."""
    return reduce(lambda frame, other: frame.union(other), frames)


def _read_live(name: str, part: TopicRange, names: Sequence[str], namespace: str | None) -> list[tuple[object, ...]]:
    if not names:
        return []
    parameters = {
        "topic_id": part.stored.topic_id,
        "first": part.stored.first,
        "until": part.stored.until,
        "from_at": part.from_at,
        "to_at": part.to_at,
        "names": list(names),
        "namespace": namespace,
    }
    statement = query("spark/recorded_firings") if name == "firings" else query("spark/recorded_correlations")
    with map_database_errors():
        return part.conn.execute(statement, parameters).fetchall()


def _table(rows: Sequence[Sequence[object]]) -> pa.Table:
    types = {
        "position": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        "evidence": pa.list_(pa.int64()),
        "evidence_total": pa.int64(),
    }
    columns = list(zip(*rows, strict=True)) or [()] * len(_LIVE)
    return pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in zip(_LIVE, columns, strict=True)})


PARTITION_EVENTS = 1_000_000
"""Events of the log per task that steps; a task holds those that can matter in memory."""
COMPARED_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("token", pa.string()),
        ("key", pa.string()),
        ("position", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("evidence", pa.list_(pa.int64())),
        ("evidence_total", pa.int64()),
        ("would", pa.int32()),
        ("live", pa.int32()),
        ("outputs", pa.int64()),
    ]
)
"""An output, of the tested definition (`would`), of the live one (`live`), or of both; or, where only counts are wanted, the number
of `outputs` of a day, with the day's begin as time and without the columns of a single output."""
_NO_ROWS = np.array([], np.int64)
_IDENTITY = ("name", "token", "key", "position", "time")


@dataclass(frozen=True)
class LiveOutputs:
    """What the live definitions did: positions at which each rule fired, and outputs of correlators (name, token, key, position,
    time, evidence, evidence_total)."""

    firings: Mapping[str, Sequence[int]]
    outputs: pa.Table


@dataclass(frozen=True)
class Definitions:
    """What is scanned for. Timers fire up to `until`, in microseconds."""

    rules: tuple[RuleSpec, ...]
    correlators: tuple[CorrelatorSpec, ...]
    until: int

    @property
    def groups(self) -> list[Group]:
        return make_groups(self.correlators)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read."""
        others = [*(["key", "timestamp"] if self.rules else []), *(["appended_at"] if self.correlators else [])]
        return columns_for(Classifier(self.rules, self.groups).roots, "type", "offset", *others)


def scan(
    spark: SparkSession,
    options: SourceOptions,
    splits: Sequence[Split],
    definitions: Definitions,
    live: LiveOutputs,
    *,
    only_counts: bool = False,
) -> DataFrame:
    """One row per output of the tested or the live definitions over these parts of one log, as in COMPARED_SCHEMA; with
    `only_counts`, one per day, token and side."""
    from pyspark.sql.pandas.types import from_arrow_schema

    events = sum(map(len, splits))
    context = getattr(spark, "_sc", None)
    cores = context.defaultParallelism if context is not None else 2
    count = max(cores, -(-events // PARTITION_EVENTS))
    schema = event_schema(definitions.columns)
    firings = {
        number: np.sort(np.array(live.firings.get(rule.name, ()), np.int64)) for number, rule in enumerate(definitions.rules)
    }

    def read(number: int) -> Iterator[pa.RecordBatch]:
        batches = read_split(options, schema, splits[number]) if splits else iter(())
        return _classify(batches, definitions, firings, number % count, count)

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compared = _step(batches, definitions)
        return _count(compared) if only_counts else compared

    chunks = map_numbers(spark, max(1, len(splits)), read, CHUNK_TYPE)
    if live.outputs.num_rows:
        parts = make_chunks(LIVE, live.outputs, count)
        chunks = chunks.union(spark.createDataFrame(pa.Table.from_batches(parts)))
    return chunks.repartitionById(count, "partition").mapInArrow(step, from_arrow_schema(COMPARED_SCHEMA))


def _classify(
    batches: Iterable[pa.RecordBatch],
    definitions: Definitions,
    firings: Mapping[int, np.ndarray],
    partition: int,
    count: int,
) -> Iterator[pa.RecordBatch]:
    """A range of events → chunks."""
    classifier, buffer = Classifier(definitions.rules, definitions.groups), ChunkBuffer(count, partition)
    for batch in batches:
        classified = classifier.classify(batch)
        would = dict(classified.firings())
        # Live rules may have fired where the tested ones cannot.
        for number in sorted(would.keys() | {number for number, positions in firings.items() if positions.size}):
            buffer.add(RULES, _fired(batch, number, would.get(number, _NO_ROWS), firings[number]))
        for group, rows in classified.group_rows():
            buffer.add(group, rows)
        yield from buffer.flush(BUFFER_ROWS)
    yield from buffer.flush()


def _fired(batch: pa.RecordBatch, number: int, would: np.ndarray, live: np.ndarray) -> pa.Table:
    """The rows of a batch on which a rule fires or fired."""
    offsets = batch.column("offset").to_numpy()
    is_live = np.zeros(offsets.size, bool)
    if live.size and offsets.size:
        near = live[np.searchsorted(live, offsets.min()) : np.searchsorted(live, offsets.max(), side="right")]
        is_live = np.isin(offsets, near)
    is_would = np.zeros(offsets.size, bool)
    is_would[would] = True
    rows = np.flatnonzero(is_would | is_live)
    at = pa.array(rows)
    return pa.table(
        {
            "number": pa.array(np.full(rows.size, number, np.int32)),
            "key": batch.column("key").take(at),
            "offset": batch.column("offset").take(at),
            "time": batch.column("timestamp").take(at).cast(pa.timestamp("us", tz="UTC")),
            "would": pa.array(is_would[rows].astype(np.int32)),
            "live": pa.array(is_live[rows].astype(np.int32)),
        }
    )


def _step(batches: Iterable[pa.RecordBatch], definitions: Definitions) -> Iterator[pa.RecordBatch]:
    """The chunks of a partition → compared outputs."""
    groups = read_chunks(batches)
    fired = groups.pop(RULES, None)
    if fired is not None:
        yield from _firings(fired, definitions).to_batches()
    live = groups.pop(LIVE, None)
    outputs = [
        table
        for number, rows in groups.items()
        for table in _step_group(definitions.groups[number], sort_rows(rows), definitions)
    ]
    would = pa.concat_tables(outputs) if outputs else COMPARED_SCHEMA.empty_table()
    yield from (would if live is None else _compare(would, live)).to_batches(max_chunksize=10_000)


def _firings(fired: pa.Table, definitions: Definitions) -> pa.Table:
    names = pa.array([rule.name for rule in definitions.rules], pa.string())
    rows = fired.num_rows
    positions = fired["offset"].combine_chunks()
    return pa.table(
        [
            pa.repeat(pa.scalar("rule", pa.string()), rows),
            names.take(fired["number"].combine_chunks()),
            pa.nulls(rows, pa.string()),
            fired["key"],
            positions,
            fired["time"],
            pa.ListArray.from_arrays(pa.array(np.arange(rows + 1), pa.int32()), positions),
            pa.array(np.ones(rows, np.int64)),
            fired["would"],
            fired["live"],
            pa.array(np.ones(rows, np.int64)),
        ],
        schema=COMPARED_SCHEMA,
    )


def _step_group(group: Group, rows: pa.Table, definitions: Definitions) -> Iterator[pa.Table]:
    for number, events in own_events(group, rows, definitions.correlators):
        spec = definitions.correlators[number]
        run = make_run(spec.table, evidence_max=spec.evidence_max, until=definitions.until, forgets=spec.forgets)
        for stepped in (run.feed(Rows.from_table(events)), run.finish()):
            yield _outputs(spec.name, stepped.outputs)


def _outputs(name: str, outputs: pa.Table) -> pa.Table:
    rows = outputs.num_rows
    return pa.table(
        [
            pa.repeat(pa.scalar("correlator", pa.string()), rows),
            pa.repeat(pa.scalar(name, pa.string()), rows),
            outputs["token"],
            outputs["key"],
            outputs["offset"],
            outputs["time"].cast(pa.timestamp("us", tz="UTC")),
            outputs["evidence"],
            outputs["evidence_total"],
            pa.array(np.ones(rows, np.int32)),
            pa.array(np.zeros(rows, np.int32)),
            pa.array(np.ones(rows, np.int64)),
        ],
        schema=COMPARED_SCHEMA,
    )


def _count(compared: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The outputs of a partition, counted by day, token and side: a row of millions would cost more than its pattern."""
    batches = [batch.select(["kind", "name", "token", "time", "would", "live"]) for batch in compared]
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    days = pc.floor_temporal(rows["time"], unit="day")
    by = ["kind", "name", "token", "time", "would", "live"]
    counts = rows.set_column(rows.schema.get_field_index("time"), "time", days).group_by(by).aggregate([([], "count_all")])
    columns = {**{name: counts[name] for name in by}, "outputs": counts["count_all"]}
    nothing = {field.name: pa.nulls(counts.num_rows, field.type) for field in COMPARED_SCHEMA if field.name not in columns}
    yield from pa.table({**columns, **nothing}).select(COMPARED_SCHEMA.names).cast(COMPARED_SCHEMA).to_batches()


def _compare(would: pa.Table, live: pa.Table) -> pa.Table:
    """The outputs of both sides; one that both have is one row."""
    numbered = _identity(would).append_column("would_at", pa.array(np.arange(would.num_rows)))
    others = _identity(live).append_column("live_at", pa.array(np.arange(live.num_rows)))
    both = numbered.join(others, list(_IDENTITY), join_type="inner")
    flags = np.zeros(would.num_rows, np.int32)
    flags[both["would_at"].to_numpy()] = 1
    only_live = np.ones(live.num_rows, bool)
    only_live[both["live_at"].to_numpy()] = False
    rest = live.filter(pa.array(only_live))
    rows = rest.num_rows
    columns: dict[str, object] = {name: rest[name] for name in rest.column_names if name in COMPARED_SCHEMA.names}
    columns |= {
        "kind": pa.repeat(pa.scalar("correlator", pa.string()), rows),
        "would": pa.array(np.zeros(rows, np.int32)),
        "live": pa.array(np.ones(rows, np.int32)),
        "outputs": pa.array(np.ones(rows, np.int64)),
    }
    marked = would.set_column(COMPARED_SCHEMA.names.index("live"), COMPARED_SCHEMA.field("live"), pa.array(flags))
    return pa.concat_tables([marked, pa.table([columns[name] for name in COMPARED_SCHEMA.names], schema=COMPARED_SCHEMA)])


def _identity(outputs: pa.Table) -> pa.Table:
    # A join takes no null for equal to a null; no output has these values.
    columns = {name: outputs[name] for name in _IDENTITY}
    columns["position"] = pc.fill_null(columns["position"], -1)
    columns["time"] = columns["time"].cast(pa.int64())
    return pa.table(columns)
