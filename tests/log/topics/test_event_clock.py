"""A topic on the event clock has the time of its events. The time never goes back, and stands still without events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.core import Event
from headrace.db import Connection
from headrace.log.outbox import publish_many
from headrace.log.topics import create_topic, get_topic

JANUARY = datetime(2013, 1, 30, 22, tzinfo=UTC)


def publish_at(conn: Connection, *hours: float) -> None:
    events = [Event(topic="past", type="a", emitted_at=JANUARY + timedelta(hours=hour), payload={"hour": hour}) for hour in hours]
    publish_many(conn, events)


def times(conn: Connection) -> list[float]:
    rows = conn.execute("select appended_at from headrace.log order by position").fetchall()
    return [(row[0] - JANUARY).total_seconds() / 3600 for row in rows]


def test_time_is_that_of_the_events_and_never_goes_back(conn: Connection) -> None:
    create_topic(conn, "past", clock="event")
    publish_at(conn, 0, 2, 1, 3)
    conn.execute("select headrace.sequence()")
    publish_at(conn, 2.5, 5)
    conn.execute("select headrace.sequence()")
    assert times(conn) == [0, 2, 2, 3, 3, 5]
    assert get_topic(conn, "past").clock == "event"
    row = conn.execute("select headrace.log_clock(headrace.topic_id('past'))").fetchone()
    assert row == (JANUARY + timedelta(hours=5),)


def test_partitions_are_created_for_the_times_of_the_events(conn: Connection) -> None:
    create_topic(conn, "past", clock="event", time_partition="day")
    publish_at(conn, 0, 3, 30, 24 * 40, 24 * 400)
    conn.execute("select headrace.sequence()")
    publish_at(conn, 24 * 401, 24 * 900)
    conn.execute("select headrace.sequence()")
    assert times(conn) == [0, 3, 30, 960, 9600, 9624, 21600]
    [count] = conn.execute(
        "select count(distinct tableoid) from headrace_internal.log where topic_id = headrace.topic_id('past')"
    ).fetchone() or [0]
    assert count == 7, "22 h and 1 h lie on two days"


def test_batch_size_does_not_change_the_time(conn: Connection) -> None:
    create_topic(conn, "past", clock="event")
    publish_at(conn, *range(0, 2400, 7), 3, 9)
    for _ in range(40):
        conn.execute("select headrace.sequence(10)")
    assert times(conn) == [*map(float, range(0, 2400, 7)), 2394.0, 2394.0]
