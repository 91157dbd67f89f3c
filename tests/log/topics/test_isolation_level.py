"""What is dropped, truncated or numbered is never decided by an old snapshot, whatever the isolation level of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from headrace.consume import Consumer, create_consumer
from headrace.core import WrongIsolationLevel
from headrace.db import Connection, Target, connect
from headrace.log.topics import alter_topic, drop_topic, list_topics, maintain_log, sequence
from tests.builders import drain, fill, numbers, publish, topic, trim_outbox

LEVELS = ["repeatable read", "serializable"]


async def ignore(event: object, tx: object) -> None: ...


@contextmanager
def old_snapshot(conn: Connection, level: str) -> Iterator[None]:
    """A transaction that has its snapshot already; it commits at the end."""
    conn.execute(f"begin isolation level {level}")
    conn.execute("select count(*) from headrace_internal.topic")
    try:
        yield
    except BaseException:
        conn.execute("rollback")
        raise
    conn.execute("commit")


@pytest.mark.parametrize("level", LEVELS)
def test_trim_never_truncates_by_an_old_snapshot(conn: Connection, second: Connection, level: str) -> None:
    """An event that was published after the snapshot is not visible to it, but it is in the slot."""
    topic(conn)
    fill(conn, 10)
    with pytest.raises(psycopg.Error, match="needs a transaction at READ COMMITTED"), old_snapshot(second, level):
        publish(conn, 1)
        trim_outbox(second)
    assert drain(conn) == 1


def test_default_isolation_level_of_the_database_loses_no_event(conn: Connection, database: Target) -> None:
    topic(conn)
    name = conn.info.dbname
    conn.execute(f"alter database {name} set default_transaction_isolation = 'repeatable read'")
    with connect(database) as strict:
        publish(strict, 1)
        with pytest.raises(WrongIsolationLevel, match="REPEATABLE READ; begin it with: begin isolation level read committed"):
            sequence(strict)
        with pytest.raises(WrongIsolationLevel):
            maintain_log(strict)
        strict.execute("set default_transaction_isolation = 'read committed'")
        assert drain(strict) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_drop_in_an_old_snapshot_keeps_a_topic_that_was_just_created(conn: Connection, second: Connection, level: str) -> None:
    conn.execute("select headrace.create_namespace('b')")
    topic(conn, "mine")
    with old_snapshot(second, level):
        conn.execute("select headrace.create_topic('yours', p_namespace => 'b')")
        drop_topic(second, "mine")
    maintain_log(conn)
    conn.execute("select headrace.publish('yours', 'placed', '1', p_namespace => 'b')")
    assert drain(conn) == 1
    assert [row.topic for row in list_topics(conn)] == []
    assert conn.execute("select to_regclass('headrace_internal.log_1')").fetchone() == (None,)


@pytest.mark.parametrize("level", LEVELS)
def test_drop_in_an_old_snapshot_keeps_a_topic_that_has_got_a_consumer(conn: Connection, second: Connection, level: str) -> None:
    topic(conn)
    with pytest.raises(psycopg.Error, match=r"could not serialize access|has consumers"), old_snapshot(second, level):
        create_consumer(conn, Consumer(topic="orders", name="c", handler=ignore))
        drop_topic(second, "orders")
    fill(conn, 1)
    assert numbers(conn) == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_border_of_more_partitions_is_never_before_the_head(conn: Connection, second: Connection, level: str) -> None:
    topic(conn)
    fill(conn, 1)
    with pytest.raises(WrongIsolationLevel), old_snapshot(second, level):
        fill(conn, 3)
        alter_topic(second, "orders", partitions=4)
    alter_topic(second, "orders", partitions=4)
    assert conn.execute("select position from headrace_internal.topic_border where partitions = 4").fetchone() == (4,)


def test_dropping_a_topic_twice_at_once_tells_the_second_that_it_is_gone(conn: Connection, database: Target) -> None:
    topic(conn)
    conn.execute("select headrace.drop_topic('orders')")
    with connect(database) as other, pytest.raises(Exception, match='no topic "orders"'):
        drop_topic(other, "orders")


def test_namespace_with_an_action_that_came_after_the_snapshot_is_kept(conn: Connection, second: Connection) -> None:
    conn.execute("select headrace.create_namespace('b')")
    with pytest.raises(psycopg.Error, match="needs a transaction at READ COMMITTED"), old_snapshot(second, "repeatable read"):
        conn.execute("select headrace.send_action('mail', '{}', p_namespace => 'b')")
        second.execute("select headrace.drop_namespace('b')")
    with pytest.raises(psycopg.Error, match="has actions or dead letters"):
        conn.execute("select headrace.drop_namespace('b')")
