"""Spark's sink against `publish_many` of the same events on one connection, from values in memory to the commit.

Spark runs as local[2] and reads the rows from a Parquet file with two row groups; `publish_many` gets dictionaries, 10 000 at a time.
The outbox is emptied between rounds, and the sequencer does not run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from bench.lab import Lab, surroundings
from bench.result import Side, ratio, report
from bench.spark import folder, spark_session
from bench.spark_source import _round
from headrace.core import Event
from headrace.db import Connection, connect
from headrace.log.outbox import publish_many

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET = 0.6
BATCH = 10_000


@dataclass(frozen=True)
class Plan:
    rows: int
    rounds: int


FULL = Plan(rows=500_000, rounds=5)
QUICK = Plan(rows=50_000, rounds=1)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    sides = {name: Side(name, []) for name in ("sink", "publish_many")}
    payloads = [_payload(number) for number in range(plan.rows)]
    with lab.database("spark_sink", partitions=1) as target, connect(target) as conn, folder() as place, spark_session() as spark:
        secret = place / "address"
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        columns = {"key": [_key(number) for number in range(plan.rows)], "payload": list(map(json.dumps, payloads))}
        for part in range(2):
            half = slice(part * plan.rows // 2, (part + 1) * plan.rows // 2)
            pq.write_table(pa.table({name: values[half] for name, values in columns.items()}), place / f"{part}.parquet")
        frame = spark.read.parquet(*(str(place / f"{part}.parquet") for part in range(2)))
        options = {"secret": str(secret), "topic": "bench", "type": "order.placed"}
        ways: dict[str, Callable[[], object]] = {
            "sink": lambda: _write(frame, options),
            "publish_many": lambda: _publish(conn, payloads),
        }
        for number in range(plan.rounds + 1):
            for name, way in ways.items():
                conn.execute("truncate headrace_internal.outbox")
                conn.execute("checkpoint")
                measured = _round(lab, plan.rows, way)
                assert conn.execute("select count(*) from headrace_internal.outbox").fetchone() == (plan.rows,)
                if number:  # The first round warms Java and the workers.
                    sides[name].rounds.append(measured)
    conditions["rows"] = plan.rows
    report("spark_sink", conditions, [ratio("sink : publish_many", sides["sink"], sides["publish_many"], TARGET)], dict(sides))


def _payload(number: int) -> dict[str, object]:
    customer = {"city": f"city-{number % 500}", "vip": number % 7 == 0}
    return {"order": number, "amount": number % 997 + 0.5, "customer": customer, "note": "x" * 60}


def _key(number: int) -> str:
    return f"customer-{number % 1000}"


def _write(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("headrace").options(**options).mode("append").save()


def _publish(conn: Connection, payloads: list[dict[str, object]]) -> None:
    for start in range(0, len(payloads), BATCH):
        batch = enumerate(payloads[start : start + BATCH], start)
        with conn.transaction():
            publish_many(
                conn,
                [Event(topic="bench", type="order.placed", payload=payload, key=_key(number)) for number, payload in batch],
            )
