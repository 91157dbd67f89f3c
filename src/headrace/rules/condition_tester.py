"""Condition tester: the database evaluates conditions over events that are in no log."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import (
    Condition,
    Engine,
    Sample,
    SqlDialect,
    TruthTable,
    evaluate_sql,
    field_to_postgres,
    sample_rows,
    to_postgres,
)

_POSTGRES = SqlDialect(to_postgres, field_to_postgres, " offset 0")


def database_engine(conn: Connection, *, extract_once: bool = True) -> Engine:
    """The engine of the database; by default it extracts each field once per event, as rules do."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        with map_database_errors(), conn.transaction():
            conn.execute(query("rules/sample"))
            with conn.cursor().copy("copy sample from stdin") as copy:
                for row in sample_rows(events):
                    copy.write_row(row)
            # Text of our own printers: the user's is never executed.
            return evaluate_sql(conditions, len(events), _POSTGRES, conn.execute, extract_once=extract_once)

    return evaluate
