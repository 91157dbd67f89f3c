"""A queue's worker for the recovery table: `python -m bench.recovery_worker <queue> <dsn>`.

Each job leaves a row in the table `done`. A worker is written as its library's guide writes it, and does not catch what the
library lets through: whoever supervises it starts it again."""

from __future__ import annotations

import asyncio
import sys

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.actions import Action
from headrace.db import AsyncConnection, Target
from headrace.node import Headrace, Node, WorkerSettings

DONE = "insert into done default values"


async def headrace(dsn: str) -> None:
    app = Headrace()

    @app.handler("work")
    async def work(action: Action, tx: AsyncConnection) -> None:
        await tx.execute(DONE)

    await Node(app, [Target("bench", dsn)], work=WorkerSettings(lease_s=5)).run()


async def procrastinate(dsn: str) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=2, max_size=10))

    @app.task(name="work", queue="bench")
    async def work() -> None:
        await app.connector.execute_query_async(DONE)  # type: ignore[attr-defined]

    async with app.open_async():
        await app.run_worker_async(concurrency=4, delete_jobs="successful")


async def pgmq(dsn: str) -> None:
    await asyncio.to_thread(_pgmq, dsn)


def _pgmq(dsn: str) -> None:
    from pgmq import PGMQueue

    parts = conninfo_to_dict(dsn)
    # Its SQL is there without the extension.
    queue = PGMQueue(
        init_extension=False,
        host=str(parts["host"]),
        port=str(parts["port"]),
        database=str(parts["dbname"]),
        username=str(parts["user"]),
        password="",
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            messages = queue.read_with_poll("bare", vt=5, qty=20, max_poll_seconds=1, poll_interval_ms=20) or []
            for message in messages:
                conn.execute(DONE)
                queue.delete("bare", message.msg_id)


if __name__ == "__main__":
    asyncio.run({"headrace": headrace, "procrastinate": procrastinate, "pgmq": pgmq}[sys.argv[1]](sys.argv[2]))
