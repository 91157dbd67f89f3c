"""Workers that tests step by hand, so that no test sleeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from headrace.actions import (
    Action,
    ActionHandler,
    ActionHandlers,
    ActionWorker,
    LeaseExtender,
    Policy,
    Queue,
    build_worker_pools,
    send_action,
)
from headrace.db import AsyncConnection, Connection, Pool, StopSignal, Subscription, Target, create_loop_pool, create_pool


class Bench:
    """A queue, its connections, and workers for the handlers of a test."""

    def __init__(self, pool: Pool, leases: Pool) -> None:
        self.pool = pool
        self.queue = Queue(leases, namespace=None, node_id=uuid4())
        self.leases = LeaseExtender(self.queue)

    def worker(self, *handlers: ActionHandler, action: str = "work", **policy: object) -> ActionWorker:
        handlers_of_action = ActionHandlers(
            action=action, handlers=handlers, policy=Policy(**{"backoff_s": 10, "backoff_max_s": 1000, **policy})
        )  # type: ignore[arg-type]
        (worker_pool,) = build_worker_pools([handlers_of_action])
        return ActionWorker(worker_pool, self.queue, self.pool, self.leases, Subscription("headrace_action"), StopSignal())


@pytest.fixture
async def bench(database: Target) -> AsyncIterator[Bench]:
    pool, leases = create_pool(database, size=4), create_loop_pool(database, size=3)
    await pool.open()
    await leases.open()
    yield Bench(pool, leases)
    await pool.close()
    await leases.close()


@pytest.fixture
def effects(conn: Connection) -> Callable[[], list[object]]:
    """A table without any constraint, and a function that reads it."""
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    return lambda: [row[0] for row in conn.execute("select n from effect order by id").fetchall()]


async def write(action: Action, tx: AsyncConnection) -> None:
    """A handler with an effect."""
    await tx.execute("insert into effect (n) values (%s::jsonb)", (str(action.payload),))


class Picky:
    """A handler with an effect that raises on some numbers, after the effect."""

    def __init__(self, *disliked: int) -> None:
        self.disliked = set(disliked)
        self.payloads: list[object] = []

    async def handle(self, action: Action, tx: AsyncConnection) -> None:
        self.payloads.append(action.payload)
        await write(action, tx)
        if action.payload in self.disliked:
            raise ValueError(f"cannot handle {action.payload}")


def send(conn: Connection, *numbers: int, key: str | None = None, priority: int = 0, action: str = "work") -> None:
    """Actions whose payload is a number."""
    for number in numbers:
        send_action(conn, action, number, key=key, priority=priority)


def make_due(conn: Connection) -> None:
    """Makes every action due now, also a delayed or claimed one."""
    conn.execute("update pgmq.q_hr_default set vt = now() - interval '1 second'")


def waiting(conn: Connection) -> list[object]:
    """The payloads in the queue, oldest first."""
    return [row[0] for row in conn.execute("select message -> 'payload' from pgmq.q_hr_default order by msg_id").fetchall()]


async def run_dry(worker: ActionWorker, *, steps_max: int = 1000) -> int:
    """Handles batches until nothing is due; returns their number."""
    for step in range(steps_max):
        if not await worker.handle_once():
            return step
    raise AssertionError(f"still busy after {steps_max} steps")
