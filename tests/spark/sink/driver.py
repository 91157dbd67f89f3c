"""A driver with its own Spark: streams `orders` to `copy` through the sink, until killed or caught up.

`python -m tests.spark.sink.driver SECRET CHECKPOINT [DIE_AT_BATCH]`: kills itself with SIGKILL after the batch was committed in
PostgreSQL and before Spark has recorded it: the moment at which a sink without a ledger writes twice."""

from __future__ import annotations

import os
import signal
import sys

from headrace.spark import session


def main(secret: str, checkpoint: str, die_at: str | None = None) -> None:
    if die_at is not None:
        # Spark's processes for the commit are forked from a daemon that reads this.
        os.environ["HEADRACE_TEST_DIE_AT"] = die_at
        os.environ["HEADRACE_TEST_DRIVER"] = str(os.getpid())
    spark = session(master="local[1]", settings={"spark.sql.shuffle.partitions": "1"})
    if die_at is not None:
        from tests.spark.sink.deadly import DeadlySource

        spark.dataSource.register(DeadlySource)
    stream = spark.readStream.format("headrace").options(
        secret=secret, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="40", minPartitions="2"
    )
    frame = stream.load().drop("event_id").writeStream.format("headrace").options(secret=secret, topic="copy")
    frame.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def die(batch: int) -> None:
    """Kills driver and JVM at once, like a power failure."""
    if os.environ.get("HEADRACE_TEST_DIE_AT") != str(batch):
        return
    driver = int(os.environ["HEADRACE_TEST_DRIVER"])
    os.killpg(os.getpgid(driver), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
