"""Drivers: psycopg, asyncpg, SQLAlchemy and Django, sync and async.

Owns: how headrace writes on a connection of its caller, and what a handler gets as its second argument. Promises: a function that writes
is written once for all of them, as steps; a library is imported only when a connection of its kind is used; what a function writes is
part of the caller's transaction, which headrace never commits; what a handler does through its session is part of the transaction that
also moves the cursor or acks the action, and which it cannot end."""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.drivers.registry import (
    AsyncConnection,
    ConnectionKind,
    SyncConnection,
    driver_connection,
    is_async_connection,
    register_kind,
    run_steps,
    run_steps_async,
)
from headrace.drivers.steps import Block, Copy, Fetch, Insert, Rows, Steps, fetch

if TYPE_CHECKING:
    from headrace.drivers.psycopg import GuardedAsyncView, PsycopgConnection, PsycopgEventRows
    from headrace.drivers.sessions import (
        ASYNCPG,
        CANCEL_S,
        SAVEPOINT,
        SESSION_KINDS,
        Cancel,
        EventRows,
        HandlerConnection,
        SessionKind,
        SessionStep,
        TransactionSource,
        check_session_option,
        concurrency_error,
        handler_name,
        innermost,
        request_for,
        session_kind,
        statement_cancel,
    )
    from headrace.drivers.sources import Sources

__all__ = [
    "ASYNCPG",
    "CANCEL_S",
    "SAVEPOINT",
    "SESSION_KINDS",
    "AsyncConnection",
    "Block",
    "Cancel",
    "ConnectionKind",
    "Copy",
    "EventRows",
    "Fetch",
    "GuardedAsyncView",
    "HandlerConnection",
    "Insert",
    "PsycopgConnection",
    "PsycopgEventRows",
    "Rows",
    "SessionKind",
    "SessionStep",
    "Sources",
    "Steps",
    "SyncConnection",
    "TransactionSource",
    "check_session_option",
    "concurrency_error",
    "driver_connection",
    "fetch",
    "handler_name",
    "innermost",
    "is_async_connection",
    "register_kind",
    "request_for",
    "run_steps",
    "run_steps_async",
    "session_kind",
    "statement_cancel",
]

_MODULES = {"GuardedAsyncView": "psycopg", "PsycopgConnection": "psycopg", "PsycopgEventRows": "psycopg", "Sources": "sources"}
"""The modules of names that are not those of `sessions`."""


def __getattr__(name: str) -> object:
    # What handlers get needs psycopg, and is imported when one of its names is used.
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'sessions')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
