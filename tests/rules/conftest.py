"""Rules compiled and evaluated step by step, and a queue that only records what is sent to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, StopSignal, Subscription, Target, connect, create_pool
from headrace.rules import RuleEngine

# The queue belongs to another room: only what a rule sends matters here.
REMEMBER = """
create table public.sent (n bigint generated always as identity, namespace text, action jsonb, delay_s integer);
create or replace function headrace.send_actions(
    p_namespace text, p_actions jsonb[], p_delays integer[] default null, p_caller headrace_internal.caller default current_user
) returns setof bigint
language sql volatile
as $$
    insert into public.sent (namespace, action, delay_s)
    select p_namespace, a.action, p_delays[a.n] from unnest(p_actions) with ordinality a (action, n) order by a.n
    returning n
$$;
"""


@contextmanager
def remembering(database: Target) -> Iterator[Connection]:
    """A connection to a database whose queue only records, and which allows unregistered names."""
    with connect(database) as connection:
        connection.execute(REMEMBER)
        connection.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        yield connection


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with remembering(database) as connection:
        yield connection


@asynccontextmanager
async def reacting(database: Target) -> AsyncIterator[RuleEngine]:
    """A rule engine that is stepped by hand."""
    pool = create_pool(database, size=2)
    await pool.open()
    try:
        yield RuleEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    finally:
        await pool.close()


@pytest.fixture
async def reactor(database: Target, conn: Connection) -> AsyncIterator[RuleEngine]:
    async with reacting(database) as engine:
        yield engine


@asynccontextmanager
async def correlating(database: Target) -> AsyncIterator[CorrelatorEngine]:
    """Correlators that are stepped by hand, on one connection: a test may move its clock."""
    pool = create_pool(database, size=1)
    await pool.open()
    try:
        yield CorrelatorEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    finally:
        await pool.close()


@pytest.fixture
async def correlators(database: Target, conn: Connection) -> AsyncIterator[CorrelatorEngine]:
    async with correlating(database) as engine:
        yield engine
