"""Django: a connection of `django.db.connections`, on psycopg 3 or psycopg 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, LiteralString

from headrace.outbox.direct import may_go_direct, remember_right
from headrace.outbox.statements import Parameters, Rows

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


class DjangoAdapter:
    """Adapter for a Django connection. A COPY goes to the psycopg connection inside it."""

    def __init__(self, conn: BaseDatabaseWrapper) -> None:
        self._conn = conn

    def transaction(self) -> AbstractContextManager[object]:
        from django.db.transaction import atomic

        return atomic(using=self._conn.alias, savepoint=False)

    def savepoint(self) -> AbstractContextManager[object]:
        from django.db.transaction import atomic

        return atomic(using=self._conn.alias)

    def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        with self._conn.cursor() as cursor:
            cursor.execute(statement, parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def insert(self, statement: LiteralString, parameters: Parameters) -> bool:
        if not may_go_direct(self._conn.connection):
            return False
        with self._conn.cursor() as cursor:
            cursor.execute(statement, parameters)
            return bool(cursor.rowcount > 0)

    def remember_right(self, may_insert: bool) -> None:
        remember_right(self._conn.connection, may_insert)

    def copy(self, chunks: Iterator[bytes]) -> bool:
        driver_conn = self._conn.connection
        if not type(driver_conn).__module__.startswith("psycopg."):
            return False
        from headrace.outbox.psycopg_adapter import PsycopgAdapter

        return PsycopgAdapter(driver_conn).copy(chunks)
