"""Runs a statement and reads its result; database errors are raised as errors of our tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, TypeAlias, TypeVar

from psycopg.rows import class_row

from headrace.core import map_database_errors
from headrace.db.connections import Connection, Pool

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
