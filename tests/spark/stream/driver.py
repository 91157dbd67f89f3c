"""A driver with its own Spark: runs correlators over the stream of `orders`, until killed or caught up.

`python -m tests.spark.stream.driver SECRET CHECKPOINT [DIE_AT_BATCH]`: kills itself with SIGKILL after a micro-batch was committed in
PostgreSQL and before Spark has recorded it."""

from __future__ import annotations

import os
import signal
import sys

from headrace.spark import Access, correlate_stream, session
from headrace.spark.stream import StreamRun
from tests.spark.stream.test_stream import SPECS, load_stream


def main(secret: str, checkpoint: str, die_at: str | None = None) -> None:
    handle = StreamRun.handle

    def handle_and_die(self: StreamRun, batch: object, number: int) -> None:
        handle(self, batch, number)  # type: ignore[arg-type]
        if str(number) == die_at:
            os.killpg(os.getpgid(os.getpid()), signal.SIGKILL)

    StreamRun.handle = handle_and_die  # type: ignore[method-assign, assignment]
    spark = session(master="local[1]", settings={"spark.sql.shuffle.partitions": "1"}, brief=True)
    query = correlate_stream(
        load_stream(spark, secret), SPECS, stream="pairs", checkpoint=checkpoint, access=Access(secret=secret), available_now=True
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
