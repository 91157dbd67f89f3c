"""Calling handlers: async functions on the loop, plain functions in a thread, both in the same open transaction.

Promises: a handler that ends that transaction, or leaves it aborted, raises; what it did never counts as done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.consume.consumer import Handler
from headrace.core import Conflict, LoggedEvent, decode
from headrace.db import AsyncConnection, Connection

_faces: WeakKeyDictionary[AsyncConnection, Connection] = WeakKeyDictionary()


async def call(handler: Handler, given: LoggedEvent | Sequence[LoggedEvent], conn: AsyncConnection) -> None:
    """Runs a handler with an event, or a batch of them, and the transaction that is open on the connection."""
    with TransactionGuard(conn):
        if asyncio.iscoroutinefunction(handler):
            await cast(Any, handler)(given, conn)
        else:
            await asyncio.to_thread(cast(Any, handler), given, sync_view(conn))


class TransactionGuard:
    """Around handlers: raises where one did not leave the transaction as it was given, open and sound.

    May be entered again and again. Costs no round trip: the client knows its transaction's status. A class, since it is entered
    for every action, and a generator would take several microseconds each time."""

    __slots__ = ("_pgconn",)

    def __init__(self, conn: AsyncConnection | Connection) -> None:
        self._pgconn = conn.pgconn

    def __enter__(self) -> None:
        """Nothing is to be done before a handler."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, psycopg.Rollback):
            # Whoever opened the transaction would take it for an own one and go on as if all were done.
            raise Conflict(
                "the handler raised psycopg.Rollback; leave commit and rollback to headrace, raise another error"
            ) from error
        if error is None:
            self._check()

    def _check(self) -> None:
        # A lost connection has another status; the next statement finds it.
        status = self._pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            raise Conflict("the handler ended the transaction it was given; leave commit and rollback to headrace")
        if status == TransactionStatus.INERROR:
            raise Conflict(
                "the handler caught a database error and went on, but the transaction is aborted; "
                "let the error out, or put tx.transaction() around the statements that may fail"
            )


class SyncView(psycopg.Connection[TupleRow]):
    """psycopg's plain interface to a connection whose transaction is not the handler's to end."""

    def commit(self) -> None:
        self._refuse("commit")

    def rollback(self) -> None:
        self._refuse("rollback")

    def close(self) -> None:
        self._refuse("close")

    def _refuse(self, what: str) -> NoReturn:
        raise Conflict(f"the handler called {what} on the connection it was given; leave commit and rollback to headrace")


def sync_view(conn: AsyncConnection) -> Connection:
    """The same connection, and so the same transaction, with psycopg's plain interface.

    Safe because only one side works at a time: the loop waits for the thread."""
    face = _faces.get(conn)
    if face is None:
        face = SyncView(conn.pgconn)
        # As its other face. Else psycopg would begin anew after a commit sent as text, and nobody would notice.
        face._autocommit = True  # The property is refused inside a transaction.
        set_json_loads(decode, face)
        # Both faces number the statements they prepare from 0 on, and the server knows only one of each name.
        face.prepare_threshold = None
        _faces[conn] = face
    return face
