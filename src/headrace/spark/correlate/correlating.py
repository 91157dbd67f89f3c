"""correlate: events → the tokens a pattern pushes, by the compiled table, over keyed and sorted runs.

Promises: outputs, evidence and order of the database. Per key the outputs are ordered by (time, offset nulls first, place)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.lang.condition import micros_of, spark_literal
from headrace.lang.ecl import Table
from headrace.spark.correlate.order import by_key
from headrace.spark.correlate.symbols import Classifier, CorrelatorSpec, classifier, extractions
from headrace.spark.match.matching import check_columns, with_emitted_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NEEDED = ("type", "payload", "offset", "event_id")
_STATES = "key, units, deadlines, evidence, evidence_total, started_at, seen_at"


@dataclass(frozen=True)
class Correlated:
    """What a batch gave: `outputs`, and `states`, the rows of the keys that changed. Both are kept until `release`."""

    outputs: DataFrame
    states: DataFrame
    _kept: DataFrame

    def release(self) -> None:
        self._kept.unpersist()


def correlate(df: DataFrame, spec: CorrelatorSpec, *, until: datetime | None = None) -> DataFrame:
    """The outputs of a correlator over a whole frame of one topic and shard: correlator, version, key, token, offset, time,
    place, evidence, evidence_total, event_id.

    Every key starts at its first event; timers fire up to the last event of their key, or up to `until`. A pattern without key
    runs in parallel where its table is simple; its first pass runs at once. Raises PatternError, ConditionError, Invalid."""
    made = classifier(spec)
    rows = classified(df, spec, made)
    if spec.key is None and made.table.simple:
        from headrace.spark.correlate.chunks.composing import correlate_chunks
        from headrace.spark.correlate.chunks.files import correlate_files

        read_by_tasks = correlate_files(df, spec, _time_column(df.columns))
        if read_by_tasks is not None:
            return told(read_by_tasks, spec)
        return told(correlate_chunks(rows, made.table, evidence_max=spec.evidence_max), spec)
    return told(_run(rows, spec, made.table, until=until, with_states=False), spec)


def correlate_batch(
    df: DataFrame, spec: CorrelatorSpec, states: DataFrame | None = None, *, until: datetime | None = None
) -> Correlated:
    """The same from given states (key, units, deadlines, evidence, evidence_total, started_at, seen_at; times in microseconds)
    and with the states at the end. A key without a state starts at its first event."""
    made = classifier(spec)
    rows = classified(df, spec, made)
    if states is not None:
        symbols = ", ".join(f"-1 as {name}" for name in _symbol_names(made))
        before = states.selectExpr(
            *_split(f"{_STATES}, {symbols}, -1L as offset, started_at as time"), "string(null) as event_id"
        )
        rows = rows.unionByName(before, allowMissingColumns=True)
    both = _run(rows, spec, made.table, until=until, with_states=True).persist()
    return Correlated(told(both.where("kind = 0"), spec), both.where("kind = 1").selectExpr(*_split(_STATES)), both)


def classified(df: DataFrame, spec: CorrelatorSpec, made: Classifier) -> DataFrame:
    """The events that can matter, as the table sees them: key, symbol (symbol1, … for more alphabets), offset, time, event_id."""
    columns = df.columns
    time = _time_column(columns)
    check_columns(columns, [*NEEDED, time, *(["topic"] if spec.topic is not None else [])], made.roots)
    # Few steps: Spark analyses the frame anew at each, and a micro-batch must not wait for that.
    began = [f"topic = {spark_literal(spec.topic)}"] if spec.topic is not None else []
    began += [f"`offset` >= {spec.since_offset}"] if spec.since_offset else []
    wanted = df.where(" and ".join(began)) if began else df
    fields = extractions(made.fields)
    extracted = with_emitted_at(wanted, made.roots).selectExpr("*", *fields) if fields else wanted
    symbols = [f"{sql} as {name}" for sql, name in zip(made.symbols, _symbol_names(made), strict=True)]
    told_apart = extracted.selectExpr(f"{made.key} as key", *symbols, "`offset`", f"unix_micros({time}) as time", "event_id")
    ended = ["key is not null"] if spec.key is not None else []
    if not spec.forgets and (idle := _idle(made.table)):
        ended.append(f"symbol not in ({', '.join(map(str, idle))})")
    return told_apart.where(" and ".join(ended)) if ended else told_apart


def _time_column(columns: Sequence[str]) -> str:
    return "appended_at" if "appended_at" in columns else "timestamp"


def _idle(table: Table) -> tuple[int, ...]:
    """Symbols that change nothing in any state: those events need not travel. Where there are timers every event counts, since
    an instance starts with its first."""
    from headrace.spark.correlate.simple import SimpleTable

    return SimpleTable.of(table).idle if table.simple else ()


def _symbol_names(made: Classifier) -> list[str]:
    return ["symbol", *(f"symbol{number}" for number in range(1, len(made.symbols)))]


def _run(rows: DataFrame, spec: CorrelatorSpec, table: Table, *, until: datetime | None, with_states: bool) -> DataFrame:
    from headrace.spark.correlate.rows import BOTH_DDL

    last = None if until is None else micros_of(until)
    evidence_max, forgets = spec.evidence_max, spec.forgets

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.correlate.stepping import stepped_batches

        return stepped_batches(batches, table, evidence_max=evidence_max, until=last, with_states=with_states, forgets=forgets)

    ordered = rows.repartition(1).sortWithinPartitions("offset") if spec.key is None else by_key(rows)
    return ordered.mapInArrow(step, BOTH_DDL)


def told(outputs: DataFrame, spec: CorrelatorSpec) -> DataFrame:
    """Output rows as the caller sees them."""
    from pyspark.sql import functions

    return outputs.select(
        functions.lit(spec.name).alias("correlator"),
        functions.lit(spec.version).alias("version"),
        *("key", "token", "offset"),
        functions.expr("timestamp_micros(time)").alias("time"),
        *("place", "evidence", "evidence_total", "event_id"),
    )


def _split(columns: str) -> list[str]:
    return columns.split(", ")
