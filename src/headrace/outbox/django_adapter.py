"""Django: a connection of `django.db.connections`, on psycopg 3 or psycopg 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, LiteralString

from headrace.core import ValidatedEvent
from headrace.outbox.direct import insert_statement, remember_way
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

    def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        statement = insert_statement(self._conn.connection, event, namespace)
        if statement is None:
            return False
        with self._conn.cursor() as cursor:
            cursor.execute(*statement)
            return bool(cursor.rowcount > 0)

    def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        remember_way(self._conn.connection, event, namespace, may_insert=may_insert)

    def copy(self, chunks: Iterator[bytes]) -> bool:
        driver_conn = self._conn.connection
        if not type(driver_conn).__module__.startswith("psycopg."):
            return False
        from headrace.outbox.psycopg_adapter import PsycopgAdapter

        return PsycopgAdapter(driver_conn).copy(chunks)
