"""Reads a topic's log by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.core import LoggedEvent
from headrace.db import Connection, map_database_errors, query

READ_LIMIT = 1000


def logged_event_row(_cursor: object) -> Callable[[Sequence[Any]], LoggedEvent]:
    """Row factory for queries whose columns are the fields of LoggedEvent, in their order."""
    return lambda values: LoggedEvent(*values)


def read_log(
    conn: Connection, topic: str, *, after: int = 0, limit: int = READ_LIMIT, namespace: str | None = None
) -> list[LoggedEvent]:
    """The events after a position, in order, at most `limit`."""
    parameters = {"topic": topic, "namespace": namespace, "after": after, "limit": limit}
    with map_database_errors(), conn.cursor(row_factory=logged_event_row, binary=True) as cursor:
        return cursor.execute(query("log/read"), parameters).fetchall()


def follow_log(
    conn: Connection, topic: str, *, after: int, wait_s: float | None = None, namespace: str | None = None
) -> Iterator[LoggedEvent]:
    """The events after a position, and those that come later. Ends after `wait_s` seconds without an event; None: never."""
    conn.execute("listen headrace_log")
    while True:
        events = read_log(conn, topic, after=after, namespace=namespace)
        yield from events
        if events:
            after = events[-1].position
        elif next(conn.notifies(timeout=wait_s, stop_after=1), None) is None:
            return
