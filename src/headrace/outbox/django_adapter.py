"""Django: a connection of `django.db.connections`, with psycopg 3 or psycopg 2 below."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.outbox.psycopg_adapter import PsycopgAdapter
from headrace.outbox.statements import Answer, Copy, Step

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


class DjangoAdapter:
    """Performs steps through Django's cursor, the COPY on the psycopg connection below it."""

    def __init__(self, conn: BaseDatabaseWrapper) -> None:
        self._conn = conn

    @contextmanager
    def together(self) -> Iterator[None]:
        """All steps in one transaction: the caller's atomic block, or one of their own."""
        from django.db import transaction

        with transaction.atomic(using=self._conn.alias, savepoint=False):
            yield

    def perform(self, step: Step) -> Answer:
        if isinstance(step, Copy):
            raw = self._conn.connection
            return type(raw).__module__.startswith("psycopg.") and PsycopgAdapter(raw).perform(step)
        with self._conn.cursor() as cursor:
            cursor.execute(step.pyformat, step.parameters)
            return [tuple(row) for row in cursor.fetchall()]
