"""correlate: DataFrames of events → the tokens that a pattern pushes, by the compiled table over sorted rows.

Promises: outputs, evidence and order of the database. The outputs of a key are ordered by (time, offset nulls first, place)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.lang.condition import micros_of, spark_literal
from headrace.lang.ecl import SimpleTable, Table
from headrace.spark.correlate.symbols import Classifier, CorrelatorSpec, build_classifier, extractions
from headrace.spark.match import check_columns, with_emitted_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.spark.correlate.rows import Stepped

NEEDED = ("type", "payload", "offset", "event_id")


@dataclass(frozen=True)
class MicroBatch:
    """The classified events of a micro-batch: key, symbol, offset, time, event_id.

    The caller reads the states of `keys`, calls `step`, and writes outputs, states and cursor in one transaction. So a batch that
    runs again after a crash finds either all of it done or nothing."""

    spec: CorrelatorSpec
    events: pa.Table

    @property
    def keys(self) -> list[str]:
        """The keys whose states are needed, each once."""
        return list(self.events["key"].unique().to_pylist())

    def step(self, states: pa.Table) -> Stepped:
        """Outputs and changed states, from the stored states (STATE_SCHEMA; a key without one starts at its first event)."""
        from headrace.spark.correlate.stepping import step

        return step(self.events, states, self.spec.table, evidence_max=self.spec.evidence_max, forgets=self.spec.forgets)


def state_schema() -> pa.Schema:
    """The columns of an instance state in `MicroBatch.step`."""
    from headrace.spark.correlate.rows import STATE_SCHEMA

    return STATE_SCHEMA


def take_micro_batch(df: DataFrame, spec: CorrelatorSpec) -> MicroBatch:
    """Classifies a micro-batch in parallel, and collects the events that can matter."""
    return MicroBatch(spec, classify_events(df, spec, build_classifier(spec)).toArrow())


def correlate(df: DataFrame, spec: CorrelatorSpec, *, until: datetime | None = None) -> DataFrame:
    """The outputs of a correlator over a whole frame of one topic and shard: correlator, version, key, token, offset, time,
    place, evidence, evidence_total, event_id, captured (what the registers held, as JSON).

    Every key starts at its first event; timers fire up to the last event of their key, or up to `until`. A pattern without key
    runs in parallel where its table is simple; its first pass runs at once. Raises PatternError, ConditionError, Invalid."""
    classifier = build_classifier(spec)
    rows = classify_events(df, spec, classifier)
    if spec.key is not None or not classifier.table.simple:
        return present_outputs(run_rows(rows, spec, classifier.table, until=until), spec)
    from headrace.spark.correlate.chunks.driver import correlate_chunks

    return present_outputs(correlate_chunks(df, rows, spec, time=_time_column(df.columns)), spec)


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
    symbols += [f"array({', '.join(classifier.facts)}) as facts"] if classifier.facts else []
    rows = extracted.selectExpr(f"{classifier.key} as key", *symbols, "`offset`", f"unix_micros({time}) as time", "event_id")
    filters = ["key is not null"] if spec.key is not None else []
    # Idle symbols change nothing in any state. With timers every event counts, since an instance starts with its first.
    if not spec.forgets and classifier.table.simple and (idle := SimpleTable.of(classifier.table).idle):
        filters.append(f"symbol not in ({', '.join(map(str, idle))})")
    return rows.where(" and ".join(filters)) if filters else rows


def _time_column(columns: Sequence[str]) -> str:
    return "appended_at" if "appended_at" in columns else "timestamp"


def run_rows(rows: DataFrame, spec: CorrelatorSpec, table: Table, *, until: datetime | None) -> DataFrame:
    """Steps classified rows by a table; returns the outputs."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from headrace.spark.correlate.order import by_key
    from headrace.spark.correlate.rows import OUTPUT_SCHEMA
    from headrace.spark.correlate.stepping import step_batches

    last = None if until is None else micros_of(until)

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step_batches(batches, table, evidence_max=spec.evidence_max, until=last, forgets=spec.forgets)

    ordered = rows.repartition(1).sortWithinPartitions("offset") if spec.key is None else by_key(rows)
    return ordered.mapInArrow(step, from_arrow_schema(OUTPUT_SCHEMA))


def present_outputs(outputs: DataFrame, spec: CorrelatorSpec) -> DataFrame:
    """Output rows as the caller sees them."""
    names = (f"{spark_literal(spec.name)} as correlator", f"{spec.version} as version")
    time = "timestamp_micros(time) as time"
    return outputs.selectExpr(
        *names, "key", "token", "`offset`", time, "place", "evidence", "evidence_total", "event_id", "captured"
    )
