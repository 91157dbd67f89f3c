"""The cost of a claim does not grow with the log."""

from __future__ import annotations

import re

import pytest

from headrace.consume import Consumer, seek_consumer
from headrace.core import LoggedEvent
from headrace.db import Connection
from tests.builders import drain, fill, topic
from tests.consume.conftest import Start, run_dry

EVENTS = 40_000
PAGES_MAX = 150
"""Some pages per partition and time partition, and the catalog's; the log of this test has over 500."""


def pages_read(conn: Connection, statement: str) -> int:
    plan = "\n".join(row[0] for row in conn.execute(f"explain (analyze, buffers, timing off) {statement}").fetchall())
    first = re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", plan)
    assert first is not None, plan
    return sum(int(number or 0) for number in first.groups())


def fill_wide(conn: Connection) -> None:
    """Events as wide as real ones: with small rows the planner chooses the right index anyway."""
    with conn.transaction():
        conn.execute(
            """select headrace.publish('orders', 'placed', jsonb_build_object('n', n, 'text', repeat(md5(n::text), 12)),
                   p_key => 'k' || n %% 50) from generate_series(1, %s) n""",
            (EVENTS,),
        )
    drain(conn)


async def test_claim_with_nothing_due_reads_a_few_pages(conn: Connection, start: Start) -> None:
    topic(conn, partitions=4)
    fill_wide(conn)
    await start(Consumer(topic="orders", name="c", handler=ignore))
    seek_consumer(conn, "orders", "c", "latest")
    conn.execute("analyze headrace_internal.log, headrace.cursor")
    conn.execute("select * from headrace.claim(1, 100)")  # The first call of a session reads the catalog.
    assert pages_read(conn, "select * from headrace.claim(1, 100)") < PAGES_MAX
    assert pages_read(conn, "select count(*) from headrace.log") > PAGES_MAX


@pytest.mark.lane("pg18")
async def test_sync_handler_keeps_working_when_statements_are_prepared(conn: Connection, start: Start) -> None:
    """psycopg prepares a statement at its sixth run, on both interfaces of the connection."""
    topic(conn)
    conn.execute("create table effect (n int)")
    fill(conn, 300)
    await run_dry(await start(Consumer(topic="orders", name="c", handler=record)))
    assert conn.execute("select count(*), sum(n) from effect").fetchone() == (300, 300 * 301 // 2)


def record(event: LoggedEvent, conn: Connection) -> None:
    conn.execute("insert into effect values (%s)", (event.payload,))


async def ignore(_event: LoggedEvent, _conn: object) -> None:
    """Handles nothing."""
