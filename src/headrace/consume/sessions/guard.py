"""The guard around a handler: only headrace ends the handler's transaction."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from headrace.consume.sessions.views import ADVICE
from headrace.core import Conflict
from headrace.db import AsyncConnection


class TransactionGuard:
    """Around a handler: raises unless the handler leaves the transaction open and not aborted.

    Reusable. Costs no round trip, since the client knows its transaction's status. A class and not a generator, because it is
    entered for every action and a generator would add several microseconds."""

    __slots__ = ("_conn", "_pgconn", "_value")

    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn
        self._pgconn = conn.pgconn
        self._value: Any = None

    def around(self, value: object) -> TransactionGuard:
        """The guard as a context manager, of either kind, that gives this value."""
        self._value = value
        return self

    def __enter__(self) -> Any:
        return self._value

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, psycopg.Rollback):
            # Our own transaction block would take it as a request to roll back silently and go on as if all were done.
            raise Conflict(f"the handler raised psycopg.Rollback; {ADVICE}, raise another error") from error
        if error is None:
            self.check()

    async def __aenter__(self) -> Any:
        return self._value

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def check(self) -> None:
        """Raises if the transaction has ended or is aborted. A lost connection passes: the next statement fails on it."""
        status = self._pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            raise Conflict(f"the handler ended its transaction; {ADVICE}")
        if status == TransactionStatus.UNKNOWN and self._conn.closed and not self._conn.broken:
            raise Conflict(f"the handler closed its connection; {ADVICE}")
        if status == TransactionStatus.INERROR:
            raise Conflict(
                "the handler caught a database error and went on, but the transaction is aborted; let the error out, "
                "or put tx.transaction() (psycopg), session.begin_nested() (SQLAlchemy) or atomic() (Django) around the "
                "statements that may fail"
            )
