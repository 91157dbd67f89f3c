"""Spark as an engine of the two languages: evaluates conditions over events that are in no log, and runs the ECL corpus.

All cases of the corpus run in a few jobs: each is a topic with its own correlator. They are classified by tasks and stepped as `correlate`
does it, in batch, or as a real streaming query of several micro-batches with the states kept between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.evaluate import STATE_SCHEMA, CorrelatorSpec, step, truth_table
from headrace.lang.condition import (
    Condition,
    Engine,
    Sample,
    Subject,
    TruthTable,
    jsonb_text,
    moment_of,
    sample_rows,
)
from headrace.lang.ecl import Case, Observation, TableState, difference, outputs_by_event, read_captured, start_state, status_of
from headrace.spark.frames.classified_events import CHUNK_TYPE
from headrace.spark.frames.correlation_tasks import classify_topics, correlators_by_topic, events_by_correlator

MICRO_BATCHES = 3
_SAMPLES = "number int, type string, key string, headers string, payload string, timestamp timestamp"
_EVENTS = (
    "key string, type string, payload string, topic string, `offset` bigint, timestamp timestamp, appended_at timestamp,"
    " event_id string, headers string, batch int"
)


def spark_engine(session: SparkSession) -> Engine:
    """The engine of Spark: whole columns, in tasks."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                answers = pa.array(truth_table(conditions, batch), pa.list_(pa.bool_()))
                yield pa.record_batch([batch.column("number"), answers], names=["number", "answers"])

        samples = session.createDataFrame(sample_rows(events), _SAMPLES)
        rows = samples.mapInArrow(run, "number int, answers array<boolean>").collect()
        return [list(row.answers) for row in sorted(rows, key=lambda row: row.number)]

    return evaluate


def run_ecl_cases(
    session: SparkSession, cases: Sequence[Case], engine: Literal["spark", "spark-stream"] = "spark"
) -> list[str | None]:
    """The difference between Spark's answers, in batch or as a stream, and those of each case, or None; a few jobs for all."""
    corpus = _Corpus(cases)
    frame = session.createDataFrame(list(corpus.rows()), _EVENTS)
    if engine == "spark":
        corpus.step(frame)
    else:
        corpus.step_as_stream(frame)
    return [difference(case, engine, corpus.observe(number)) for number, case in enumerate(cases)]


class _Corpus:
    """The events of all cases in one frame, and the states and outputs of each case so far."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._specs = [
            CorrelatorSpec(name=case.name, pattern=case.pattern, topic=str(number)) for number, case in enumerate(cases)
        ]
        self._states: dict[int, pa.Table] = {}
        self._outputs: list[list[dict[str, Any]]] = [[] for _ in cases]

    def rows(self) -> Iterator[tuple[object, ...]]:
        for number, case in enumerate(self._cases):
            for place, event in enumerate(case.events):
                subject, moment = cast(Subject, event.subject), moment_of(event.time)
                headers, payload = jsonb_text(dict(subject.headers)), jsonb_text(subject.payload)
                log = (str(number), place, moment, moment, f"{number}/{place}", headers)
                yield (subject.key, event.type, payload, *log, place * MICRO_BATCHES // len(case.events))

    def step(self, frame: DataFrame) -> None:
        """Steps the events of a frame, from the states before."""
        topics = correlators_by_topic(self._specs)

        def classify(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return classify_topics(batches, topics, 1)

        chunks = frame.drop("batch").mapInArrow(classify, CHUNK_TYPE).toArrow().to_batches()
        for number, events in events_by_correlator(chunks, topics):
            before = self._states.get(number, STATE_SCHEMA.empty_table())
            spec = self._specs[number]
            stepped = step(events, before, spec.table, evidence_max=spec.evidence_max)
            self._outputs[number] += stepped.outputs.to_pylist()
            if stepped.states.num_rows:
                self._states[number] = stepped.states

    def step_as_stream(self, frame: DataFrame) -> None:
        """The same by a streaming query over files, one per micro-batch."""
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            for number in range(MICRO_BATCHES):
                frame.where(f"batch = {number}").coalesce(1).write.mode("append").parquet(f"{folder}/events")
            stream = (
                frame.sparkSession.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
            )
            query = stream.writeStream.foreachBatch(lambda batch, _: self.step(batch))
            query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    def observe(self, number: int) -> Observation:
        """The answers to a case."""

        def output_order(row: dict[str, Any]) -> list[tuple[bool, int]]:
            """Outputs of timers have no offset, and come before those of events of the same time."""
            return [(row[name] is not None, row[name] or 0) for name in ("time", "offset", "place")]

        rows = sorted(self._outputs[number], key=output_order)
        table = self._specs[number].table
        state = start_state(table, 0)
        if number in self._states:
            state = TableState(tuple(self._states[number]["units"][0].as_py()))
        outputs = outputs_by_event(self._cases[number].events, [(row["offset"], row["time"], row["token"]) for row in rows])
        return Observation(outputs[:-1], status_of(table, state), captured=read_captured(row["captured"] for row in rows))
