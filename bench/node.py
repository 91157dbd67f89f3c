"""A headrace node in a process of its own: `python -m bench.node <dsn> <consumer>`.

Consumers: `none` (the sequencer alone), `batch` (10 to 100 events at once), `clock` (records each event's latency)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.child import answer
from headrace import Batch, Headrace
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Target
from headrace.node import Node, run_loop

ways_ms: list[float] = []
batches = 0


async def batch(events: Sequence[LoggedEvent], conn: AsyncConnection) -> None:
    """Does nothing with events that are decoded already."""
    global batches
    batches += 1


async def clock(events: Sequence[LoggedEvent], conn: AsyncConnection) -> None:
    now = time.time()
    ways_ms.extend(1000 * (now - event.emitted_at.timestamp()) for event in events)


async def main(dsn: str, consumer: str) -> None:
    app = Headrace()
    if consumer == "batch":
        app.consumer("bench", batch=Batch(min=10, max=100, wait_s=1.0))(batch)
    elif consumer == "clock":
        app.consumer("bench", batch=Batch(min=1, max=100))(clock)
    node = Node(app, [Target("bench", dsn)])

    def report() -> dict[str, Any]:
        counts = {"handled": node.handled, "sequenced": node.sequenced, "batches": batches, "ways_ms": sorted(ways_ms)}
        ways_ms.clear()
        return counts

    running = asyncio.create_task(node.run())
    await asyncio.sleep(0.5)
    await answer(report)
    node.stop()
    await running


if __name__ == "__main__":
    run_loop(main(*sys.argv[1:]))
