"""`match` and `correlate`: DataFrames of events → the rules that fire on them, and the tokens that patterns push.

Tasks of `match` classify by whole columns, one rule or a thousand: Spark's own JSON functions take longer than moving a row to Python.
`correlate` steps the compiled table over the events of each key. Promises: firings, outputs, evidence and order of the database; a
payload that is null or no JSON is unknown, and changes no other row. The outputs of a key are ordered by (time, offset nulls first,
place)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.db import Connection
from headrace.evaluate import CorrelatorSpec
from headrace.lang.condition import micros_of, parse
from headrace.spark.frames.definitions import AnyCorrelator, AnyRule, correlator_specs, rule_specs
from headrace.spark.jobs import map_spark_errors
from headrace.spark.schema import check_columns, check_types, columns_for, text_literal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.evaluate import Stepped

HIT_COLUMNS = (
    "topic", "partition", "offset", "event_id", "type", "key", "payload", "headers", "timestamp", "shard", "appended_at",
)  # fmt: skip
"""The columns of the event in a hit, after rule, version and action; those that the frame has."""
_REQUIRED = ("type", "topic", "offset")
NEEDED = ("type", "offset", "event_id", "appended_at")


def match(
    df: DataFrame, rules: AnyRule | Sequence[AnyRule], *, conn: Connection | None = None, namespace: str | None = None
) -> DataFrame:
    """One row per event and rule that fires on it: rule, version, action, and the event's own columns.

    A rule is a `Rule`, a `RuleSpec`, a file of rules, with `conn` the name of a live one, and otherwise a text:
    `on order.paid if (object -> 'amount')::int > 100`.
    An event that no rule fires on has no row; unknown is not true. Each field is extracted once. Raises Invalid if the
    frame lacks a column that a condition reads, ConditionError for a condition that does not parse."""
    from pyspark.sql import functions

    specs = rule_specs(rules, conn=conn, namespace=namespace)
    reads = frozenset(field.root for spec in specs for field in parse(spec.condition).fields)
    check_columns(df.columns, _REQUIRED, reads)
    check_types(df)
    # Before any row goes to Python: events of other types cost next to nothing.
    relevant = df.where(functions.col("type").isin(sorted({spec.event_type for spec in specs})))
    from headrace.spark.frames.classified_events import match_by_columns

    return match_by_columns(relevant, specs, [name for name in HIT_COLUMNS if name in df.columns], columns_for(reads))


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
        from headrace.evaluate import step

        return step(self.events, states, self.spec.table, evidence_max=self.spec.evidence_max, forgets=self.spec.forgets)


def state_schema() -> pa.Schema:
    """The columns of an instance state in `MicroBatch.step`."""
    from headrace.evaluate import STATE_SCHEMA

    return STATE_SCHEMA


def take_micro_batch(df: DataFrame, spec: CorrelatorSpec) -> MicroBatch:
    """Classifies a micro-batch, and collects the events that can matter: in parallel by tasks if it reads payloads or headers; else the
    few columns are sent as they are, which costs half as much."""
    from headrace.spark.frames.classified_events import Watched, classify_batches, classify_frame, collect_chunks
    from headrace.spark.frames.correlation_tasks import Reading

    watched = Watched((), (spec,), is_log=False)
    check_event_columns(df.columns, [spec], watched.classifier.roots)
    events = df if spec.topic is None else df.where(f"topic = {text_literal(spec.topic)}")
    if {"payload", "headers"}.isdisjoint(watched.columns):
        reading = replace(Reading.for_specs(df, [spec]), pushing=None)
        classified = collect_chunks(classify_batches(reading.select(events).toArrow().to_batches(), watched), watched)
    else:
        classified = classify_frame(events, watched, ["event_id"])
    return MicroBatch(spec, classified.events[0] if classified.events else empty_events(spec))


def correlate(
    df: DataFrame,
    correlators: AnyCorrelator | Sequence[AnyCorrelator],
    *,
    key: str | None = None,
    until: datetime | None = None,
    conn: Connection | None = None,
    namespace: str | None = None,
) -> DataFrame:
    """The outputs of one or many correlators over a frame: correlator, version, key, token, offset, time, place, evidence,
    evidence_total, event_id, captured (what the registers held, as JSON). The frame is read once for all of them.

    A correlator is a `Correlator`, a `CorrelatorSpec`, a file of correlators, with `conn` the name of a live one, and otherwise the
    text of a pattern, whose key is `key`. Every key starts at its first event. Timers fire up to the end of the log, which is the last event of
    the frame, or up to `until`. One pattern without key runs in parallel where its table is simple; its first pass runs at once.
    Raises PatternError, ConditionError, and Invalid for a frame that lacks a column or has events of several logs."""
    from headrace.evaluate import Classifier, make_groups
    from headrace.spark.frames.correlation_tasks import find_frame_logs, step_frame, step_stream

    specs = correlator_specs(correlators, key=key, conn=conn, namespace=namespace)
    roots = Classifier((), make_groups(specs)).roots
    columns = check_event_columns(df.columns, specs, roots)
    check_types(df)
    with map_spark_errors():
        logs = find_frame_logs(df, specs, columns, until)
        ends = [logs.end_of(spec) for spec in specs]
        if len(specs) == 1 and specs[0].key is None and specs[0].table.simple:
            return present_outputs(step_stream(logs.frame, specs[0]), specs)
        untils = [micros_of(until) if until is not None else end for end in ends]
        return present_outputs(step_frame(logs.frame, specs, untils), specs)


def check_event_columns(columns: Sequence[str], specs: Sequence[CorrelatorSpec], roots: Collection[str]) -> list[str]:
    """The columns of a frame that the correlators read. Raises Invalid if one is missing."""
    if "appended_at" not in columns:
        raise Invalid(
            "the frame has no column appended_at, the log's time, by which patterns run; read it from the log, or add it: "
            'withColumn("appended_at", col("timestamp")) runs by the events\' own time, with other timers than in the database'
        )
    needed = [*NEEDED, *(["topic"] if any(spec.topic is not None for spec in specs) else [])]
    check_columns(columns, needed, roots)
    wanted = columns_for(roots, *needed, "topic", "shard")
    return [column for column in columns if column in wanted]


def present_outputs(outputs: DataFrame, specs: Sequence[CorrelatorSpec]) -> DataFrame:
    """Output rows as the caller sees them."""
    names = ", ".join(text_literal(spec.name) for spec in specs)
    versions = ", ".join(str(spec.version) for spec in specs)
    number = "number" if len(specs) > 1 else "0"
    labels = (f"array({names})[{number}] as correlator", f"array({versions})[{number}] as version")
    time = "timestamp_micros(time) as time"
    return outputs.selectExpr(
        *labels, "key", "token", "`offset`", time, "place", "evidence", "evidence_total", "event_id", "captured"
    )


def empty_events(spec: CorrelatorSpec) -> pa.Table:
    """No events, with the columns that the correlator's have."""
    import pyarrow as pa

    table = spec.table
    width = 1 if table.registers is not None else len(table.alphabets)
    types: dict[str, pa.DataType] = {"key": pa.string(), "offset": pa.int64(), "time": pa.int64(), "event_id": pa.string()}
    types |= {f"symbol{at or ''}": pa.int64() for at in range(width)}
    types |= {"facts": pa.list_(pa.string())} if table.registers is not None else {}
    return pa.schema(list(types.items())).empty_table()
