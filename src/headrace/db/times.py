"""Times and intervals as people write them. PostgreSQL parses them, so that they mean the same everywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from headrace.core import Invalid, map_database_errors
from headrace.db.connections import Connection


def parse_time(conn: Connection, text: str) -> datetime:
    """The time that a text names, such as `2026-01-31T12:00:00Z` or `yesterday`; without an offset in the session's time zone."""
    with map_database_errors():
        row = conn.execute("select %s::timestamptz", (text,)).fetchone()
    assert row is not None and isinstance(row[0], datetime)
    return row[0]


def parse_interval(conn: Connection, text: str) -> timedelta:
    """The interval that a text names, such as `30 days` or `P1M` (a month counts as 30 days). Not negative."""
    with map_database_errors():
        row = conn.execute("select %s::interval", (text,)).fetchone()
    assert row is not None and isinstance(row[0], timedelta)
    if row[0] < timedelta(0):
        raise Invalid(f"interval {text!r} is negative; write it without the minus")
    return row[0]
