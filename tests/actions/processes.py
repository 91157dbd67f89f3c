"""A node to be killed: `python -m tests.actions.processes DSN NAME LEASE_S`.

Its handlers write through their transaction; `hang` waits until the table `go` has a row for the node."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import psycopg

from headrace.actions import Action
from headrace.db import AsyncConnection, Connection, Target
from headrace.node import Headrace, Identity, Node, WorkerSettings

app = Headrace()
name = ""
dsn = ""


@app.handler("count")
async def count(action: Action, tx: AsyncConnection) -> None:
    await tx.execute("insert into effect (n, node) values (%s, %s)", (action.payload, name))


@app.handler("slow", concurrency=2)
async def slow(action: Action, tx: AsyncConnection) -> None:
    await tx.execute("insert into effect (n, node) values (%s, %s)", (action.payload, name))
    await tx.execute("select pg_sleep(0.05)")


@app.handler("hang", concurrency=1)
def hang(action: Action, tx: Connection) -> None:
    tx.execute("insert into effect (n, node) values (%s, %s)", (action.payload, name))
    with psycopg.connect(dsn, autocommit=True) as beside:
        beside.execute("insert into seen (node) values (%s)", (name,))
        while beside.execute("select from go where node = %s", (name,)).fetchone() is None:
            time.sleep(0.02)


async def run(lease_s: float) -> None:
    node = Node(app, [Target("main", dsn)], identity=Identity(name=name), work=WorkerSettings(lease_s=lease_s))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
    await node.run()


if __name__ == "__main__":
    dsn, name = sys.argv[1:3]
    asyncio.run(run(float(sys.argv[3])))
