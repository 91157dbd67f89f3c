"""Loops: a step that fails because PostgreSQL is unreachable is retried until it is back; tasks are cancelled for certain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

logger = logging.getLogger(__name__)

T = TypeVar("T")
CANCEL_AGAIN_S = 0.2

# Deadlocks, serialization failures and a pool's timeout are operational errors too.
TRANSIENT_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
# psycopg counts these as internal errors: a standby that is not promoted yet or a server that became read-only, and sessions
# that the server ended because a transaction was idle or open for too long.
_TRANSIENT_SQLSTATES = {"25006", "25P03", "25P04"}


def is_transient(error: Exception) -> bool:
    """True if a retry may help. Our own errors are not transient, although psycopg counts unknown SQLSTATEs as operational."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    return sqlstate in _TRANSIENT_SQLSTATES or (isinstance(error, TRANSIENT_ERRORS) and not sqlstate.startswith("HR"))


def connection_lost_error(error: Exception) -> Exception:
    """The error to raise if the connection was lost while a handler ran. The handler's own error would end the loop, although
    the node is healthy: the handler's work is rolled back and retried."""
    return error if is_transient(error) else psycopg.OperationalError(f"the connection was lost while a handler ran: {error!r}")


async def retry_until_connected(name: str, step: Callable[[], Awaitable[T]]) -> T:
    """Runs one step of a loop. After a transient error it runs again, after 0.1 s growing to 5 s with jitter, without limit.

    Nothing is lost: a step works in a transaction, and the next attempt finds what is due."""
    try:
        return await step()
    except Exception as error:
        if not is_transient(error):
            raise
        logger.warning("%s: %s; retrying", name, str(error).strip() or type(error).__name__)
    import stamina

    async for attempt in stamina.retry_context(
        on=is_transient, attempts=None, timeout=None, wait_initial=0.1, wait_max=5, wait_jitter=0.5
    ):
        with attempt:
            return await step()
    raise AssertionError("unreachable: the retry has no limit")


async def cancel_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancels tasks and waits until they have ended.

    Once is not enough: asyncio.wait_for of Python 3.11, which psycopg uses, loses a cancellation that comes with a result."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_S)
