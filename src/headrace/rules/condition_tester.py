"""Tester: conditions answered by the database itself, over events that are in no log."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import (
    Answers,
    Condition,
    Dialect,
    Engine,
    Sample,
    answer_queries,
    field_to_postgres,
    joined,
    sample_rows,
    to_postgres,
)

_POSTGRES = Dialect(to_postgres, field_to_postgres, " offset 0")


def database_engine(conn: Connection, *, hoisted: bool = True) -> Engine:
    """The answers of the database; `hoisted` as rules are evaluated, with each field taken out once."""

    def answers(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
        with map_database_errors(), conn.transaction():
            conn.execute(query("rules/sample"))
            with conn.cursor().copy("copy sample from stdin") as copy:
                for row in sample_rows(events):
                    copy.write_row(row)
            # Our own printers' text: the user's is never executed.
            texts = answer_queries(conditions, _POSTGRES, hoisted=hoisted)
            return joined(len(events), (conn.execute(text).fetchall() for text in texts))

    return answers
