"""pgmq, on which the action queues stand: the extension where the server has it, else its SQL from the Python package.

Owns: whether schema pgmq is there. Promises: what is there already is left as it is; no superuser is needed."""

from __future__ import annotations

from typing import LiteralString

import psycopg
import psycopg.errors

_THERE = "select to_regclass('pgmq.meta') is not null"
_AVAILABLE = "select exists (select from pg_available_extensions where name = 'pgmq')"
_CREATE: LiteralString = "create extension pgmq;"


def install_pgmq(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Installs pgmq unless it is there."""
    script = pgmq_script(conn)
    if script == _CREATE:
        try:
            with conn.transaction():
                conn.execute(script)
        except psycopg.errors.InsufficientPrivilege:
            script = _packaged()
    if script and script != _CREATE:
        conn.execute(script)


def pgmq_script(conn: psycopg.Connection[tuple[object, ...]]) -> LiteralString:
    """What installs pgmq in this database; empty when it is there."""
    if conn.execute(_THERE).fetchone() == (True,):
        return ""
    if conn.execute(_AVAILABLE).fetchone() == (True,):
        return _CREATE
    return _packaged()


def _packaged() -> LiteralString:
    # Imported late: the package brings SQLAlchemy along, a third of the start of every process of ours.
    from pgmq.install import get_embedded_install_sql

    # The package's own text, not a user's.
    return get_embedded_install_sql()
