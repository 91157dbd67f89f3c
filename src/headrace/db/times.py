"""Times and intervals as people write them. PostgreSQL parses them, so that they mean the same everywhere."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from headrace.core import Invalid
from headrace.db.connections import Connection
from headrace.db.rows import fetch_value


def parse_time(conn: Connection, text: str) -> datetime:
    """The time that a text names, such as `2026-01-31T12:00:00Z` or `yesterday`; without an offset in the session's time zone."""
    time: datetime = fetch_value(conn, "select %s::timestamptz", (text,))
    return time


def parse_interval(conn: Connection, text: str) -> timedelta:
    """The interval that a text names, such as `30 days` or `P1M` (a month counts as 30 days). Not negative, and not a number
    without a unit: PostgreSQL would take 30 for seconds, its writer perhaps for days."""
    number = text.strip()
    if re.fullmatch(r"[+-]?[0-9.]+", number) and number.strip("+-0."):
        raise Invalid(f"interval {text!r} has no unit; write for example '{number} days', '{number} hours' or '{number} seconds'")
    interval: timedelta = fetch_value(conn, "select %s::interval", (text,))
    if interval < timedelta(0):
        raise Invalid(f"interval {text!r} is negative; write it without the minus")
    return interval
