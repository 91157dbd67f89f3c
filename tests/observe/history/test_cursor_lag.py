"""headrace.cursor_lag: the same numbers as the view consumer_lag, bounded, and only of the caller's namespace."""

from __future__ import annotations

import psycopg
import pytest

from headrace.consume import Consumer, create_consumer
from headrace.db import Connection
from headrace.log.topics import sequence
from tests.builders import fill, topic

LAG = "select partition, events, is_estimate from headrace.cursor_lag(%s, %s) order by consumer_id, partition"
COUNTED = """
select u.partition, count(l.position), false from headrace_internal.cursor u
join headrace_internal.consumer c on c.consumer_id = u.consumer_id
left join headrace_internal.log l on l.topic_id = c.topic_id and l.position > u.position and (u.partition < 0 or l.partition = u.partition)
group by u.consumer_id, u.partition order by u.consumer_id, u.partition"""


async def ignore(_event: object, _tx: object) -> None: ...


@pytest.fixture
def orders(conn: Connection) -> Connection:
    topic(conn, partitions=3)
    create_consumer(conn, Consumer(topic="orders", name="mailer", handler=ignore))
    create_consumer(conn, Consumer(topic="orders", name="whole", handler=ignore, ordered_by="topic"))
    fill(conn, 60, keys=10)
    while sequence(conn):
        pass
    return conn


def test_lag_is_counted(orders: Connection) -> None:
    assert orders.execute(LAG, ("orders", None)).fetchall() == orders.execute(COUNTED).fetchall()
    orders.execute("update headrace_internal.cursor set position = 30")
    assert orders.execute(LAG, (None, None)).fetchall() == orders.execute(COUNTED).fetchall()
    assert orders.execute(LAG, ("orders", "whole")).fetchall() == [(-1, 30, False)]


def test_cursor_at_the_head_has_no_lag_and_no_age(orders: Connection) -> None:
    orders.execute("update headrace_internal.cursor set position = 60")
    assert orders.execute("select distinct events, oldest_at from headrace.cursor_lag()").fetchall() == [(0, None)]


def test_long_lag_is_an_estimate_that_reads_few_rows(orders: Connection) -> None:
    rows = orders.execute("select events, is_estimate from headrace.cursor_lag('orders', 'mailer', p_exact => 5)").fetchall()
    assert [is_estimate for _, is_estimate in rows] == [True] * 3
    assert all(events == 20 for events, _ in rows)


def test_lag_of_another_namespace_is_forbidden(orders: Connection) -> None:
    orders.execute("create role stranger_to_lag")
    orders.execute("set role stranger_to_lag")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            orders.execute("select from headrace.cursor_lag()")
    finally:
        orders.execute("reset role")
        orders.execute("drop role stranger_to_lag")
