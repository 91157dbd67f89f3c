"""A topic may have the time of its events: it never goes back, and it stands still while none comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.core import Event
from headrace.db import Connection
from headrace.log import create_topic, get_topic
from headrace.outbox import publish_many

JANUARY = datetime(2013, 1, 30, 22, tzinfo=UTC)


def happened(conn: Connection, *hours: float) -> None:
    events = [Event(topic="past", type="a", emitted_at=JANUARY + timedelta(hours=hour), payload={"hour": hour}) for hour in hours]
    publish_many(conn, events)


def times(conn: Connection) -> list[float]:
    rows = conn.execute("select appended_at from headrace_internal.log order by position").fetchall()
    return [(row[0] - JANUARY).total_seconds() / 3600 for row in rows]


def test_time_is_that_of_the_events_and_never_goes_back(conn: Connection) -> None:
    create_topic(conn, "past", clock="event")
    happened(conn, 0, 2, 1, 3)
    conn.execute("select headrace.sequence()")
    happened(conn, 2.5, 5)
    conn.execute("select headrace.sequence()")
    assert times(conn) == [0, 2, 2, 3, 3, 5]
    assert get_topic(conn, "past").clock == "event"
    row = conn.execute("select headrace_internal.log_clock(headrace_internal.topic_id('past'))").fetchone()
    assert row == (JANUARY + timedelta(hours=5),)


def test_partitions_are_made_for_whatever_time_events_bring(conn: Connection) -> None:
    create_topic(conn, "past", clock="event", time_partition="day")
    happened(conn, 0, 3, 30, 24 * 40, 24 * 400)
    conn.execute("select headrace.sequence()")
    happened(conn, 24 * 401, 24 * 900)
    conn.execute("select headrace.sequence()")
    assert times(conn) == [0, 3, 30, 960, 9600, 9624, 21600]
    [count] = conn.execute(
        "select count(distinct tableoid) from headrace_internal.log where topic_id = headrace_internal.topic_id('past')"
    ).fetchone() or [0]
    assert count == 7, "22 h and 1 h lie on two days"


def test_batches_leave_the_time_as_it_would_be_in_one(conn: Connection) -> None:
    create_topic(conn, "past", clock="event")
    happened(conn, *range(0, 2400, 7), 3, 9)
    for _ in range(40):
        conn.execute("select headrace.sequence(10)")
    assert times(conn) == [*map(float, range(0, 2400, 7)), 2394.0, 2394.0]
