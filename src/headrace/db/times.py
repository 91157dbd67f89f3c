"""Times and intervals as people write them. PostgreSQL parses them, so that they mean the same everywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from headrace.core import Invalid
from headrace.db.connections import Connection
from headrace.db.rows import fetch_value


def parse_time(conn: Connection, text: str) -> datetime:
    """The time that a text names, such as `2026-01-31T12:00:00Z` or `yesterday`; without an offset in the session's time zone."""
    time: datetime = fetch_value(conn, "select %s::timestamptz", (text,))
    return time


def parse_interval(conn: Connection, text: str) -> timedelta:
    """The interval that a text names, such as `30 days` or `P1M` (a month counts as 30 days). Not negative."""
    interval: timedelta = fetch_value(conn, "select %s::interval", (text,))
    if interval < timedelta(0):
        raise Invalid(f"interval {text!r} is negative; write it without the minus")
    return interval
