"""The guide about the archive runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.db import Connection, Target
from headrace.log.archive import REPLAY_HEADER
from headrace.log.topics import create_topic, read_log
from tests.builders import drain
from tests.docs.guide import run_guide
from tests.log.archive.builders import events, later


@pytest.mark.lane("pg18")
async def test_archive_guide_runs(database: Target, conn: Connection, tmp_path: Path) -> None:
    create_topic(conn, "orders", time_partition="day")
    create_topic(conn, "orders.test")
    conn.execute("select headrace.alter_topic('orders', p_retention => '1 day')")
    events(conn, 1, 10, days=0)
    events(conn, 11, 10, days=6)
    names = {"target": later(database, days=6), "folder": tmp_path}
    assert (await run_guide("archive", database, conn, names))["blocks_run"] == 4
    drain(conn)
    assert [event.headers[REPLAY_HEADER] for event in read_log(conn, "orders.test")] == [f"orders/{n}" for n in range(1, 21)]
