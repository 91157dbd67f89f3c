"""Spark's source against a bare COPY TO STDOUT of the same rows on one connection, both until the last row has arrived.

Spark runs as local[2] with two splits into a sink that discards every row. psycopg reads the bare COPY and discards it. Also:
filters that PostgreSQL evaluates, fields it extracts, and catching up as a stream."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.db import Connection, Target, connect
from headrace.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILL = """
insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers)
select n, headrace.clock(), headrace.clock() - n * interval '1 ms', t.topic_id, n %% 2, headrace.uuid_v7(),
    case n %% 10 when 0 then 'order.paid' else 'order.placed' end, 'customer-' || n %% 100000,
    jsonb_build_object('order', n, 'amount', n %% 997 + 0.5, 'customer',
        jsonb_build_object('city', 'city-' || n %% 500, 'vip', n %% 7 = 0)),
    '{}'
from headrace.topic t, generate_series(%(first)s::int, %(last)s::int) n where t.topic = 'bench'"""
ROWS = """
select l.key, l.type, l.payload, t.topic, l.partition, l.position, l.emitted_at, l.event_id, l.headers, 'main' as shard,
    l.appended_at
from headrace.log l join headrace.topic t on t.topic_id = l.topic_id"""
COPY_TEXT = f"copy ({ROWS}) to stdout"
COPY_BINARY = f"copy ({ROWS}) to stdout (format binary)"


@dataclass(frozen=True)
class Plan:
    rows: int
    rounds: int
    stream_offsets: int
    """Positions per micro-batch when catching up."""


FULL = Plan(rows=1_000_000, rounds=3, stream_offsets=250_000)
QUICK = Plan(rows=100_000, rounds=2, stream_offsets=20_000)
FILL_STEP = 100_000


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    # The wide Arrow batches of two tasks pass through the driver's own memory here.
    spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
    with lab.database("spark_source", partitions=2) as target, connect(target) as conn, tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "address"
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        row_bytes = _fill(conn, plan)
        sides = _measure(lab, spark, conn, target, str(secret), plan)
        stream = _stream(spark, str(secret), Path(folder), plan)
    spark.stop()
    conditions["rows"], conditions["row_bytes"] = plan.rows, round(row_bytes)
    source, text, binary = sides["source"], sides["copy text"], sides["copy binary"]
    figures = [
        ratio("source : COPY TO STDOUT", source, text, 1.0),
        ratio("source : COPY TO STDOUT, binary", source, binary, 0.8),
        ratio("two extracted fields : whole rows", sides["extract"], source, 1.0),
        ratio("one type of ten, in rows looked at : whole rows", sides["filter"], source, 2.0),
        Figure("stream catching up", stream.rate, 250_000, unit="rows/s", detail=f"{plan.stream_offsets:,} positions a batch"),
    ]
    report("spark_source", conditions, figures, {**sides, "stream": Side("stream", [stream])})


def _fill(conn: Connection, plan: Plan) -> float:
    """Fills the log as the sequencer would; returns the bytes per row in text COPY."""
    for first in range(1, plan.rows + 1, FILL_STEP):
        conn.execute(FILL, {"first": first, "last": min(first + FILL_STEP - 1, plan.rows)})
    conn.execute("vacuum analyze headrace_internal.log")
    conn.execute("checkpoint")
    return _drain(conn, f"copy ({ROWS} limit 10000) to stdout") / min(10_000, plan.rows)


def _measure(lab: Lab, spark: SparkSession, conn: Connection, target: Target, secret: str, plan: Plan) -> dict[str, Side]:
    def source(**options: str) -> DataFrame:
        return spark.read.format("headrace").options(secret=secret, subscribe="bench", minPartitions="2", **options).load()

    fields = '{"city": "customer.city", "amount": "amount"}'
    ways: dict[str, Callable[[], object]] = {
        "copy text": lambda: _drain(conn, COPY_TEXT),
        "source": lambda: _consume(source()),
        "copy binary": lambda: _drain(conn, COPY_BINARY),
        "extract": lambda: _consume(source(columns="offset", extract=fields)),
        "filter": lambda: _consume(source(types="order.paid")),
    }
    assert source().count() == plan.rows and source(types="order.paid").count() == plan.rows // 10
    sides = {name: Side(name, []) for name in ways}
    for number in range(plan.rounds + 1):
        for name, way in ways.items():
            measured = _round(lab, plan.rows, way)
            if number:  # The first round warms caches, the JVM and the workers.
                sides[name].rounds.append(measured)
    return sides


def _round(lab: Lab, rows: int, way: Callable[[], object]) -> Round:
    began, cpu = time.perf_counter(), lab.cpu_s(_process_tree())
    way()
    return Round(rows / (time.perf_counter() - began), 1e6 * (lab.cpu_s(_process_tree()) - cpu) / rows)


def _process_tree() -> list[int]:
    """This process, Spark's JVM and its Python workers."""
    pids = [os.getpid()]
    for pid in pids:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        pids += [int(child) for file in children for child in file.read_text().split()]
    return pids


def _drain(conn: Connection, statement: str) -> int:
    size = 0
    with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for data in copy:
            size += len(data)
    return size


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _stream(spark: SparkSession, secret: str, folder: Path, plan: Plan) -> Round:
    stream = spark.readStream.format("headrace").options(
        secret=secret,
        subscribe="bench",
        startingOffsets="earliest",
        minPartitions="2",
        maxOffsetsPerTrigger=str(plan.stream_offsets),
    )
    started_at = time.perf_counter()
    running = (
        stream.load()
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    running.awaitTermination()
    seen = sum(progress.numInputRows for progress in running.recentProgress)
    assert seen == plan.rows, f"the stream gave {seen} rows"
    return Round(plan.rows / (time.perf_counter() - started_at), 0.0)
