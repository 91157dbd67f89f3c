"""A topic for scheduled events, a clock for every session of the database, and tickers that are stepped by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace.db import Connection, StopSignal, Subscription, Target, create_pool
from headrace.schedules import Ticker
from tests.builders import topic

Start = Callable[[], Awaitable[Ticker]]


@pytest.fixture
def reports(conn: Connection) -> Connection:
    """A connection to a database with the topic `reports`, at noon of 2 March 2026, UTC."""
    set_clock(conn, "2026-03-02T12:00:00Z")
    topic(conn, "reports")
    return conn


def set_clock(conn: Connection, at: str) -> None:
    """Sets headrace's clock for this session and for all that begin later."""
    conn.execute("select set_config('headrace.clock_shift', (%s::timestamptz - statement_timestamp())::text, false)", (at,))
    conn.execute(
        """do $$ begin execute format('alter database %I set headrace.clock_shift = %L',
            current_database(), current_setting('headrace.clock_shift')); end $$"""
    )


@pytest.fixture
async def start(database: Target) -> AsyncIterator[Start]:
    """Gives tickers, each with connections of its own."""
    opened = []

    async def begin() -> Ticker:
        own = create_pool(database, size=2)
        await own.open()
        opened.append(own)
        return Ticker(own, Subscription("headrace_schedule"), StopSignal(), database)

    yield begin
    for own in opened:
        await own.close()


async def fire_all(ticker: Ticker) -> int:
    """Plans and fires until nothing is due; returns how many events that made."""
    before = ticker.fired
    await ticker.plan_once()
    while await ticker.fire_once():
        pass
    return ticker.fired - before
