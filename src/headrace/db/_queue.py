"""pgmq, on which the action queues stand: the extension where the server has it, else its SQL from the Python package.

Owns: whether schema pgmq is there. Promises: what is there already is left as it is; no superuser is needed."""

from __future__ import annotations

import psycopg
import psycopg.errors
from pgmq.install import get_embedded_install_sql

_THERE = "select to_regclass('pgmq.meta') is not null"
_AVAILABLE = "select exists (select from pg_available_extensions where name = 'pgmq')"


def install_pgmq(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Installs pgmq unless it is there."""
    if conn.execute(_THERE).fetchone() == (True,):
        return
    if conn.execute(_AVAILABLE).fetchone() == (True,) and _create_extension(conn):
        return
    # The package's own text, not a user's.
    conn.execute(get_embedded_install_sql())


def _create_extension(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        with conn.transaction():
            conn.execute("create extension pgmq")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
