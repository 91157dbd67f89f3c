"""Progress of the demo, from its tables."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, query


@dataclass(frozen=True)
class ProgressCounts:
    """One row of the query demo/progress."""

    in_log: int
    handled: int
    late: int
    notices: int
    matched_to: int
    correlated_to: int
    actions_sent: int
    actions_ended: int
    pending: int


@dataclass(frozen=True)
class Progress(ProgressCounts):
    """How many events have come how far, in which phase, and how many there are."""

    phase: str
    total: int
    published: int


def read_progress(conn: Connection) -> ProgressCounts:
    with conn.cursor(row_factory=class_row(ProgressCounts)) as cursor:
        counts = cursor.execute(query("demo/progress")).fetchone()
    assert counts is not None
    return counts
