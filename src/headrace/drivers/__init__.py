"""Drivers: psycopg, asyncpg, SQLAlchemy and Django, sync and async.

Owns: how headrace writes on a connection of its caller. Promises: a function is written once for all of them, as steps; a library is
imported only when a connection of its kind is used; what a function writes is part of the caller's transaction, which headrace never
commits."""

from headrace.drivers.registry import (
    AsyncConnection,
    ConnectionKind,
    SyncConnection,
    is_async_connection,
    register_kind,
    run_steps,
    run_steps_async,
)
from headrace.drivers.steps import SESSION, Block, Copy, Fetch, Insert, Rows, Steps, fetch

__all__ = [
    "SESSION",
    "AsyncConnection",
    "Block",
    "ConnectionKind",
    "Copy",
    "Fetch",
    "Insert",
    "Rows",
    "Steps",
    "SyncConnection",
    "fetch",
    "is_async_connection",
    "register_kind",
    "run_steps",
    "run_steps_async",
]
