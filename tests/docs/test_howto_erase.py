"""The guide about erasing a person's data runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target
from headrace.log.archive import list_erasures
from headrace.log.topics import create_topic
from tests.builders import drain
from tests.docs.guide import run_guide


@pytest.mark.lane("pg18")
async def test_erase_guide_runs(conn: Connection, database: Target) -> None:
    create_topic(conn, "orders")
    for number in (7, 8, 9):
        conn.execute(
            "select headrace.publish('orders', 'placed', '{\"email\": \"a@b.example\", \"n\": 1}', p_key => %s)",
            (f"customer-{number}",),
        )
    drain(conn)
    names = await run_guide("howto/erase", database, conn, {"target": database})
    assert names["blocks_run"] == 6
    rows = conn.execute("select key like 'erased-%', payload from headrace.log order by position").fetchall()
    assert rows == [(False, {}), (True, {"email": None, "n": 1}), (False, {"email": "a@b.example", "n": 1})]
    assert [erasure.row_counts for erasure in list_erasures(conn)] == [{"log": 1}, {"log": 1}]
