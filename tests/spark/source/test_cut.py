"""A connection that breaks without a word of the server: the database cannot be reached, and who can wait tries again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core import DatabaseUnavailable
from headrace.db import Connection, Target
from headrace.spark.source.data_source import HeadraceSource
from tests.builders import drain, relayed, topic, wait_until
from tests.spark.frames import published, secret_file

pytestmark = pytest.mark.lane("pg18")
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


def test_connection_that_is_cut_while_it_reads(conn: Connection, second: Connection, database: Target, tmp_path: Path) -> None:
    topic(conn)
    published(conn, 10)
    drain(conn)
    with relayed(database) as (through, relay), ThreadPoolExecutor(1) as pool:
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
