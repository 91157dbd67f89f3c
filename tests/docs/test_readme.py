"""The README's example runs as it stands there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from headrace.db import Connection, Target
from headrace.log import create_topic
from headrace.node import Node

README = (Path(__file__).parents[2] / "README.md").read_text()


async def test_readme_example(conn: Connection, database: Target) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shop: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), shop)
    create_topic(conn, "orders", partitions=4)
    conn.execute("create table purchase (id int); create table receipt (order_id int)")
    node = Node(shop["app"], [database])  # type: ignore[arg-type]
    running = asyncio.create_task(node.run())
    for order_id in (7, 8):
        shop["place_order"](conn, order_id)  # type: ignore[operator]
    async with asyncio.timeout(30):
        while node.handled < 2:
            await asyncio.sleep(0.01)
    node.stop()
    await running
    assert conn.execute("select array_agg(order_id order by order_id) from receipt").fetchone() == ([7, 8],)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
