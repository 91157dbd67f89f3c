"""Reads a topic's log by position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from headrace.core import LoggedEvent
from headrace.db import Connection, is_pooled, map_database_errors, query
from headrace.observe.tracing import switch

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
