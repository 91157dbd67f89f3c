"""Real processes to be killed: a publisher and a node, each started as `python -m tests.node.processes ROLE DSN`.

The publisher numbers its events and retries by event id until the commit is acknowledged; it prints every acknowledged number."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg

from headrace.consume import Batch, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Target
from headrace.node import Headrace, Node

PUBLISH = "select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s, p_event_id => %s)"


def publisher(dsn: str, name: str) -> None:
    conn: psycopg.Connection[tuple[object, ...]] | None = None
    n = 0
    event_id = uuid4()
    while True:
        try:
            conn = conn or psycopg.connect(dsn, connect_timeout=2)
            acknowledge(conn, n, name, event_id)
        except psycopg.OperationalError:
            # The commit may or may not have happened: the same id again makes it one event either way.
            conn = None
            continue
        print(n, flush=True)  # noqa: T201
        n, event_id = n + 1, uuid4()


def acknowledge(conn: psycopg.Connection[tuple[object, ...]], n: int, name: str, event_id: UUID) -> None:
    conn.execute(PUBLISH, (n, name, event_id))
    conn.commit()


def hold(dsn: str, _name: str) -> None:
    """Claims the events of the consumer `slow` and never ends."""
    with psycopg.connect(dsn) as conn, psycopg.connect(dsn, autocommit=True) as other:
        row = other.execute("select headrace.create_consumer('orders', 'slow')").fetchone()
        while not conn.execute("select headrace.claim_events(%s, 10)", row).fetchall():
            conn.rollback()
        other.execute("insert into held values (pg_backend_pid())")
        signal.pause()


def faulty(dsn: str, signal_name: str) -> None:
    """A node whose handler sends its own process a signal at event 21; another consumer is well."""
    app = Headrace()

    @app.consumer("orders", name="faulty", failure=Failure.dead_letter(attempts=2, backoff_s=0.01), timeout_s=0.5)
    async def fault(event: LoggedEvent, tx: AsyncConnection) -> None:
        if event.payload == 21:
            os.kill(os.getpid(), signal.Signals[signal_name])
        await tx.execute("insert into effect values (%s)", (event.payload,))

    @app.consumer("calm", name="calm")
    async def keep_calm(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into calm values (%s)", (event.payload,))

    asyncio.run(Node(app, [Target("main", dsn)]).run())


def node(dsn: str, name: str) -> None:
    app = Headrace()

    @app.consumer("orders", batch=Batch(max=20), name="effects")
    async def write(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        await tx.cursor().executemany(
            "insert into effect (producer, n, position, node) values (%s, %s, %s, %s)",
            [(event.key, event.payload, event.position, name) for event in events],
        )

    async def run() -> None:
        running = Node(app, [Target("main", dsn)])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.stop)
        await running.run()

    asyncio.run(run())


if __name__ == "__main__":
    {"publisher": publisher, "node": node, "hold": hold, "faulty": faulty}[sys.argv[1]](sys.argv[2], sys.argv[3])
