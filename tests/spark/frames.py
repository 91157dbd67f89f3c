"""Builders of the source's and the sink's tests."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.db import Connection, Target
from headrace.spark.source.data_source import HeadraceSource


def secret_file(folder: Path, *targets: Target) -> str:
    """A secret with the addresses, for the option `secret`."""
    path = folder / "addresses"
    path.write_text(targets[0].dsn if len(targets) == 1 else " ".join(f"{target.name}={target.dsn}" for target in targets))
    path.chmod(0o600)
    return str(path)


def load(spark: SparkSession, secret: str, **options: object) -> DataFrame:
    """A batch of the topic `orders`, unless told otherwise."""
    chosen = {} if "subscribePattern" in options else {"subscribe": "orders"}
    return spark.read.format("headrace").options(secret=secret, **chosen | options).load()


def numbers(frame: DataFrame) -> list[int]:
    """The payloads, which are numbers, sorted."""
    return sorted(int(row.payload) for row in frame.select("payload").collect())


def plain_numbers(secret: str, *, column: str = "payload", **options: str) -> list[int]:
    """As `numbers` of a batch, planned and read in this process: what Spark's own processes do, without Spark's scheduling."""
    source = HeadraceSource({"secret": secret, "subscribe": "orders", **options})
    reader = source.reader(source.schema())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(int(payload) for batch in batches for payload in batch.column(column).to_pylist())


def published(conn: Connection, count: int, *, topic: str = "orders", type: str = "placed", first: int = 1) -> None:
    """Events whose payload is their number, with keys k0 to k9 and a time of their own, in the outbox."""
    conn.execute(
        """select headrace.publish(%(topic)s, %(type)s, to_jsonb(n), p_key => 'k' || n %% 10,
               p_emitted_at => '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute')
           from generate_series(%(first)s::int, %(first)s + %(count)s - 1) n""",
        {"topic": topic, "type": type, "first": first, "count": count},
    )
