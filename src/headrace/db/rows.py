"""Runs a statement and reads its result; database errors are raised as errors of our tree.

Times and intervals as people write them are parsed by PostgreSQL, so that they mean the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeAlias, TypeVar

from psycopg.rows import class_row

from headrace.core import Invalid, map_database_errors
from headrace.db.connections import Connection
from headrace.db.pools import Pool

T = TypeVar("T")
Parameters: TypeAlias = Sequence[object] | Mapping[str, object]


def fetch_rows(conn: Connection, row_class: type[T], statement: LiteralString, parameters: Parameters = ()) -> list[T]:
    """All rows, each as an instance of a class whose fields are the columns."""
    with map_database_errors(), conn.cursor(row_factory=class_row(row_class)) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def fetch_value(conn: Connection, statement: LiteralString, parameters: Parameters = ()) -> Any:
    """The value of a statement that returns one, such as a function call."""
    with map_database_errors():
        row = conn.execute(statement, parameters).fetchone()
    return row[0] if row else None


async def fetch_value_async(pool: Pool, statement: LiteralString, parameters: Parameters = ()) -> Any:
    """As `fetch_value`, on a connection of a pool. Errors stay as they are: the loops of a node retry transient ones."""
    async with pool.connection() as conn:
        row = await (await conn.execute(statement, parameters)).fetchone()
    return row[0] if row else None


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
