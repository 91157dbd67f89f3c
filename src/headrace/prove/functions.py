"""Functions of the database, as text: seeded bugs edit them, and failpoints go before their statements, as places at which a session
may die.

A function gets its failpoints when one is armed, and its original text back afterwards; the functions that headrace installs have
no line for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core import Invalid
from headrace.db import Connection, query

_DEFINITION = """
select pg_get_functiondef(p.oid)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('headrace', 'headrace_internal') and p.proname = %s
"""
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def function_definition(conn: Connection, name: str) -> str:
    """The definition of headrace's function of this name, in either schema."""
    rows = conn.execute(_DEFINITION, (name,)).fetchall()
    if len(rows) != 1:
        raise Invalid(f"headrace has {len(rows)} functions {name!r}; the checker needs exactly one")
    return str(rows[0][0])


def replace_code(definition: str, old: str, new: str) -> str:
    """Replaces a piece of code in a function. Comment lines and white space do not matter. Raises Invalid if it is not there."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    text, count = pattern.subn(lambda _: new, _COMMENT.sub("", definition))
    if not count:
        raise Invalid(f"the function has changed: it does not contain {old[:60]!r} any more; adapt the seeded bug")
    return text


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
