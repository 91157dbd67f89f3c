"""Loops: a step that fails because PostgreSQL is away is tried again until it is back; and a loop ends when it is told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
import stamina
from psycopg_pool import PoolTimeout

logger = logging.getLogger(__name__)

T = TypeVar("T")
AGAIN_S = 0.2

# Deadlocks and serialization failures are the server's way of saying: again, please.
TRANSIENT = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)
# psycopg counts these as internal errors: a standby that is not promoted yet or a server that went read-only, and sessions that
# the server ended because a transaction was idle or open for too long.
_PASSING = {"25006", "25P03", "25P04"}


def is_transient(error: Exception) -> bool:
    """Whether trying again may help. Errors of ours do not mend by waiting; psycopg counts every SQLSTATE it does not know
    as operational, so they have to be told apart by it."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    return sqlstate in _PASSING or (isinstance(error, TRANSIENT) and not sqlstate.startswith("HR"))


def as_lost(error: Exception) -> Exception:
    """What to raise where a connection was lost while a handler ran. The handler's own error would end the loop, though nothing
    is wrong with the node: what it did is rolled back, and it is tried again."""
    return error if is_transient(error) else psycopg.OperationalError(f"the connection was lost while a handler ran: {error!r}")


async def retry_until_connected(name: str, step: Callable[[], Awaitable[T]]) -> T:
    """Runs one step of a loop; on a transient error it runs again, after 0.1 s growing to 5 s with jitter, for ever.

    Nothing is lost by that: whatever a step did was in a transaction, and the next attempt finds what is due."""
    try:
        return await step()
    except Exception as error:
        if not is_transient(error):
            raise
        logger.warning("%s: %s; trying again", name, str(error).strip() or type(error).__name__)
    async for attempt in stamina.retry_context(
        on=is_transient, attempts=None, timeout=None, wait_initial=0.1, wait_max=5, wait_jitter=0.5
    ):
        with attempt:
            return await step()
    raise AssertionError("unreachable: the retry has no end")


async def end_loops(*loops: asyncio.Task[None]) -> None:
    """Cancels loops and waits until they have ended.

    Once is not enough: Python 3.11's wait_for, on which psycopg waits, loses a cancellation that comes together with a result."""
    running = set(loops)
    while running:
        for loop in running:
            loop.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_S)
