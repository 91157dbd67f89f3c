"""A connection that breaks without a word of the server: the database cannot be reached, and who can wait tries again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core import DatabaseUnavailable
from headrace.db import Connection, Target
from headrace.prove._proxy import Proxy
from headrace.spark._source import HeadraceSource
from tests.builders import drain, topic
from tests.spark.source import published, secret_file

pytestmark = pytest.mark.lane("pg18")
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
def proxy(database: Target) -> Iterator[Proxy]:
    given = conninfo_to_dict(database.dsn)
    relay = Proxy(str(given["host"]), int(given["port"] or 5432))
    relay.start()
    yield relay
    relay.stop()


def test_connection_that_is_cut_while_it_reads(
    conn: Connection, second: Connection, database: Target, proxy: Proxy, tmp_path: Path
) -> None:
    topic(conn)
    published(conn, 10)
    drain(conn)
    through = Target("main", make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port))
    source = HeadraceSource({"secret": secret_file(tmp_path, through), "subscribe": "orders"})
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    with ThreadPoolExecutor(1) as pool:
        with second.transaction():
            second.execute("lock table only headrace.log_1 in access exclusive mode")
            reading = pool.submit(lambda: list(reader.read(split)))
            deadline = time.monotonic() + 30
            while conn.execute(WAITING).fetchone() != (1,):
                assert time.monotonic() < deadline and not reading.done(), reading
                time.sleep(0.02)
            proxy.cut()
            with pytest.raises(DatabaseUnavailable, match="cannot reach the database of shard 'main'"):
                reading.result(30)
        assert pool.submit(lambda: sum(batch.num_rows for batch in reader.read(split))).result(30) == 10
