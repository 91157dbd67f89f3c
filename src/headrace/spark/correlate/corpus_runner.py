"""Runs the ECL corpus on Spark, all cases in a few jobs: each case is a key with its own machine.

In batch, or as a real streaming query of several micro-batches with the states kept between them. Both classify by the Spark
printer and step as correlate does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.evaluate import (
    BOTH_SCHEMA,
    OUTPUT,
    OUTPUT_SCHEMA,
    STATE,
    STATE_SCHEMA,
    CorrelatorSpec,
    Stepped,
    concatenate,
    step,
    tagged,
)
from headrace.lang.condition import Field, Subject, jsonb_text, moment_of
from headrace.lang.ecl import Case, Observation, Table, TableState, outputs_by_event, read_captured, start_state, status_of
from headrace.spark.correlate.symbols import build_classifier, extractions
from headrace.spark.match import with_emitted_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MICRO_BATCHES = 3
EVIDENCE_MAX = 100
_SCHEMA = (
    "key string, type string, payload string, topic string, `offset` bigint, timestamp timestamp, appended_at timestamp,"
    " event_id string, headers string, batch int, machine string, classifier int"
)


def observe_cases(session: SparkSession, cases: Sequence[Case], *, is_stream: bool) -> list[Observation]:
    """What Spark makes of the events of each case."""
    corpus = _Corpus(cases)
    frame = session.createDataFrame(list(corpus.rows()), _SCHEMA)
    stepped = corpus.run_stream(session, frame) if is_stream else corpus.run_batch(frame)
    return corpus.observations(stepped)


class _Corpus:
    """The events of all cases in one frame."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._columns: dict[Field, str] = {}
        classifiers = [build_classifier(CorrelatorSpec(name=case.name, pattern=case.pattern), self._columns) for case in cases]
        self._tables = {str(number): classifier.table for number, classifier in enumerate(classifiers)}
        # Many patterns classify events alike, so each row names one of the distinct classifications.
        kinds = [(classifier.symbols, classifier.facts) for classifier in classifiers]
        self._distinct = list(dict.fromkeys(kinds))
        self._classifiers = [self._distinct.index(kind) for kind in kinds]

    def rows(self) -> Iterator[tuple[object, ...]]:
        for number, case in enumerate(self._cases):
            for place, event in enumerate(case.events):
                subject, moment = cast(Subject, event.subject), moment_of(event.time)
                headers, payload = jsonb_text(dict(subject.headers)), jsonb_text(subject.payload)
                log = ("corpus", place, moment, moment, f"{number}/{place}", headers)
                run = (place * MICRO_BATCHES // len(case.events), str(number), self._classifiers[number])
                yield (subject.key, event.type, payload, *log, *run)

    def _classify(self, frame: DataFrame) -> DataFrame:
        """The events, each classified for the table of its own case."""
        roots = {field.root for field in self._columns}
        extracted = with_emitted_at(frame, roots).selectExpr("*", *extractions(self._columns))
        whens = " ".join(f"when {number} then array({', '.join(symbols)})" for number, (symbols, _) in enumerate(self._distinct))
        # The lambda adds nothing; it keeps the branches out of one Java method, which would take long to compile.
        symbols = f"concat(case classifier {whens} end, filter(array(0), x -> x > `offset`)) as symbols"
        facts = " ".join(f"when {number} then array({', '.join(f)})" for number, (_, f) in enumerate(self._distinct) if f)
        facts = (
            f"case classifier {facts} else cast(null as array<string>) end as facts"
            if facts
            else "cast(null as array<string>) as facts"
        )
        return extracted.selectExpr("machine as key", symbols, facts, "`offset`", "unix_micros(appended_at) as time", "event_id")

    def run_batch(self, frame: DataFrame) -> Stepped:
        tables = self._tables

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for stepped in _step_cases(list(batches), tables, {}):
                yield from tagged(OUTPUT, stepped.outputs).to_batches()
                yield from tagged(STATE, stepped.states).to_batches()

        both = self._classify(frame).repartition("key").mapInArrow(run, from_arrow_schema(BOTH_SCHEMA)).toArrow()
        kind = both["kind"].to_numpy()
        outputs, states = (both.filter(pa.array(kind == wanted)) for wanted in (OUTPUT, STATE))
        return Stepped(outputs.select(OUTPUT_SCHEMA.names), states.select(STATE_SCHEMA.names))

    def run_stream(self, session: SparkSession, frame: DataFrame) -> Stepped:
        """A streaming query over files, one per micro-batch, with the states of keys kept between them."""
        states: dict[str, pa.Table] = {}
        outputs: list[pa.Table] = []

        def handle(batch: DataFrame, _number: int) -> None:
            for stepped in _step_cases(self._classify(batch).toArrow().to_batches(), self._tables, states):
                outputs.append(stepped.outputs)
                if stepped.states.num_rows:
                    states[stepped.states["key"][0].as_py()] = stepped.states

        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            for number in range(MICRO_BATCHES):
                frame.where(f"batch = {number}").coalesce(1).write.mode("append").parquet(f"{folder}/events")
            stream = session.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
            query = stream.writeStream.foreachBatch(handle).option("checkpointLocation", f"{folder}/checkpoint")
            query.trigger(availableNow=True).start().awaitTermination()
        return Stepped(concatenate(outputs, OUTPUT_SCHEMA), concatenate(list(states.values()), STATE_SCHEMA))

    def observations(self, stepped: Stepped) -> list[Observation]:
        def place_of(row: dict[str, Any]) -> list[tuple[bool, int]]:
            """Outputs of timers have no offset, and come before those of events of the same time."""
            return [(row[name] is not None, row[name] or 0) for name in ("time", "offset", "place")]

        outputs: dict[str, list[tuple[int | None, int, str]]] = {}
        captured: dict[str, list[str | None]] = {}
        for row in sorted(stepped.outputs.to_pylist(), key=place_of):
            outputs.setdefault(row["key"], []).append((row["offset"], row["time"], row["token"]))
            captured.setdefault(row["key"], []).append(row["captured"])
        units = {row["key"]: TableState(tuple(row["units"])) for row in stepped.states.to_pylist()}
        return [
            Observation(
                outputs_by_event(case.events, outputs.get(key, []))[:-1],
                status_of(table, units.get(key) or start_state(table, 0)),
                captured=read_captured(captured.get(key, [])),
            )
            for case, (key, table) in zip(self._cases, self._tables.items(), strict=True)
        ]


def _step_cases(batches: list[pa.RecordBatch], tables: Mapping[str, Table], states: Mapping[str, pa.Table]) -> Iterator[Stepped]:
    """The classified events of a partition or micro-batch, case by case."""
    if not batches:
        return
    events = pa.Table.from_batches(batches)
    for key in events["key"].unique().to_pylist():
        width = 1 if tables[key].registers else len(tables[key].alphabets)
        rows = _symbol_columns(events.filter(pc.equal(events["key"], key)), width)
        yield step(rows, states.get(key, STATE_SCHEMA.empty_table()), tables[key], evidence_max=EVIDENCE_MAX)


def _symbol_columns(events: pa.Table, width: int) -> pa.Table:
    """The rows of one case, with a column per alphabet instead of a list of symbols."""
    values = events["symbols"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    columns = {name: events[name] for name in ("key", "offset", "time", "event_id", "facts")}
    for number in range(width):
        columns["symbol" + (str(number) if number else "")] = pa.array(np.ascontiguousarray(values[:, number]))
    return pa.table(columns)
