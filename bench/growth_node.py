"""A node with many consumers, in a process of its own: `python -m bench.growth_node <dsn> <topics> <consumers per topic>`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from bench.child import answer
from headrace import Batch, Headrace
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Target
from headrace.node import Node, run_loop


async def consume(events: Sequence[LoggedEvent], conn: AsyncConnection) -> None:
    """Does nothing with events that are decoded already."""


async def main(dsn: str, topics: str, consumers: str) -> None:
    app = Headrace()
    for topic in range(int(topics)):
        for number in range(int(consumers)):
            app.consumer(f"t{topic}", name=f"c{number}", start="latest", batch=Batch(max=100))(consume)
    node = Node(app, [Target("bench", dsn)])
    running = asyncio.create_task(node.run())
    await asyncio.sleep(0.5)
    await answer(lambda: {"handled": node.handled})
    node.stop()
    await running


if __name__ == "__main__":
    run_loop(main(*sys.argv[1:]))
