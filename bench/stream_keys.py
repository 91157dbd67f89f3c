"""Streams with 100 000 keys, exactly once, on Spark with local[2]: a pipeline that catches up with a backlog of a correlator, and
`correlate_stream` over the same log. Three rounds of a million events each, after one that does not count."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lab import Lab, surroundings
from bench.pipeline import PATTERN, RATE_MIN, _drain, _fill, _topic
from bench.result import Figure, Round, Side, report
from bench.spark_source import _process_tree
from headrace.db import connect
from headrace.spark import Access, CorrelatorSpec, correlate_stream, session
from headrace.spark.pipeline import TopicPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 100_000


@dataclass(frozen=True)
class Plan:
    rounds: int
    batch: int


FULL = Plan(rounds=3, batch=1_000_000)
QUICK = Plan(rounds=1, batch=50_000)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    spark = session(master="local[2]", settings={"spark.driver.memory": "3g"})
    pipeline, stream = Side("pipeline", []), Side("correlate_stream", [])
    with tempfile.TemporaryDirectory() as folder, _topic(lab, "stream_keys", Path(folder)) as (target, access):
        events = (plan.rounds + 1) * plan.batch
        with connect(target) as conn, connect(target) as own:
            topic = TopicPipeline(spark, access, own, "bench", shard="main", events_max=plan.batch)
            own.execute("select headrace_internal.begin_pipeline(%s, %s, 'bench', 'local[2]')", (topic.topic_id, topic.run_id))
            _fill(conn, KEYS, 1, plan.batch)
            _drain(topic)
            _fill(conn, KEYS, plan.batch + 1, events)
            conn.execute("checkpoint")
            # A backlog: Spark works ahead while a batch is written.
            began, cpu = time.perf_counter(), lab.cpu_s(_process_tree())
            done = _drain(topic)
            assert done == plan.rounds * plan.batch
            rate = done / (time.perf_counter() - began)
            pipeline.rounds.append(Round(rate, 1e6 * (lab.cpu_s(_process_tree()) - cpu) / done))
            conn.execute("checkpoint")
            for number, seconds in enumerate(_stream(spark, access, Path(folder), plan)):
                if number:
                    stream.rounds.append(Round(plan.batch / seconds, 0))
            written = conn.execute("select outputs from headrace.stream").fetchone()
            pushed = conn.execute("select count(*) from headrace.correlation").fetchone()
            assert written == pushed, f"the stream has {written} outputs, the pipeline {pushed}"
    spark.stop()
    detail = f"{plan.rounds} batches of {plan.batch:,} events"
    figures = [
        Figure(f"pipeline, {KEYS:,} keys", pipeline.rate, RATE_MIN, unit="events/s", detail=f"{detail}, CPU {pipeline.cpu_us:.1f} µs each"),
        Figure(f"correlate_stream, {KEYS:,} keys", stream.rate, RATE_MIN, unit="events/s", detail=detail),
    ]  # fmt: skip
    report("stream_keys", conditions, figures, {"pipeline": pipeline, "correlate_stream": stream, "pattern": PATTERN})


def _stream(spark: SparkSession, access: Access, folder: Path, plan: Plan) -> list[float]:
    """Seconds of each micro-batch, as Spark measures them."""
    frame = spark.readStream.format("headrace").options(
        **access.options(), subscribe="bench", startingOffsets="earliest", maxOffsetsPerTrigger=str(plan.batch), minPartitions="2"
    )
    spec = CorrelatorSpec(name="logins", pattern=PATTERN, key="key")
    query = correlate_stream(
        frame.load(), spec, stream="bench", checkpoint=str(folder / "checkpoint"), access=access, available_now=True
    )
    query.awaitTermination()
    return [progress.durationMs["triggerExecution"] / 1000 for progress in query.recentProgress if progress.numInputRows]
