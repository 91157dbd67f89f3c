"""Failpoints inside the database's functions: before every statement, as a place at which a session may die.

A function gets its failpoints when one is armed, and its original text back afterwards; the functions that headrace installs have
no line for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.db import Connection, query
from headrace.prove.functions import function_definition

FUNCTIONS = (
    "sequence",
    "sequence_topic",
    "claim_events",
    "fail",
    "react",
    "fire",
    "correlate",
    "deliver_correlations",
    "send_actions",
    "ack_actions",
    "fail_action",
    "bury_actions",
    "run_schedule",
    "publish",
    "commit_spark_batch",
)
_STATEMENT_END = re.compile(r"(;|\bbegin|\bthen|\bloop|\belse)\s*(--.*)?$", re.IGNORECASE)
_NOT_A_STATEMENT = re.compile(r"^\s*(end|else|elsif|exception|when|--|\$|$)", re.IGNORECASE)


def add_failpoints(definition: str) -> tuple[str, int]:
    """A PL/pgSQL function with a failpoint before every statement of its body, and the number of failpoints."""
    head, quote, rest = definition.partition("AS $function$")
    body, _, tail = rest.rpartition("$function$")
    lines: list[str] = []
    count, in_body, at_statement = 0, False, False
    for line in body.split("\n"):
        if in_body and at_statement and not _NOT_A_STATEMENT.match(line):
            count += 1
            # As a condition: `perform` would change FOUND and the row count, which the next statement may read.
            lines.append(f"if headrace_prove.hit({count}) then null; end if;")
        lines.append(line)
        in_body = in_body or line.strip().lower() == "begin"
        if line.strip() and not line.strip().startswith("--"):
            at_statement = in_body and bool(_STATEMENT_END.search(line))
    return f"{head}{quote}" + "\n".join(lines) + f"$function${tail}", count


def count_statements(conn: Connection, function: str) -> int:
    return add_failpoints(function_definition(conn, function))[1]


def was_reached(conn: Connection) -> bool:
    """True once the armed failpoint has been reached often enough to end a session."""
    return conn.execute(query("prove/failpoint_reached")).fetchone() == (True,)


@contextmanager
def armed_failpoint(conn: Connection, function: str, statement: int, *, hit: int = 1) -> Iterator[None]:
    """While the block runs, the session dies that reaches a statement of a function for the n-th time."""
    original = function_definition(conn, function)
    conn.execute(query("prove/failpoint"))
    conn.execute(query("prove/arm_failpoint"), {"statement": statement, "hit": hit})
    conn.execute(add_failpoints(original)[0])
    try:
        yield
    finally:
        conn.execute(original)
