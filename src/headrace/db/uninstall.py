"""Uninstall: drops headrace from a database, the way back of the first migration.

Promises: nothing that somebody may still need is lost: it refuses while there are topics, waiting actions or dead letters. It
leaves pgmq, which may have other queues."""

from __future__ import annotations

import psycopg

from headrace.core import Conflict, map_database_errors
from headrace.db.migrations import own_settings
from headrace.db.rows import fetch_value
from headrace.db.sql_files import query

_EXISTS = "select to_regclass('headrace_internal.migration') is not null"


def uninstall(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Drops the schemas headrace and headrace_internal and the queues; returns whether there were any.

    Runs in one transaction, or in a savepoint of the caller's. Raises Conflict, and drops nothing, while anything is stored."""
    with map_database_errors(), own_settings(conn):
        if not fetch_value(conn, _EXISTS):
            return False
        conn.execute("lock table headrace_internal.migration in access exclusive mode")
        for statement, thing, advice in (
            ("db/count_topics", "topic", "drop them with: headrace topic drop NAME"),
            ("db/count_waiting_actions", "waiting action", "let a node handle them"),
            ("db/count_dead_letters", "dead letter", "redrive or discard them with: headrace dead-letter"),
        ):
            if count := fetch_value(conn, query(statement)):
                noun = f"{count} {thing}{'s' if count > 1 else ''}"
                raise Conflict(f"headrace is not uninstalled: the database has {noun}, which would be lost; {advice}")
        conn.execute(query("db/uninstall"))
    return True
