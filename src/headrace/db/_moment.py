"""Times and spans as people write them, read by PostgreSQL, so that they mean the same everywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from headrace.core import Invalid
from headrace.db._connect import Connection
from headrace.db._sqlstate import translated


def moment(conn: Connection, text: str) -> datetime:
    """The moment written, such as `2026-01-31T12:00:00Z` or `yesterday`; without an offset it is in the session's time zone."""
    with translated():
        row = conn.execute("select %s::timestamptz", (text,)).fetchone()
    assert row is not None and isinstance(row[0], datetime)
    return row[0]


def span(conn: Connection, text: str) -> timedelta:
    """The span written, such as `30 days` or `P1M` (a month counts as 30 days). Not negative."""
    with translated():
        row = conn.execute("select %s::interval", (text,)).fetchone()
    assert row is not None and isinstance(row[0], timedelta)
    if row[0] < timedelta(0):
        raise Invalid(f"a span of {text!r} is negative; write it without the minus")
    return row[0]
