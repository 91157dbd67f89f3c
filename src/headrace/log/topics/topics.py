"""Topics: create, alter, list, drop; their retention, which drops nothing that a consumer has not passed, unless forced; and reading a topic's
log by position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from headrace.core import LoggedEvent
from headrace.db import Connection, fetch_rows, fetch_value, is_pooled, map_database_errors, query
from headrace.observe.tracing import switch

TimePartition = Literal["day", "week", "month"]
Clock = Literal["server", "event"]
"""The source of a log's time: the server, or the events' own emitted_at, for events of the past."""


@dataclass(frozen=True)
class Topic:
    """A topic and its size."""

    topic_id: int
    namespace: str
    topic: str
    partitions: int
    time_partition: str
    clock: str
    retention: timedelta | None
    engine: str
    """Where its rules and correlators run: database or spark."""
    archive: bool
    """If true, retention drops only what the archive holds."""
    first_position: int
    last_position: int
    last_appended_at: datetime | None
    waiting: int
    consumers: int

    @property
    def events(self) -> int:
        return self.last_position - self.first_position + 1


def create_topic(
    conn: Connection,
    topic: str,
    *,
    partitions: int = 1,
    retention: timedelta | None = None,
    time_partition: TimePartition = "month",
    clock: Clock = "server",
    namespace: str | None = None,
) -> int:
    """Creates a topic and returns its id."""
    statement = """select headrace.create_topic(
        p_topic => %s, p_partitions => %s, p_retention => %s, p_time_partition => %s, p_clock => %s, p_namespace => %s)"""
    return int(fetch_value(conn, statement, (topic, partitions, retention, time_partition, clock, namespace)))


def alter_topic(
    conn: Connection,
    topic: str,
    *,
    partitions: int | None = None,
    retention: timedelta | None = None,
    namespace: str | None = None,
) -> None:
    """Raises the number of partitions, or sets the retention (zero: keep for ever). None changes nothing."""
    fetch_value(conn, "select headrace.alter_topic(%s, %s, %s, %s)", (topic, partitions, retention, namespace))


def drop_topic(conn: Connection, topic: str, *, force: bool = False, namespace: str | None = None) -> None:
    """Drops a topic with its log. `force` drops it even if it has consumers."""
    fetch_value(conn, "select headrace.drop_topic(%s, %s, %s)", (topic, force, namespace))


def list_topics(conn: Connection, *, namespace: str | None = None) -> list[Topic]:
    """The topics of a namespace, by name."""
    return fetch_rows(conn, Topic, query("log/topics"), {"namespace": namespace, "topic": None})


def get_topic(conn: Connection, topic: str, *, namespace: str | None = None) -> Topic:
    """One topic; raises UnknownTopic."""
    fetch_value(conn, "select headrace.topic_id(%s, %s)", (topic, namespace))
    [row] = fetch_rows(conn, Topic, query("log/topics"), {"namespace": namespace, "topic": topic})
    return row


@dataclass(frozen=True)
class ExpiredPartition:
    """A time partition that is old enough to be dropped: dropped, or kept for the consumers named."""

    topic: str
    name: str
    events: int
    dropped: bool
    kept_for: str | None


def maintain_log(conn: Connection) -> list[ExpiredPartition]:
    """Creates time partitions ahead and applies the retention of every topic."""
    return fetch_rows(conn, ExpiredPartition, "select topic, name, events, dropped, kept_for from headrace.maintain_log()")


def drop_expired(
    conn: Connection, topic: str, *, before: datetime, force: bool = False, namespace: str | None = None
) -> list[ExpiredPartition]:
    """Drops a topic's time partitions that ended before a time. `force` also drops what consumers have not passed."""
    statement = """select %(topic)s::text as topic, d.name, d.events, d.dropped, d.kept_for
        from headrace.drop_expired(headrace.topic_id(%(topic)s, %(namespace)s), %(before)s, %(force)s) d"""
    parameters = {"topic": topic, "namespace": namespace, "before": before, "force": force}
    return fetch_rows(conn, ExpiredPartition, statement, parameters)


READ_LIMIT = 1000
POOLED_WAIT_S = 1.0


def logged_event_row(_cursor: object) -> Callable[[Sequence[Any]], LoggedEvent]:
    """Row factory for queries whose columns are the fields of LoggedEvent, in their order."""
    return lambda values: LoggedEvent(*values)


def read_log(
    conn: Connection, topic: str, *, after: int = 0, limit: int = READ_LIMIT, namespace: str | None = None
) -> list[LoggedEvent]:
    """The events after a position, in order, at most `limit`."""
    read = partial(_read_log, conn, topic, after=after, limit=limit, namespace=namespace)
    return read() if switch.tracer is None else switch.tracer.receive(topic, read)


def _read_log(conn: Connection, topic: str, *, after: int, limit: int, namespace: str | None) -> list[LoggedEvent]:
    parameters = {"topic": topic, "namespace": namespace, "after": after, "limit": limit}
    with map_database_errors(), conn.cursor(row_factory=logged_event_row, binary=True) as cursor:
        return cursor.execute(query("log/read"), parameters).fetchall()


def follow_log(
    conn: Connection, topic: str, *, after: int, wait_s: float | None = None, namespace: str | None = None
) -> Iterator[LoggedEvent]:
    """The events after a position, and those that come later. Ends after `wait_s` seconds without an event; None: never.

    Behind a pooler it looks every second: a LISTEN could stay with a server connection of other clients."""
    if is_pooled(conn):
        wait = partial(_wait_pooled, conn, topic, namespace)
    else:
        conn.execute("listen headrace_log")
        wait = partial(_wait_notified, conn)
    while True:
        events = read_log(conn, topic, after=after, namespace=namespace)
        yield from events
        if events:
            after = events[-1].position
        elif not wait(wait_s, after):
            return


def _wait_notified(conn: Connection, wait_s: float | None, _after: int) -> bool:
    return next(conn.notifies(timeout=wait_s, stop_after=1), None) is not None


def _wait_pooled(conn: Connection, topic: str, namespace: str | None, wait_s: float | None, after: int) -> bool:
    """Waits for an event after a position; False if none comes in time."""
    deadline = None if wait_s is None else time.monotonic() + wait_s
    while not _read_log(conn, topic, after=after, limit=1, namespace=namespace):
        left_s = POOLED_WAIT_S if deadline is None else min(POOLED_WAIT_S, deadline - time.monotonic())
        if left_s <= 0:
            return False
        time.sleep(left_s)
    return True
