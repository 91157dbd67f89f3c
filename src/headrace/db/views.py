"""Views: a second psycopg object over the connection of another one; and all else that we use of psycopg and asyncpg without their promise.

A view has the same session of the server, and so the same transaction. Safe because only one side works at a time. Every private attribute
of the two libraries is used here and nowhere else; `tests/db/test_views.py` fails with a version that lacks one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from headrace.db.connections import AsyncConnection


class View:
    """Gets notices and notifications only between `take_handlers` and `give_back_handlers`; else they are its owner's."""

    pgconn: PGconn
    view_handlers: tuple[Any, Any]
    owner_handlers: tuple[Any, Any]

    def __del__(self, *_arguments: object) -> None:
        """Not psycopg's warning about an open connection: the owner closes it."""

    def take_handlers(self) -> None:
        self.pgconn.notice_handler, self.pgconn.notify_handler = self.view_handlers

    def give_back_handlers(self) -> None:
        self.pgconn.notice_handler, self.pgconn.notify_handler = self.owner_handlers


class SyncView(View, psycopg.Connection[TupleRow]):
    """psycopg's sync interface to a connection."""


class AsyncView(View, psycopg.AsyncConnection[TupleRow]):
    """psycopg's async interface to a connection."""


ViewType = TypeVar("ViewType", bound=SyncView | AsyncView)


def create_view(
    view_class: type[ViewType], owner: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], *, autocommit: bool = True
) -> ViewType:
    """A view of a connection, with psycopg's own row factory and adapters."""
    pgconn = owner.pgconn
    handlers = pgconn.notice_handler, pgconn.notify_handler
    view = view_class(pgconn)
    view.owner_handlers, view.view_handlers = handlers, (pgconn.notice_handler, pgconn.notify_handler)
    view.give_back_handlers()
    # With autocommit, psycopg begins no new transaction after a commit sent as text, unnoticed. It forbids setting the property in one.
    view._autocommit = autocommit
    # Both number their prepared statements from 0, and the server knows each name once.
    view.prepare_threshold = None
    return view


def set_adapters(view: SyncView, adapters: AdaptersMap) -> None:
    """Gives a view adapters of its own."""
    view._adapters = AdaptersMap(adapters)


def enter_transaction(conn: AsyncConnection) -> None:
    """As psycopg's own block does: a handler that calls commit() or rollback() gets an error from psycopg."""
    conn._num_transactions += 1


def leave_transaction(conn: AsyncConnection) -> None:
    conn._num_transactions -= 1


def call_when_unprepared(conn: AsyncConnection, forget: Callable[[], None]) -> None:
    """Calls a function whenever psycopg deallocates all prepared statements of the session: after a rollback, also of a savepoint."""
    clear = conn._prepared.clear

    def clear_both() -> bool:
        is_flushed = clear()
        if is_flushed:
            forget()
        return is_flushed

    conn._prepared.clear = clear_both  # type: ignore[method-assign]


async def cancel_asyncpg(conn: Any) -> None:
    """Cancels the statement that runs. Without one the server ignores the request."""
    await conn._cancel(asyncio.get_running_loop().create_future())
