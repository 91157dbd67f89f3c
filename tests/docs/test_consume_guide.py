"""docs/consume.md runs."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.db import Connection, Target
from headrace.log.topics import create_topic
from headrace.node import Node
from tests.builders import drain
from tests.docs.guide import run_guide


async def test_consume_guide(conn: Connection, database: Target) -> None:
    create_topic(conn, "orders", partitions=2)
    conn.execute("create table seen (id int); create table totals (id int)")
    names: dict[str, Any] = await run_guide("consume", database, conn)
    conn.execute("""select headrace.publish('orders', 'placed', jsonb_build_object('id', n)) from generate_series(1, 20) n""")
    drain(conn)
    node = Node(names["app"], [database])
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(30):
        while node.handled < 7 * 20:
            await asyncio.sleep(0.01)
    node.stop()
    await running
    assert conn.execute("select count(*) from seen").fetchone() == (20,)
    assert conn.execute("select count(*) from totals").fetchone() == (20,)
