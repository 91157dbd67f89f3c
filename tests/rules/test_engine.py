"""The loops of a node: rules become active and fire without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.db import Connection, Target
from headrace.node import Headrace, Node
from tests.builders import topic

from .steps import publish, write


@pytest.fixture
async def node(database: Target, conn: Connection) -> AsyncIterator[Node]:
    """A node that runs."""
    running = Node(Headrace(), [database])
    task = asyncio.create_task(running.run())
    yield running
    running.stop()
    await task


SLOW = 15
"""Test machines are busy; the promises hold on an idle one."""


async def until(query: str, wanted: int, conn: Connection, *, within_s: float) -> None:
    """Waits until a query returns the wanted number."""
    async with asyncio.timeout(within_s * SLOW):
        while conn.execute(query).fetchone() != (wanted,):
            await asyncio.sleep(0.01)


ACTIVE = "select count(*) from headrace.rule where status = 'valid'"
SENT = "select count(*) from public.sent"
WATCHED = "select count(*) from headrace.consumer where consumer = 'headrace.rules'"


async def test_rule_written_by_sql_is_active_within_a_second_without_restart(node: Node, conn: Connection) -> None:
    topic(conn, "cars")
    for rules, actions in ((1, 1), (2, 3)):
        write(conn, f"r{rules}", "true")
        await until(ACTIVE, rules, conn, within_s=1)
        publish(conn, "NEW_CAR", {})
        await until(SENT, actions, conn, within_s=2)


async def test_topic_whose_last_rule_goes_and_comes_back_is_watched_again(node: Node, conn: Connection) -> None:
    topic(conn, "cars")
    for number in (1, 2):
        write(conn, f"r{number}", "true")
        publish(conn, "NEW_CAR", {})
        await until(SENT, number, conn, within_s=5)
        conn.execute("delete from headrace.rule")
        await until(WATCHED, 0, conn, within_s=5)


async def test_correlator_written_by_sql_runs_within_a_second_and_its_timer_fires_without_an_event(
    node: Node, conn: Connection
) -> None:
    topic(conn, "cars")
    conn.execute(
        """insert into headrace.correlator (correlator, topic, pattern, outputs)
           values ('late', 'cars', 'push(late) {sequential {NEW_CAR, after 300 ms}}', '{"late": {"action": "LATE"}}')"""
    )
    await until("select count(*) from headrace.correlator where status = 'valid'", 1, conn, within_s=1)
    publish(conn, "NEW_CAR", {})
    await until(SENT, 1, conn, within_s=2)
    late = "select count(*) from headrace.correlation c, headrace.log l where c.output_at = l.appended_at + interval '300 ms'"
    assert conn.execute(late).fetchone() == (1,)
