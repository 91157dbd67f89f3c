"""The ECL corpus on Spark, all cases in a few jobs: a case is a key of its own machine.

Engine `spark` runs them as one batch; `spark-stream` as a real streaming query of several micro-batches, with the states kept
between them. Both classify by the Spark printer and step by the code that correlate uses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lang.condition import Field, Subject, jsonb_text, moment_of
from headrace.lang.ecl import Case, Output, Status, Table, TableState, difference, start_state, status_of
from headrace.spark.correlate.rows import BOTH_DDL, OUTPUT, OUTPUT_SCHEMA, STATE, STATE_SCHEMA, Rows, Stepped, joined, tagged
from headrace.spark.correlate.stepping import Run, step
from headrace.spark.correlate.symbols import CorrelatorSpec, classifier, extractions
from headrace.spark.match.matching import with_emitted_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MICRO_BATCHES = 3
EVIDENCE_MAX = 100
_SCHEMA = (
    "key string, type string, payload string, topic string, `offset` bigint, timestamp timestamp, appended_at timestamp,"
    " event_id string, headers string, batch int, machine string, way int"
)


@dataclass(frozen=True)
class Observed:
    """What was seen of a case: outputs per event (those of timers due by it first), and the status at the end."""

    outputs: tuple[tuple[Output, ...], ...]
    status: Status


def differences(session: SparkSession, cases: Sequence[Case], engine: str) -> list[str | None]:
    """What differs from each case's answers when Spark runs it, or None."""
    observed = observe_cases(session, cases, engine)
    return [difference(case, engine, seen.outputs, seen.status) for case, seen in zip(cases, observed, strict=True)]


def observe_cases(session: SparkSession, cases: Sequence[Case], engine: str = "spark") -> list[Observed]:
    """What Spark makes of the events of each case, whatever answers it expects."""
    return _Stage(cases).observe(session, streaming=engine == "spark-stream")


class _Stage:
    """The events of all cases in one frame."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._columns: dict[Field, str] = {}
        specs = [CorrelatorSpec(name=case.name, pattern=case.pattern) for case in cases]
        self._classifiers = [classifier(spec, self._columns) for spec in specs]
        self._tables = {str(number): made.table for number, made in enumerate(self._classifiers)}
        # Many patterns tell events apart alike, so a row says which of the different ways is its own.
        self._ways = list(dict.fromkeys(made.symbols for made in self._classifiers))

    def observe(self, session: SparkSession, *, streaming: bool) -> list[Observed]:
        ways = [self._ways.index(made.symbols) for made in self._classifiers]
        rows = [(*row, ways[number]) for number, case in enumerate(self._cases) for row in _rows_of(number, case)]
        frame = session.createDataFrame(rows, _SCHEMA)
        stepped = self._streamed(session, frame) if streaming else self._batch(frame)
        outputs: dict[str, list[tuple[int, bool, int, int, str]]] = {}
        for row in stepped.outputs.to_pylist():
            at = (row["time"], row["offset"] is not None, row["offset"] or 0, row["place"], row["token"])
            outputs.setdefault(row["key"], []).append(at)
        states = {row["key"]: TableState(tuple(row["units"])) for row in stepped.states.to_pylist()}
        return [
            Observed(_per_event(case, sorted(outputs.get(str(number), []))), self._status(str(number), states))
            for number, case in enumerate(self._cases)
        ]

    def _status(self, key: str, states: Mapping[str, TableState]) -> Status:
        table = self._tables[key]
        return status_of(table, states.get(key) or start_state(table, 0))

    def _classified(self, frame: DataFrame) -> DataFrame:
        """The events as the table of their own case sees them."""
        roots = {field.root for field in self._columns}
        extracted = with_emitted_at(frame, roots).selectExpr("*", *extractions(self._columns))
        whens = " ".join(f"when {number} then array({', '.join(symbols)})" for number, symbols in enumerate(self._ways))
        # The lambda adds nothing; it keeps the branches out of one Java method, which would be long in compiling.
        symbols = f"concat(case way {whens} end, filter(array(0), x -> x > `offset`))"
        return extracted.selectExpr(
            "machine as key", f"{symbols} as symbols", "`offset`", "unix_micros(appended_at) as time", "event_id"
        )

    def _batch(self, frame: DataFrame) -> Stepped:
        tables = self._tables

        def stepped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for found in _by_case(list(batches), tables):
                yield from tagged(OUTPUT, found.outputs).to_batches()
                yield from tagged(STATE, found.states).to_batches()

        keyed = self._classified(frame).repartition("key").sortWithinPartitions("key", "offset")
        both = keyed.mapInArrow(stepped, BOTH_DDL).toArrow()
        kind = both["kind"].to_numpy()
        return Stepped(
            both.filter(pa.array(kind == OUTPUT)).select(OUTPUT_SCHEMA.names),
            both.filter(pa.array(kind == STATE)).select(STATE_SCHEMA.names),
        )

    def _streamed(self, session: SparkSession, frame: DataFrame) -> Stepped:
        """A streaming query over files, one per micro-batch, with the states of keys kept between them."""
        states: dict[str, pa.Table] = {}
        outputs: list[pa.Table] = []

        def handle(batch: DataFrame, _number: int) -> None:
            events = self._classified(batch).toArrow()
            for key in events["key"].unique().to_pylist():
                table = self._tables[key]
                own = _own_rows(events.filter(pc.equal(events["key"], key)), table)
                found = step(own, states.get(key, STATE_SCHEMA.empty_table()), table, evidence_max=EVIDENCE_MAX)
                outputs.append(found.outputs)
                if found.states.num_rows:
                    states[key] = found.states

        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            for number in range(MICRO_BATCHES):
                frame.where(f"batch = {number}").coalesce(1).write.mode("append").parquet(f"{folder}/events")
            stream = session.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
            query = stream.writeStream.foreachBatch(handle).option("checkpointLocation", f"{folder}/checkpoint")
            query.trigger(availableNow=True).start().awaitTermination()
        return Stepped(joined(outputs, OUTPUT_SCHEMA), joined(list(states.values()), STATE_SCHEMA))


def _rows_of(number: int, case: Case) -> Iterator[tuple[object, ...]]:
    for place, event in enumerate(case.events):
        subject = cast(Subject, event.subject)
        moment = moment_of(event.time)
        headers, payload = jsonb_text(dict(subject.headers)), jsonb_text(subject.payload)
        batch = place * MICRO_BATCHES // len(case.events)
        event_id = f"{number}/{place}"
        yield (subject.key, event.type, payload, "corpus", place, moment, moment, event_id, headers, batch, str(number))


def _own_rows(events: pa.Table, table: Table) -> pa.Table:
    """The rows of one case, with a column per alphabet."""
    lists = events["symbols"].combine_chunks()
    width = len(table.alphabets)
    values = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    columns = {name: events[name] for name in ("key", "offset", "time", "event_id")}
    for number in range(width):
        columns["symbol" + (str(number) if number else "")] = pa.array(np.ascontiguousarray(values[:, number]))
    return pa.table(columns)


def _by_case(batches: list[pa.RecordBatch], tables: Mapping[str, Table]) -> Iterator[Stepped]:
    """A sorted partition, case by case."""
    if not batches:
        return
    events = pa.Table.from_batches(batches)
    for key in events["key"].unique().to_pylist():
        table = tables[key]
        run = Run(table, evidence_max=EVIDENCE_MAX)
        yield run.feed(Rows.of(_own_rows(events.filter(pc.equal(events["key"], key)), table)))
        yield run.finish()


def _per_event(case: Case, outputs: Sequence[tuple[int, bool, int, int, str]]) -> tuple[tuple[Output, ...], ...]:
    """Outputs under the event that made them, or before which a timer did."""
    found: list[list[Output]] = [[] for _ in case.events]
    for time, of_event, offset, _, token in outputs:
        at = offset if of_event else next(n for n, event in enumerate(case.events) if event.time >= time)
        found[at].append(Output(token, time))
    return tuple(map(tuple, found))
