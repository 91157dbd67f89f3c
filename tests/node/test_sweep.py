"""Actions that nobody handles become dead letters; those whose nodes were only away do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from headrace.actions import Queue, lease_pool
from headrace.db import Connection, Pool, Target
from headrace.node.sweep import AWAY_S, BACK_S, Sweep
from tests.actions.conftest import send


@pytest.fixture
async def leases(database: Target) -> AsyncIterator[Pool]:
    """One connection, so that its clock can be moved."""
    opened = lease_pool(database, size=1)
    await opened.open()
    yield opened
    await opened.close()


async def later(leases: Pool, by_s: float) -> None:
    async with leases.connection() as conn:
        await conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"{by_s} seconds",))


def sweep(leases: Pool) -> Sweep:
    return Sweep(Queue(leases, namespace=None, node_id=uuid4()), unhandled_s=10)


def send_for_another_node(conn: Connection) -> None:
    conn.execute("select headrace.register_node(%s, 'other', '1', '{work}')", (uuid4(),))
    send(conn, 1, action="work")


async def test_action_of_a_node_that_is_gone_is_buried(conn: Connection, leases: Pool) -> None:
    send_for_another_node(conn)
    one, buried = sweep(leases), []
    for by_s in range(0, 120, 20):
        await later(leases, by_s)
        buried.append(await one.once())
    assert buried == [0, 0, 0, 0, 0, 1], "alive for 90 s after its last sign"


async def test_nobody_is_called_gone_by_one_that_was_away_itself(conn: Connection, leases: Pool) -> None:
    """A machine that slept, or a database that was down, for ten minutes: the other node comes back a moment later."""
    send_for_another_node(conn)
    one = sweep(leases)
    assert await one.once() == 0
    await later(leases, 600)
    assert await one.once() == 0, "its sign of life is old, as everybody's is"
    await later(leases, 600 + BACK_S / 2)
    assert await one.once() == 0
    conn.execute("update headrace_internal.node set heartbeat_at = headrace.clock() + interval '10 minutes'")
    await later(leases, 600 + BACK_S)
    assert await one.once() == 0, "by now it has given one"


async def test_who_does_not_come_back_is_gone(conn: Connection, leases: Pool) -> None:
    send_for_another_node(conn)
    one, buried = sweep(leases), []
    await one.once()
    for since_s in range(0, int(BACK_S) + 20, int(AWAY_S) - 10):
        await later(leases, 600 + since_s)
        buried.append(await one.once())
    assert buried == [0, 0, 0, 1]
