"""Views: other psycopg interfaces to the connection that holds the transaction.

Safe because only one side works at a time: headrace waits while a handler runs. A view can never end the transaction."""

from __future__ import annotations

from typing import NoReturn
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.core import Conflict, decode
from headrace.db import AsyncConnection, Connection

ADVICE = "leave commit and rollback to headrace"

_sync_views: WeakKeyDictionary[AsyncConnection, Connection] = WeakKeyDictionary()


class SyncView(psycopg.Connection[TupleRow]):
    """psycopg's sync interface to an async connection. The handler may not end the transaction."""

    is_guarded = True
    """False while headrace connects a library, which begins with a rollback."""

    def commit(self) -> None:
        self._reject("commit")

    def rollback(self) -> None:
        self._reject("rollback")

    def close(self) -> None:
        self._reject("close")

    def __del__(self, *_arguments: object) -> None:
        """Not psycopg's warning about an open connection: the async connection closes it."""

    def _reject(self, method: str) -> None:
        if self.is_guarded:
            reject(method)


class AsyncView(psycopg.AsyncConnection[TupleRow]):
    """A second async interface to a connection, for a library that wants to commit and roll back by itself."""

    is_guarded = True

    async def commit(self) -> None:
        self._reject("commit")

    async def rollback(self) -> None:
        self._reject("rollback")

    async def close(self) -> None:
        self._reject("close")

    def _reject(self, method: str) -> None:
        if self.is_guarded:
            reject(method)


def reject(method: str) -> NoReturn:
    raise Conflict(f"the handler called {method} on its connection; {ADVICE}")


def sync_view(conn: AsyncConnection) -> Connection:
    """The same connection, and so the same transaction, with psycopg's sync interface."""
    view = _sync_views.get(conn)
    if view is None:
        view = create_sync_view(conn.pgconn)
        set_json_loads(decode, view)
        _sync_views[conn] = view
    return view


def create_sync_view(pgconn: PGconn) -> SyncView:
    view = SyncView(pgconn)
    _configure(view)
    return view


def create_async_view(pgconn: PGconn) -> AsyncView:
    view = AsyncView(pgconn)
    _configure(view)
    return view


def _configure(view: SyncView | AsyncView) -> None:
    # Like the node's connection. Otherwise psycopg would begin a new transaction after a commit sent as text, unnoticed.
    view._autocommit = True  # psycopg forbids setting the property inside a transaction.
    # Both interfaces number their prepared statements from 0, and the server knows each name once.
    view.prepare_threshold = None
    # psycopg warns when an open connection is deleted, but a view is not the owner of the connection.
    view._pool = None
