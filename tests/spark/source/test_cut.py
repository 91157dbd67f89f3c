"""A connection that breaks without a message from the server: the database is unreachable, and the next read works again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core import DatabaseUnavailable
from headrace.db import Connection, Target
from headrace.spark.data_source import HeadraceSource
from tests.builders import drain, through_proxy, topic, wait_until
from tests.spark.reading import publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


def test_cut_connection_is_an_error_and_the_next_read_works(
    conn: Connection, second: Connection, database: Target, tmp_path: Path
) -> None:
    topic(conn)
    publish_numbers(conn, 10)
    drain(conn)
    with through_proxy(database) as (through, relay), ThreadPoolExecutor(1) as pool:
        source = HeadraceSource({"secret": secret_file(tmp_path, through), "subscribe": "orders"})
        reader = source.reader(source.schema())
        (split,) = reader.partitions()
        with second.transaction():
            second.execute("lock table only headrace_internal.log_1 in access exclusive mode")
            reading = pool.submit(lambda: list(reader.read(split)))
            wait_until(lambda: conn.execute(WAITING).fetchone() == (1,), "the wait for the table", timeout_s=30)
            relay.cut()
            with pytest.raises(DatabaseUnavailable, match="cannot reach database main"):
                reading.result(30)
        assert pool.submit(lambda: sum(batch.num_rows for batch in reader.read(split))).result(30) == 10
