"""Steps: the statements inside the database's functions, each a place at which a session may die.

Owns: the text of a function with a failpoint before every statement. A function is put back as it was when its failpoint is
disarmed; the functions that headrace installs have no line for it, and so no cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.db import Connection, query

FUNCTIONS = (
    "headrace.sequence(integer)",
    "headrace.claim(integer,integer,integer,double precision,integer)",
    "headrace.fail(integer,integer,bigint,bigint,integer,text)",
    "headrace_internal.react(integer,integer)",
    "headrace_internal.fire(integer,headrace_internal.rule_hit[])",
    "headrace_internal.correlate(integer,integer)",
    "headrace_internal.deliver_correlations(bigint,text[],bigint[],timestamptz[],text[],integer[],text[],integer[])",
    "headrace.send_actions(text,jsonb[],integer[])",
    "headrace.ack_actions(bigint[],integer[],real[],uuid,text)",
    "headrace.fail_action(bigint,integer,integer,double precision,double precision,text,text,real,uuid,text)",
    "headrace.bury_actions(bigint[],text,text,text,uuid,text)",
    "headrace.run_schedule(integer)",
    "headrace.publish(text,text,jsonb,text,jsonb,uuid,timestamptz,text,text)",
    "headrace_internal.commit_spark_batch(text,bigint,uuid[],bigint,text)",
)
_AFTER = re.compile(r"(;|\bbegin|\bthen|\bloop|\belse)\s*(--.*)?$", re.IGNORECASE)
_NOT_A_STATEMENT = re.compile(r"^\s*(end|else|elsif|exception|when|--|\$|$)", re.IGNORECASE)


def instrumented(definition: str) -> tuple[str, int]:
    """A PL/pgSQL function with a failpoint before every statement of its body, and how many there are."""
    head, quote, rest = definition.partition("AS $function$")
    body, _, tail = rest.rpartition("$function$")
    lines: list[str] = []
    steps, begun, complete = 0, False, False
    for line in body.split("\n"):
        if begun and complete and not _NOT_A_STATEMENT.match(line):
            steps += 1
            # As a condition: perform would change FOUND and the row count that the next statement asks for.
            lines.append(f"if headrace_prove.hit({steps}) then null; end if;")
        lines.append(line)
        begun = begun or line.strip().lower() == "begin"
        if line.strip() and not line.strip().startswith("--"):
            complete = begun and bool(_AFTER.search(line))
    return f"{head}{quote}" + "\n".join(lines) + f"$function${tail}", steps


def definition_of(conn: Connection, function: str) -> str:
    row = conn.execute("select pg_get_functiondef(%s::regprocedure)", (function,)).fetchone()
    assert row is not None
    return str(row[0])


def steps_of(conn: Connection, function: str) -> int:
    """How many steps a function has."""
    return instrumented(definition_of(conn, function))[1]


def struck(conn: Connection) -> bool:
    """Whether a session has come to the armed step so often as to die there."""
    return conn.execute(query("prove/struck")).fetchone() == (True,)


@contextmanager
def armed(conn: Connection, function: str, step: int, *, hit: int = 1) -> Iterator[None]:
    """While the block runs, the session that comes to a step of a function for the n-th time dies."""
    plain = definition_of(conn, function)
    conn.execute(query("prove/step"))
    conn.execute(query("prove/arm"), {"step": step, "hit": hit})
    conn.execute(instrumented(plain)[0])
    try:
        yield
    finally:
        conn.execute(plain)
