"""A stranger in the demo's database: a role with all rights in another namespace reads none of the flights and forges no event."""

from __future__ import annotations

from uuid import uuid4

import psycopg
from psycopg import sql

from headrace.core import HeadraceError
from headrace.db import Connection, create_namespace, grant_namespace
from headrace.demo.flights import TOPIC
from headrace.demo.verify import Check
from headrace.log.outbox import publish


def verify_walls(conn: Connection) -> list[Check]:
    """What the stranger achieved; nothing is checked where this role may not create another one."""
    role = sql.Identifier(f"headrace_demo_{uuid4().hex[:8]}")
    checks: list[Check] = []
    try:
        with conn.transaction():
            conn.execute(sql.SQL("create role {}").format(role))
            conn.execute(sql.SQL("grant {} to current_user").format(role))
            create_namespace(conn, "stranger")
            grant_namespace(conn, role.as_string(conn).strip('"'), "stranger", "admin")
            conn.execute(sql.SQL("set local role {}").format(role))
            checks = [
                Check("events a role of another namespace can read", 0, _count(conn)),
                Check("events a role of another namespace can forge", 0, _forge(conn)),
            ]
            raise psycopg.Rollback
    except psycopg.errors.InsufficientPrivilege:
        return []
    return checks


def _count(conn: Connection) -> int:
    row = conn.execute("select count(*) from headrace.log").fetchone()
    assert row is not None
    return int(str(row[0]))


def _forge(conn: Connection) -> int:
    try:
        with conn.transaction():
            publish(conn, TOPIC, "forged", {}, namespace="default")
    except HeadraceError:
        return 0
    return 1
