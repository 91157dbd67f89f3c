"""Actions that no node handles become dead letters, but not while their nodes are only away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from headrace.actions import Queue
from headrace.db import Connection, Pool, Target, create_loop_pool
from headrace.node.action_workers import AWAY_S, RETURN_S, UnhandledSweeper
from tests.actions.conftest import send


@pytest.fixture
async def leases(database: Target) -> AsyncIterator[Pool]:
    """One connection, so that its clock can be moved."""
    opened = create_loop_pool(database, size=1)
    await opened.open()
    yield opened
    await opened.close()


async def later(leases: Pool, by_s: float) -> None:
    async with leases.connection() as conn:
        await conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"{by_s} seconds",))


def sweeper(leases: Pool) -> UnhandledSweeper:
    return UnhandledSweeper(Queue(leases, namespace=None, node_id=uuid4()), grace_s=10)


def send_for_another_node(conn: Connection) -> None:
    conn.execute("select headrace.register_node(%s, 'other', '1', '{work}')", (uuid4(),))
    send(conn, 1, action="work")


async def test_action_is_buried_once_its_node_is_lost(conn: Connection, leases: Pool) -> None:
    send_for_another_node(conn)
    sweeps, buried = sweeper(leases), []
    for by_s in range(0, 120, 20):
        await later(leases, by_s)
        buried.append(await sweeps.sweep_once())
    assert buried == [0, 0, 0, 0, 0, 1], "a node is alive for 90 s after its last heartbeat"


@pytest.mark.lane("pg18")
async def test_node_that_was_away_gives_others_time_for_a_heartbeat(conn: Connection, leases: Pool) -> None:
    """The machine slept, or the database was down, for ten minutes: the other node is back a moment later."""
    send_for_another_node(conn)
    sweeps = sweeper(leases)
    assert await sweeps.sweep_once() == 0
    await later(leases, 600)
    assert await sweeps.sweep_once() == 0, "every heartbeat is old"
    await later(leases, 600 + RETURN_S / 2)
    assert await sweeps.sweep_once() == 0
    conn.execute("update headrace_internal.node set heartbeat_at = headrace.clock() + interval '10 minutes'")
    await later(leases, 600 + RETURN_S)
    assert await sweeps.sweep_once() == 0, "by now the other node has sent one"


@pytest.mark.lane("pg18")
async def test_action_is_buried_if_its_node_does_not_come_back(conn: Connection, leases: Pool) -> None:
    send_for_another_node(conn)
    sweeps, buried = sweeper(leases), []
    await sweeps.sweep_once()
    for since_s in range(0, int(RETURN_S) + 20, int(AWAY_S) - 10):
        await later(leases, 600 + since_s)
        buried.append(await sweeps.sweep_once())
    assert buried == [0, 0, 0, 1]
