"""correlate: DataFrames of events → the tokens that a pattern pushes, by the compiled table over sorted rows.

Promises: outputs, evidence and order of the database. The outputs of a key are ordered by (time, offset nulls first, place)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.lang.condition import micros_of, spark_literal
from headrace.lang.ecl import SimpleTable, Table
from headrace.spark.correlate.chunks.driver import FrameRows, TaskRows, correlate_chunks
from headrace.spark.correlate.chunks.stream import stream_of
from headrace.spark.correlate.order import by_key
from headrace.spark.correlate.symbols import Classifier, CorrelatorSpec, build_classifier, extractions
from headrace.spark.match.matching import check_columns, with_emitted_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NEEDED = ("type", "payload", "offset", "event_id")
_STATE = ("key", "units", "deadlines", "evidence", "evidence_total", "started_at", "seen_at")


@dataclass(frozen=True)
class CorrelatedBatch:
    """The `outputs` of a batch, and `states`, the rows of the keys that changed. Both are cached until `release`."""

    outputs: DataFrame
    states: DataFrame
    _cached: DataFrame

    def release(self) -> None:
        self._cached.unpersist()


def correlate(df: DataFrame, spec: CorrelatorSpec, *, until: datetime | None = None) -> DataFrame:
    """The outputs of a correlator over a whole frame of one topic and shard: correlator, version, key, token, offset, time,
    place, evidence, evidence_total, event_id.

    Every key starts at its first event; timers fire up to the last event of their key, or up to `until`. A pattern without key
    runs in parallel where its table is simple; its first pass runs at once. Raises PatternError, ConditionError, Invalid."""
    classifier = build_classifier(spec)
    rows = classify_events(df, spec, classifier)
    if spec.key is not None or not classifier.table.simple:
        return present_outputs(run_rows(rows, spec, classifier.table, until=until, with_states=False), spec)
    stream = stream_of(df, spec, _time_column(df.columns))
    outputs = None
    if stream is not None:
        outputs = correlate_chunks(TaskRows(df.sparkSession, stream), classifier.table, evidence_max=spec.evidence_max)
    if outputs is None:
        outputs = correlate_chunks(FrameRows(rows), classifier.table, evidence_max=spec.evidence_max)
    assert outputs is not None
    return present_outputs(outputs, spec)


def correlate_batch(
    df: DataFrame, spec: CorrelatorSpec, states: DataFrame | None = None, *, until: datetime | None = None
) -> CorrelatedBatch:
    """The same from stored states (key, units, deadlines, evidence, evidence_total, started_at, seen_at; times in microseconds)
    and with the states at the end. A key without a state starts at its first event."""
    classifier = build_classifier(spec)
    rows = classify_events(df, spec, classifier)
    if states is not None:
        symbols = [f"-1 as {name}" for name in classifier.symbol_names]
        event = ("-1L as offset", "started_at as time", "string(null) as event_id")
        rows = rows.unionByName(states.selectExpr(*_STATE, *symbols, *event), allowMissingColumns=True)
    both = run_rows(rows, spec, classifier.table, until=until, with_states=True).persist()
    return CorrelatedBatch(present_outputs(both.where("kind = 0"), spec), both.where("kind = 1").select(*_STATE), both)


def classify_events(df: DataFrame, spec: CorrelatorSpec, classifier: Classifier) -> DataFrame:
    """The events that can matter, classified: key, symbol (symbol1, … for more alphabets), offset, time, event_id."""
    time = _time_column(df.columns)
    check_columns(df.columns, [*NEEDED, time, *(["topic"] if spec.topic is not None else [])], classifier.roots)
    # Few steps: Spark analyses the frame again at each, and a micro-batch must not wait for that.
    filters = [f"topic = {spark_literal(spec.topic)}"] if spec.topic is not None else []
    filters += [f"`offset` >= {spec.since_offset}"] if spec.since_offset else []
    events = df.where(" and ".join(filters)) if filters else df
    fields = extractions(classifier.fields)
    extracted = with_emitted_at(events, classifier.roots).selectExpr("*", *fields) if fields else events
    symbols = [f"{sql} as {name}" for sql, name in zip(classifier.symbols, classifier.symbol_names, strict=True)]
    rows = extracted.selectExpr(f"{classifier.key} as key", *symbols, "`offset`", f"unix_micros({time}) as time", "event_id")
    filters = ["key is not null"] if spec.key is not None else []
    # Idle symbols change nothing in any state. With timers every event counts, since an instance starts with its first.
    if not spec.forgets and classifier.table.simple and (idle := SimpleTable.of(classifier.table).idle):
        filters.append(f"symbol not in ({', '.join(map(str, idle))})")
    return rows.where(" and ".join(filters)) if filters else rows


def _time_column(columns: Sequence[str]) -> str:
    return "appended_at" if "appended_at" in columns else "timestamp"


def run_rows(rows: DataFrame, spec: CorrelatorSpec, table: Table, *, until: datetime | None, with_states: bool) -> DataFrame:
    """Steps classified rows by a table: outputs and, if asked for, states, as rows of one schema."""
    from headrace.spark.correlate.rows import BOTH_DDL

    last = None if until is None else micros_of(until)
    evidence_max, forgets = spec.evidence_max, spec.forgets

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.stepping import step_batches

        return step_batches(batches, table, evidence_max=evidence_max, until=last, with_states=with_states, forgets=forgets)

    ordered = rows.repartition(1).sortWithinPartitions("offset") if spec.key is None else by_key(rows)
    return ordered.mapInArrow(step, BOTH_DDL)


def present_outputs(outputs: DataFrame, spec: CorrelatorSpec) -> DataFrame:
    """Output rows as the caller sees them."""
    from pyspark.sql import functions

    return outputs.select(
        functions.lit(spec.name).alias("correlator"),
        functions.lit(spec.version).alias("version"),
        *("key", "token", "offset"),
        functions.expr("timestamp_micros(time)").alias("time"),
        *("place", "evidence", "evidence_total", "event_id"),
    )
