"""A topic that fails, or is being created or dropped, stops no other topic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.consume import Consumer, create_consumer
from headrace.core import Event, InvalidRetention, TopicBusy
from headrace.db import Connection, create_namespace
from headrace.log.outbox import publish_many
from headrace.log.topics import alter_topic, create_topic, drop_topic, list_topics, maintain_log, sequence
from tests.builders import drain, fill, numbers, publish, shift_clock, topic

LOCKS_MAX = 1000
"""A step with 32 time partitions takes about 25 locks for each that it creates. PostgreSQL has 6400 by default, for all sessions."""


async def ignore(event: object, tx: object) -> None: ...


def failures(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute("select kind, namespace, name, failures from headrace_internal.failure order by kind, name").fetchall()


def lose_branch(conn: Connection, name: str) -> int:
    """Takes a topic's branch of the log away, so that nothing can be appended to it; returns the topic's id."""
    (topic_id,) = conn.execute("select headrace.topic_id(%s)", (name,)).fetchone()  # type: ignore[misc]
    conn.execute(
        "select headrace_internal.attach_log(topic_id) from headrace_internal.topic where topic = %s and not attached", (name,)
    )
    conn.execute(f"alter table headrace_internal.log detach partition headrace_internal.log_{topic_id}")
    return int(topic_id)


def test_topic_without_a_branch_stops_no_other_topic(conn: Connection) -> None:
    for name in ("a", "broken", "z"):
        topic(conn, name)
    topic_id = lose_branch(conn, "broken")
    for name in ("a", "broken", "z"):
        publish(conn, 1, topic=name)
    assert drain(conn) == 2
    assert (numbers(conn, "a"), numbers(conn, "z")) == ([1], [1])
    assert failures(conn) == [("sequence", "default", "broken", 1)]
    publish(conn, 2, topic="a")
    assert drain(conn) == 1
    assert failures(conn) == [("sequence", "default", "broken", 1)], "it waits for its retry"
    shift_clock(conn, "2 seconds")
    publish(conn, 3, topic="a")
    assert drain(conn) == 1
    assert failures(conn) == [("sequence", "default", "broken", 2)]
    conn.execute(
        f"alter table headrace_internal.log attach partition headrace_internal.log_{topic_id} for values in ({topic_id})"
    )
    shift_clock(conn, "10 seconds")
    assert drain(conn) == 1
    assert (numbers(conn, "broken"), failures(conn)) == ([1], [])


def test_failing_topic_lets_the_sequencer_sleep(conn: Connection) -> None:
    topic(conn, "broken")
    fill(conn, 1, topic="broken")
    lose_branch(conn, "broken")
    publish(conn, 2, topic="broken")
    assert drain(conn) == 0
    assert conn.execute("select headrace_internal.mark_idle_topics(0)").fetchone() == ("sleep",)


def test_sparse_backfill_proceeds_with_few_locks_per_step(conn: Connection) -> None:
    create_topic(conn, "past", clock="event", time_partition="day")
    create_namespace(conn, "shop")
    create_topic(conn, "orders", namespace="shop")
    begin = datetime(2013, 1, 30, tzinfo=UTC)
    days = [10 * n for n in range(100)]
    events = [Event(topic="past", type="a", emitted_at=begin + timedelta(days=day), payload=day) for day in days]
    publish_many(conn, events)
    conn.execute("select headrace.publish('orders', 'placed', '1', p_namespace => 'shop')")
    others = "select count(*) from headrace.log where topic_id = headrace.topic_id('orders', 'shop')"
    locks, steps = 0, 0
    while True:
        with conn.transaction():
            if not sequence(conn):
                break
            (held,) = conn.execute("select count(*) from pg_locks where pid = pg_backend_pid()").fetchone()  # type: ignore[misc]
            locks, steps = max(locks, held), steps + 1
        assert conn.execute(others).fetchone() == (1,), "each step serves every namespace"
    assert numbers(conn, "past") == days
    rows = conn.execute("select appended_at from headrace.log where topic_id = headrace.topic_id('past') order by position")
    assert [row[0] for row in rows] == [event.emitted_at for event in events]
    assert (steps, locks < LOCKS_MAX) == (4, True), locks


@pytest.mark.parametrize("retention", [timedelta(days=200_000 * 365), timedelta(days=-1)])
def test_absurd_retention_is_rejected_with_the_limit(conn: Connection, retention: timedelta) -> None:
    with pytest.raises(InvalidRetention, match="0 to 1000 years are allowed"):
        create_topic(conn, "orders", retention=retention)
    topic(conn)
    with pytest.raises(InvalidRetention, match="0 to 1000 years are allowed"):
        alter_topic(conn, "orders", retention=retention)
    alter_topic(conn, "orders", retention=timedelta(days=350_000))
    assert maintain_log(conn) == []


def test_consumer_with_an_endless_backoff_is_rejected(conn: Connection) -> None:
    topic(conn)
    for seconds in ("infinity", "nan", "1e300"):
        with pytest.raises(Exception, match="consumer_backoff_up_to_a_year"):
            conn.execute("select headrace.create_consumer('orders', 'c', p_backoff_max_s => %s::float8)", (seconds,))


def test_topic_that_cannot_be_maintained_stops_no_other_topic(conn: Connection) -> None:
    """Its retention is beyond PostgreSQL's times, as in a database from before the limit."""
    conn.execute("alter table headrace_internal.topic drop constraint topic_retention_limited")
    for name in ("a", "broken", "z"):
        create_topic(conn, name, time_partition="day", retention=timedelta(days=2))
        fill(conn, 1, topic=name)
    conn.execute("update headrace_internal.topic set retention = '200000 years' where topic = 'broken'")
    shift_clock(conn, "40 days")
    assert {row.topic for row in maintain_log(conn) if row.dropped} == {"a", "z"}
    assert failures(conn) == [("maintain", "default", "broken", 1)]
    conn.execute("update headrace_internal.topic set retention = '2 days' where topic = 'broken'")
    shift_clock(conn, "41 days")
    assert {row.topic for row in maintain_log(conn) if row.dropped} == {"broken"}
    assert failures(conn) == []


def works_within_a_second(conn: Connection, name: str) -> None:
    """Publishes to a topic, sequences and claims, while nothing may wait for a lock for longer than a second."""
    conn.execute("set lock_timeout = '1s'")
    fill(conn, 3, topic=name)
    claim = "select events from headrace.claim(headrace_internal.consumer_id(%s, 'c'), 10)"
    assert conn.execute(claim, (name,)).fetchone() == (3,)


@pytest.fixture
def two_topics(conn: Connection) -> Connection:
    for name in ("mine", "yours"):
        topic(conn, name)
        create_consumer(conn, Consumer(topic=name, name="c", handler=ignore))
    return conn


def test_open_drop_of_a_topic_blocks_no_other_topic(two_topics: Connection, second: Connection) -> None:
    fill(two_topics, 2, topic="mine")
    with second.transaction():
        drop_topic(second, "mine", force=True)
        works_within_a_second(two_topics, "yours")
        topic(two_topics, "new")
    assert [row.topic for row in list_topics(two_topics)] == ["new", "yours"]
    maintain_log(two_topics)
    assert two_topics.execute("select to_regclass('headrace_internal.log_1')").fetchone() == (None,)
    assert two_topics.execute("select count(*) from headrace_internal.dropped_topic").fetchone() == (0,)


@pytest.mark.lane("pg18")
def test_open_creation_of_a_topic_delays_only_that_of_the_same_name(two_topics: Connection, second: Connection) -> None:
    with second.transaction():
        topic(second, "new")
        topic(two_topics, "newer")
        create_consumer(two_topics, Consumer(topic="newer", name="c", handler=ignore))
        works_within_a_second(two_topics, "newer")
        two_topics.execute("set lock_timeout = 0")
        with pytest.raises(TopicBusy, match=r'topic "new" is not created: .* more than 2 s'):
            topic(two_topics, "new")


def test_held_cursor_and_locked_branch_block_no_other_topic(two_topics: Connection, second: Connection) -> None:
    publish(two_topics, 1, topic="mine")
    with second.transaction():
        second.execute("select from headrace_internal.cursor where consumer_id = 1 for update")
        second.execute("lock table headrace_internal.log_1 in access exclusive mode")
        works_within_a_second(two_topics, "yours")
        assert [row[:3] for row in failures(two_topics)] == [("sequence", "default", "mine")]
    shift_clock(two_topics, "2 seconds")
    assert drain(two_topics) == 1


@pytest.mark.lane("pg18")
def test_branch_of_a_dropped_topic_waits_for_a_long_reader_without_holding_up_the_others(
    two_topics: Connection, second: Connection
) -> None:
    fill(two_topics, 1, topic="mine")
    with second.transaction():
        second.execute("lock table headrace_internal.log in access share mode")
        drop_topic(two_topics, "mine", force=True)
        maintain_log(two_topics)
        assert failures(two_topics) == [("drop branch", "", "log_1", 1)]
        works_within_a_second(two_topics, "yours")
    shift_clock(two_topics, "20 seconds")
    maintain_log(two_topics)
    assert two_topics.execute("select to_regclass('headrace_internal.log_1')").fetchone() == (None,)
    assert failures(two_topics) == []
