"""A hostile tenant: a role of another namespace that sends random statements with identifiers of the workload's namespace."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace.db import Connection
from headrace.prove.attacker import attack, known_identifiers
from headrace.prove.environment import Environment

NAMESPACE = "hostile"
CALLS = 300
LEVELS = ("publish", "consume", "work", "admin")


@contextmanager
def hostile_tenant(environment: Environment, draw: random.Random) -> Iterator[str]:
    """A role with a random level in its own namespace attacks the workload's."""
    role, password, level = f"hostile_{draw.getrandbits(32):08x}", secrets.token_hex(16), draw.choice(LEVELS)
    with environment.connect() as conn:
        _create(conn, role, password, level)
        other, own = known_identifiers(conn, "default"), known_identifiers(conn, NAMESPACE)
    try:
        dsn = make_conninfo(environment.target.dsn, user=role, password=password)
        report = attack(dsn, other, CALLS, draw.randrange(2**31), own=own)
        yield f"{report.calls} statements with the level {level}, {report.outcomes['ok']} of them accepted"
    finally:
        with environment.connect() as conn:
            conn.execute(sql.SQL("drop owned by {role} cascade; drop role {role}").format(role=sql.Identifier(role)))


def _create(conn: Connection, role: str, password: str, level: str) -> None:
    known = conn.execute("select from headrace.namespace where namespace = %s", (NAMESPACE,)).fetchone()
    if known is None:
        conn.execute("select headrace.create_namespace(%s)", (NAMESPACE,))
        conn.execute("select headrace.create_topic('orders', p_namespace => %s)", (NAMESPACE,))
    conn.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(role), sql.Literal(password)))
    conn.execute("select headrace.grant_namespace(%s, %s, %s)", (role, NAMESPACE, level))
