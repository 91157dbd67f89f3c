"""Cancelling the statement that a handler's session waits for, when the handler runs for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from headrace.db import Connection

CANCEL_S = 5.0
"""Longest time for the cancel request itself."""
Cancel: TypeAlias = Callable[[], Awaitable[None]]


def driver_connection(session: Any) -> Connection | None:
    """psycopg's connection below the session of a plain function: itself, or that of SQLAlchemy or Django; None if there is none."""
    if (bind := getattr(session, "bind", None)) is not None:
        session = bind.connection.dbapi_connection
    elif hasattr(session, "vendor"):
        session = session.connection
    return session if isinstance(session, psycopg.Connection) else None


def statement_cancel(session: Any) -> Cancel | None:
    """What cancels the statement of an async session of SQLAlchemy; None for other sessions, which survive the cancelling of their
    task. SQLAlchemy gives up its connection then, and the event would be delivered again and again without a failed attempt."""
    connection = getattr(getattr(session, "bind", None), "sync_connection", None)
    if connection is None:
        return None
    driver: Any = connection.connection.dbapi_connection.driver_connection
    if isinstance(driver, psycopg.AsyncConnection):

        async def cancel_psycopg() -> None:
            if driver.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await driver.cancel_safe(timeout=CANCEL_S)

        return cancel_psycopg

    async def cancel_asyncpg() -> None:
        # asyncpg has no public method for it. Without a running statement the server ignores the request.
        await driver._cancel(asyncio.get_running_loop().create_future())

    return cancel_asyncpg
