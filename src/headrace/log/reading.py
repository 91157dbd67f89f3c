"""Reading a topic's log by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.core import LoggedEvent
from headrace.db import Connection, map_database_errors, query
from headrace.log.topics import get_topic

READ_LIMIT = 1000


def logged_event(_cursor: object) -> Callable[[Sequence[Any]], LoggedEvent]:
    """Row factory for queries whose columns are an event's fields, in their order."""
    return lambda values: LoggedEvent(*values)


def head(conn: Connection, topic: str, *, namespace: str | None = None) -> int:
    """The newest position of a topic; 0 for one that never had an event."""
    return get_topic(conn, topic, namespace=namespace).last_position


def read(
    conn: Connection, topic: str, *, after: int = 0, limit: int = READ_LIMIT, namespace: str | None = None
) -> list[LoggedEvent]:
    """The events after a position, in order, at most `limit`."""
    with map_database_errors(), conn.cursor(row_factory=logged_event, binary=True) as cursor:
        given = {"topic": topic, "namespace": namespace, "after": after, "limit": limit}
        return cursor.execute(query("log/read"), given).fetchall()


def tail(
    conn: Connection, topic: str, *, after: int, wait_s: float | None = None, namespace: str | None = None
) -> Iterator[LoggedEvent]:
    """The events after a position, and those to come. Ends when none came for `wait_s` seconds; None: never."""
    conn.execute("listen headrace_log")
    while True:
        events = read(conn, topic, after=after, namespace=namespace)
        yield from events
        if events:
            after = events[-1].position
            continue
        heard = next(conn.notifies(timeout=wait_s, stop_after=1), None)
        if heard is None:
            return
