"""The watch: how far everything is, read off the tables."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, query


@dataclass(frozen=True)
class Seen:
    """One row of queries/demo/progress.sql."""

    in_log: int
    handled: int
    late: int
    told: int
    ruled: int
    correlated: int
    fired: int
    ended: int
    on_the_way: int


@dataclass(frozen=True)
class Progress(Seen):
    """How many of the events have come how far, in which act, and how many there are."""

    act: str
    total: int
    published: int


def look(conn: Connection) -> Seen:
    with conn.cursor(row_factory=class_row(Seen)) as cursor:
        seen = cursor.execute(query("demo/progress")).fetchone()
    assert seen is not None
    return seen
