"""Handler calls: the one place where handlers run, those of consumers and those of actions.

Async functions run on the event loop, plain functions in a thread, both in the transaction that is open on the connection.
Promises: a handler that ends that transaction, or leaves it aborted, raises; its effects never count as done."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.core import Conflict, decode
from headrace.db import AsyncConnection, Connection

ADVICE = "leave commit and rollback to headrace"

_sync_views: WeakKeyDictionary[AsyncConnection, Connection] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class HandlerGroup:
    """Handlers that run one after the other with the same argument: an action, an event or a batch of events."""

    handlers: tuple[Callable[..., Any], ...]

    @cached_property
    def steps(self) -> tuple[tuple[Callable[..., Any], bool], ...]:
        """Each handler, and whether it is an async function."""
        return tuple((handler, inspect.iscoroutinefunction(handler)) for handler in self.handlers)

    @cached_property
    def is_sync(self) -> bool:
        """Are all handlers plain functions? Then one thread may run many calls in a row."""
        return not any(is_async for _, is_async in self.steps)


HandlerCall: TypeAlias = tuple[HandlerGroup, object]
"""The handlers to call and their argument."""


async def call_handlers(calls: Sequence[HandlerCall], conn: AsyncConnection) -> list[float]:
    """Makes the calls in order, in the transaction open on the connection; returns the seconds that each took."""
    durations_s: list[float] = []
    # A hop into a thread costs more than many handlers: consecutive calls of plain functions share one hop.
    for is_sync, run in groupby(calls, key=lambda call: call[0].is_sync):
        if is_sync:
            durations_s += await asyncio.to_thread(_call_sync, list(run), sync_view(conn))
        else:
            durations_s += [await _call(group, argument, conn) for group, argument in run]
    return durations_s


async def _call(group: HandlerGroup, argument: object, conn: AsyncConnection) -> float:
    started = time.perf_counter()
    guard = TransactionGuard(conn)
    for handler, is_async in group.steps:
        with guard:
            if is_async:
                await handler(argument, conn)
            else:
                await asyncio.to_thread(handler, argument, sync_view(conn))
    return time.perf_counter() - started


def _call_sync(calls: Sequence[HandlerCall], conn: Connection) -> list[float]:
    durations_s: list[float] = []
    guard = TransactionGuard(conn)
    for group, argument in calls:
        started = time.perf_counter()
        for handler in group.handlers:
            with guard:
                handler(argument, conn)
        durations_s.append(time.perf_counter() - started)
    return durations_s


class TransactionGuard:
    """Around a handler: raises unless the handler leaves the transaction open and not aborted.

    Reusable. Costs no round trip, since the client knows its transaction's status. A class and not a generator, because it is
    entered for every action and a generator would add several microseconds."""

    __slots__ = ("_pgconn",)

    def __init__(self, conn: AsyncConnection | Connection) -> None:
        self._pgconn = conn.pgconn

    def __enter__(self) -> None:
        """Nothing to do before a handler."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, psycopg.Rollback):
            # Our own transaction block would take it as a request to roll back silently and go on as if all were done.
            raise Conflict(f"the handler raised psycopg.Rollback; {ADVICE}, raise another error") from error
        if error is None:
            self._check()

    def _check(self) -> None:
        # A lost connection has another status; the next statement fails on it.
        status = self._pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            raise Conflict(f"the handler ended its transaction; {ADVICE}")
        if status == TransactionStatus.INERROR:
            raise Conflict(
                "the handler caught a database error and went on, but the transaction is aborted; "
                "let the error out, or put tx.transaction() around the statements that may fail"
            )


class SyncView(psycopg.Connection[TupleRow]):
    """psycopg's sync interface to an async connection. The handler may not end the transaction."""

    def commit(self) -> None:
        self._reject("commit")

    def rollback(self) -> None:
        self._reject("rollback")

    def close(self) -> None:
        self._reject("close")

    def __del__(self, *_arguments: object) -> None:
        """Not psycopg's warning about an open connection: the async connection closes it."""

    def _reject(self, method: str) -> NoReturn:
        raise Conflict(f"the handler called {method} on its connection; {ADVICE}")


def sync_view(conn: AsyncConnection) -> Connection:
    """The same connection, and so the same transaction, with psycopg's sync interface.

    Safe because only one side works at a time: the event loop waits for the thread."""
    view = _sync_views.get(conn)
    if view is None:
        view = SyncView(conn.pgconn)
        # Like the async connection. Otherwise psycopg would begin a new transaction after a commit sent as text, unnoticed.
        view._autocommit = True  # psycopg forbids setting the property inside a transaction.
        set_json_loads(decode, view)
        # Both interfaces number their prepared statements from 0, and the server knows each name once.
        view.prepare_threshold = None
        _sync_views[conn] = view
    return view
