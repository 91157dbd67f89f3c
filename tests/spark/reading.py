"""Builders for the tests of source and sink."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.db import Connection, Target
from headrace.spark.data_source import HeadraceSource


def secret_file(folder: Path, *targets: Target) -> str:
    """A secret with the addresses, for the option `secret`."""
    path = folder / "addresses"
    path.write_text(targets[0].dsn if len(targets) == 1 else " ".join(f"{target.name}={target.dsn}" for target in targets))
    path.chmod(0o600)
    return str(path)


def load(spark: SparkSession, secret: str, **options: object) -> DataFrame:
    """A batch of the topic `orders`, unless the options say otherwise."""
    subscription = {} if "subscribePattern" in options else {"subscribe": "orders"}
    return spark.read.format("headrace").options(secret=secret, **subscription | options).load()


def numbers(frame: DataFrame) -> list[int]:
    """The payloads, which are numbers, sorted."""
    return sorted(int(row.payload) for row in frame.select("payload").collect())


def read_rows(secret: str, **options: str) -> list[dict[str, object]]:
    """A batch planned and read in this process: what Spark's own processes do, without Spark's scheduling."""
    subscription = {} if "subscribePattern" in options else {"subscribe": "orders"}
    source = HeadraceSource({"secret": secret, **subscription, **options})
    reader = source.reader(source.schema())
    return [row for split in reader.partitions() for batch in reader.read(split) for row in batch.to_pylist()]


def read_numbers(secret: str, *, column: str = "payload", **options: str) -> list[int]:
    """The numbers in a column of a batch that is read in this process, sorted."""
    return sorted(int(str(row[column])) for row in read_rows(secret, **options))


def publish_numbers(conn: Connection, count: int, *, topic: str = "orders", type: str = "placed", first: int = 1) -> None:
    """Publishes events whose payload is their number, with keys k0 to k9 and their own times."""
    conn.execute(
        """select headrace.publish(%(topic)s, %(type)s, to_jsonb(n), p_key => 'k' || n %% 10,
               p_emitted_at => '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute')
           from generate_series(%(first)s::int, %(first)s + %(count)s - 1) n""",
        {"topic": topic, "type": type, "first": first, "count": count},
    )
