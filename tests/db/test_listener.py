from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from headrace.db import Connection, Listener, Subscription, Target
from headrace.db.listener import NAME_CHARS_MAX
from headrace.db.loops import NAMES_MAX


@pytest.fixture
async def subscription(database: Target) -> AsyncIterator[Subscription]:
    listener = Listener(database)
    subscription = listener.subscribe("news")
    running = asyncio.create_task(listener.run())
    assert await subscription.wait(60)  # Connected.
    subscription.take_names()
    subscription.listener = listener  # type: ignore[attr-defined]
    yield subscription
    running.cancel()


def pid(conn: Connection) -> int:
    return conn.info.backend_pid


async def test_delivered_notification_wakes_once(subscription: Subscription, conn: Connection) -> None:
    listener: Listener = subscription.listener  # type: ignore[attr-defined]
    conn.execute("select pg_notify('news', '1')")
    listener.deliver("news", "1", backend_pid=pid(conn))
    assert await subscription.wait(60)
    conn.execute("select pg_notify('news', 'end')")
    assert await subscription.wait(60)
    assert subscription.take_names() == {"1", "end"}
    assert not await subscription.wait(0.1)


async def test_message_that_comes_before_its_delivery_wakes_once(subscription: Subscription, conn: Connection) -> None:
    """The server may send it before this process has read that the transaction is committed."""
    listener: Listener = subscription.listener  # type: ignore[attr-defined]
    with listener.holding(pid(conn)):
        conn.execute("select pg_notify('news', '1')")
        while not listener._held[pid(conn)]:
            await asyncio.sleep(0.01)
        assert subscription.take_names() == set()
        listener.deliver("news", "1", backend_pid=pid(conn))
    assert await subscription.wait(60)
    assert not await subscription.wait(0.1)
    with listener.holding(pid(conn)):
        conn.execute("select pg_notify('news', '2')")
        while not listener._held[pid(conn)]:
            await asyncio.sleep(0.01)
    # Nobody has delivered it.
    assert await subscription.wait(60)
    assert subscription.take_names() == {"1", "2"}


async def test_flood_of_names_is_forgotten(subscription: Subscription, conn: Connection) -> None:
    """Every role may notify. What it is about no longer matters then: everything is looked at."""
    listener: Listener = subscription.listener  # type: ignore[attr-defined]
    for number in range(NAMES_MAX):
        listener.deliver("news", f"{number},{'x' * NAME_CHARS_MAX}{number}", backend_pid=0)
    assert len(subscription.take_names() or ()) == NAMES_MAX
    for number in range(NAMES_MAX + 1):
        listener.deliver("news", str(number), backend_pid=0)
    assert subscription.take_names() is None
    assert await subscription.wait(60)
    conn.execute("select pg_notify('news', repeat('x', 7000))")
    conn.execute("select pg_notify('news', '1')")
    assert await subscription.wait(60)
    assert subscription.take_names() == {"1"}


async def test_notification_of_another_backend_is_never_ignored(
    subscription: Subscription, conn: Connection, database: Target
) -> None:
    listener: Listener = subscription.listener  # type: ignore[attr-defined]
    listener.deliver("news", "1", backend_pid=pid(conn))
    assert await subscription.wait(60)
    with psycopg.connect(database.dsn, autocommit=True) as other:
        other.execute("select pg_notify('news', '1')")
    assert await subscription.wait(60)


async def test_each_delivery_takes_one_message_away(subscription: Subscription, conn: Connection) -> None:
    listener: Listener = subscription.listener  # type: ignore[attr-defined]
    listener.deliver("news", "1", backend_pid=pid(conn))
    assert await subscription.wait(60)
    conn.execute("select pg_notify('news', '1')")  # Its message is the one that was delivered.
    conn.execute("select pg_notify('news', '1')")
    assert await subscription.wait(60)
    assert not await subscription.wait(0.1)
