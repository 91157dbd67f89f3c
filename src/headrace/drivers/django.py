"""Django: a connection of `django.db.connections`, on psycopg 3 or psycopg 2."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, LiteralString

from headrace.drivers.registry import find_kind
from headrace.drivers.steps import Copy, Parameters, Rows, SyncDriver

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


def _has_transaction(conn: BaseDatabaseWrapper) -> bool:
    return conn.in_atomic_block or not conn.get_autocommit()


def _block(conn: BaseDatabaseWrapper) -> AbstractContextManager[object]:
    from django.db.transaction import atomic

    return atomic(using=conn.alias)


def _fetch(conn: BaseDatabaseWrapper, statement: LiteralString, parameters: Parameters) -> Rows:
    with conn.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [tuple(row) for row in cursor.fetchall()]


def _insert(conn: BaseDatabaseWrapper, statement: LiteralString, parameters: Parameters) -> bool:
    with conn.cursor() as cursor:
        cursor.execute(statement, parameters)
        return bool(cursor.rowcount > 0)


def _copy(conn: BaseDatabaseWrapper, step: Copy) -> bool:
    """A COPY goes to the psycopg connection inside; psycopg 2 has none that fits here."""
    kind = find_kind(type(conn.connection))
    return kind is not None and bool(kind.driver.copy(conn.connection, step))


SYNC = SyncDriver(
    session=lambda conn: conn.connection,
    has_transaction=_has_transaction,
    block=_block,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
