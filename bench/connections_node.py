"""A node with ten consumers and twenty handlers, in a process of its own: `python -m bench.connections_node <dsn> <connections>`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from bench.child import answer
from headrace import Action, Headrace
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Target
from headrace.node import Node, run_loop

CONSUMERS, HANDLERS = 10, 20


async def consume(event: LoggedEvent, tx: AsyncConnection) -> None:
    await tx.execute("insert into effect values (1)")


async def handle(action: Action, tx: AsyncConnection) -> None:
    await tx.execute("insert into effect values (2)")


def application() -> Headrace:
    app = Headrace()
    for number in range(CONSUMERS):
        app.consumer(f"t{number}", name=f"c{number}")(consume)
    for number in range(HANDLERS):
        # Every fourth has workers of its own.
        app.handler(f"A{number}", concurrency=2 if number % 4 == 0 else None)(handle)
    return app


async def main(dsn: str, connections: str) -> None:
    # Zero: a node of a release without a budget.
    options: dict[str, Any] = {"connections": int(connections)} if int(connections) else {}
    node = Node(application(), [Target("bench", dsn)], **options)
    running = asyncio.create_task(node.run())
    await asyncio.sleep(0.5)
    await answer(lambda: {"handled": node.handled, "actions": node.actions})
    node.stop()
    await running


if __name__ == "__main__":
    run_loop(main(*sys.argv[1:]))
