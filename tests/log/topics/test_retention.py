"""Time partitions exist before they are needed, and are dropped only after every consumer has passed."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from headrace.consume import Consumer, create_consumer, seek_consumer
from headrace.db import Connection
from headrace.log.topics import alter_topic, create_topic, get_topic, maintain_log, read_log
from tests.builders import drain, fill, numbers, publish, shift_clock
from tests.log.topics.test_plans import reads


async def ignore(event: object, tx: object) -> None: ...


def partitions(conn: Connection) -> list[tuple[datetime, datetime]]:
    rows = conn.execute(
        "select p.from_at, p.to_at from headrace.topic t, headrace.time_partitions(t.topic_id) p order by 1"
    ).fetchall()
    return [(row[0].astimezone(UTC), row[1].astimezone(UTC)) for row in rows]


@pytest.fixture
def daily(conn: Connection) -> Connection:
    """A topic with two events a day for four days; today is the fourth."""
    create_topic(conn, "orders", time_partition="day", retention=timedelta(days=2))
    for day in range(4):
        shift_clock(conn, f"{day} days")
        fill(conn, 2)
    return conn


def test_time_partitions_are_created_ahead_without_gaps(conn: Connection) -> None:
    create_topic(conn, "orders", time_partition="day")
    created = partitions(conn)
    assert created[0][0] <= datetime.now(UTC) < created[0][1]
    assert created[-1][1] - datetime.now(UTC) > timedelta(days=1)
    assert all(earlier[1] == later[0] for earlier, later in itertools.pairwise(created))


@pytest.mark.parametrize("width", ["day", "week", "month"])
def test_sequencer_creates_the_partition_it_needs(conn: Connection, width: str) -> None:
    """Nobody ran maintenance for a year; events still flow."""
    create_topic(conn, "orders", time_partition=width)  # type: ignore[arg-type]
    fill(conn, 1)
    shift_clock(conn, "400 days")
    fill(conn, 1)
    assert len(read_log(conn, "orders")) == 2


def test_session_time_zone_does_not_move_the_bounds(conn: Connection) -> None:
    conn.execute("set timezone = 'Asia/Kolkata'")
    create_topic(conn, "orders", time_partition="day")
    assert all(start.hour == start.minute == 0 for start, _ in partitions(conn))


def test_retention_drops_old_partitions(daily: Connection) -> None:
    shift_clock(daily, "4 days")
    dropped = maintain_log(daily)
    assert [(one.events, one.dropped) for one in dropped] == [(2, True), (2, True)]
    assert [event.position for event in read_log(daily, "orders")] == [5, 6, 7, 8]
    assert get_topic(daily, "orders").first_position == 5


def test_retention_keeps_what_a_consumer_has_not_passed(daily: Connection) -> None:
    create_consumer(daily, Consumer(topic="orders", name="slow", handler=ignore))
    seek_consumer(daily, "orders", "slow", "4")
    shift_clock(daily, "5 days")
    kept = maintain_log(daily)
    assert [(one.dropped, one.kept_for) for one in kept] == [(True, None), (False, "slow")]
    assert next(event.position for event in read_log(daily, "orders")) == 3


def test_force_drops_what_consumers_have_not_passed(daily: Connection) -> None:
    create_consumer(daily, Consumer(topic="orders", name="slow", handler=ignore))
    shift_clock(daily, "4 days")
    daily.execute("select headrace.drop_expired(headrace.topic_id('orders'), headrace.clock() - interval '2 days', true)")
    assert [event.position for event in read_log(daily, "orders")] == [5, 6, 7, 8]


def test_positions_continue_after_everything_was_dropped(daily: Connection) -> None:
    shift_clock(daily, "40 days")
    maintain_log(daily)
    assert read_log(daily, "orders") == []
    publish(daily, 1)
    drain(daily)
    assert [event.position for event in read_log(daily, "orders")] == [9]


def test_new_consumer_starts_at_the_first_kept_event(daily: Connection) -> None:
    shift_clock(daily, "4 days")
    maintain_log(daily)
    create_consumer(daily, Consumer(topic="orders", name="new", handler=ignore))
    assert daily.execute("select position from headrace.cursor").fetchone() == (4,)


def test_without_retention_nothing_is_dropped(daily: Connection) -> None:
    alter_topic(daily, "orders", retention=timedelta(0))
    shift_clock(daily, "400 days")
    assert maintain_log(daily) == []
    assert len(numbers(daily)) == 8


def test_nodes_may_maintain_the_log_at_the_same_time(daily: Connection, second: Connection) -> None:
    for session in (daily, second):
        shift_clock(session, "40 days")
    with daily.transaction():
        assert sum(one.events for one in maintain_log(daily)) == 8
        assert maintain_log(second) == []
    assert maintain_log(second) == []
    fill(second, 1)


def test_reader_of_one_topic_does_not_keep_the_partitions_of_another(daily: Connection, second: Connection) -> None:
    """Nor what was made ahead; its own partitions go when it has ended."""
    create_topic(daily, "bills", time_partition="day", retention=timedelta(days=2))
    fill(daily, 1, topic="bills")
    shift_clock(daily, "40 days")
    with second.transaction():
        second.execute("lock table headrace_internal.log_1 in access share mode")
        assert {(one.topic, one.dropped) for one in maintain_log(daily)} == {("bills", True)}
        assert numbers(daily) == [1, 2] * 4
        daily.execute("select headrace.sequence()")
    assert {(one.topic, one.dropped) for one in maintain_log(daily)} == {("orders", True)}


def test_partition_that_is_kept_is_not_counted_row_by_row(daily: Connection) -> None:
    create_consumer(daily, Consumer(topic="orders", name="slow", handler=ignore))
    shift_clock(daily, "4 days")
    with reads(daily, "log") as seen:
        assert [(one.events, one.kept_for) for one in maintain_log(daily)] == [(2, "slow")]
    assert seen.whole_tables == []


@pytest.mark.lane("pg15")
def test_pg_partman_manages_the_time_partitions_where_it_is_installed(conn: Connection) -> None:
    create_topic(conn, "orders", time_partition="day")
    managed = conn.execute("select parent_table, partition_interval from partman.part_config").fetchall()
    assert managed == [("headrace_internal.log_1", "1 day")]
    shift_clock(conn, "-9 days")
    conn.execute("select headrace.drop_topic('orders')")
    assert conn.execute("select count(*) from partman.part_config").fetchone() == (0,)


@pytest.mark.lane("pg15")
def test_reader_of_default_partitions_delays_the_sequencer_by_milliseconds(conn: Connection, second: Connection) -> None:
    """pg_partman adds no partition while somebody reads the default one; the sequencer serves others meanwhile."""
    names = [f"past{number}" for number in range(8)]
    for name in names:
        create_topic(conn, name, clock="event")
        publish(conn, 1, topic=name)
    drain(conn)
    with second.transaction():
        for name in names:
            read_log(second, name)
            conn.execute("select headrace.publish(%s, 'placed', '2', p_emitted_at => now() + interval '10 years')", (name,))
        # To wait 200 ms for each would take longer.
        conn.execute("set statement_timeout = '1.5s'")
        conn.execute("select headrace.sequence()")
        conn.execute("select headrace.sequence()")
        conn.execute("reset statement_timeout")
        assert {name for (name,) in conn.execute("select name from headrace.failure").fetchall()} == set(names)
    shift_clock(conn, "1 minute")
    assert drain(conn) == len(names)
