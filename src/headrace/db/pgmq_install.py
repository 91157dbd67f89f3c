"""Installs pgmq, the base of the action queues: the extension if the server has it, else its SQL from the Python package.

Owns: the existence of schema pgmq. Promises: an installed pgmq is left as it is; no superuser is needed."""

from __future__ import annotations

from typing import LiteralString

import psycopg
import psycopg.errors

_IS_INSTALLED = "select to_regclass('pgmq.meta') is not null"
_IS_AVAILABLE = "select exists (select from pg_available_extensions where name = 'pgmq')"
_CREATE: LiteralString = "create extension pgmq;"


def install_pgmq(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Installs pgmq unless it is installed."""
    script = pgmq_script(conn)
    if script == _CREATE:
        try:
            with conn.transaction():
                conn.execute(script)
        except psycopg.errors.InsufficientPrivilege:
            script = _packaged_sql()
    if script and script != _CREATE:
        conn.execute(script)


def pgmq_script(conn: psycopg.Connection[tuple[object, ...]]) -> LiteralString:
    """The SQL that installs pgmq in this database; empty if it is installed."""
    if conn.execute(_IS_INSTALLED).fetchone() == (True,):
        return ""
    return _CREATE if conn.execute(_IS_AVAILABLE).fetchone() == (True,) else _packaged_sql()


def _packaged_sql() -> LiteralString:
    # Imported late: the package imports SQLAlchemy, which takes long.
    from pgmq.install import get_embedded_install_sql

    return get_embedded_install_sql()
