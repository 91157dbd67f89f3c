"""Drivers: psycopg, asyncpg, SQLAlchemy and Django, sync and async.

Owns: how headrace writes on a connection of its caller, and what a handler gets as its second argument. Promises: a function that writes
is written once for all of them, as steps; a library is imported only when a connection of its kind is used; what a function writes is
part of the caller's transaction, which headrace never commits; what a handler does through its session is part of the transaction that
also moves the cursor or acks the action, and which it cannot end."""

from typing import TYPE_CHECKING

from headrace.drivers.registry import (
    AsyncConnection as AsyncConnection,
    ConnectionKind as ConnectionKind,
    SyncConnection as SyncConnection,
    driver_connection as driver_connection,
    is_async_connection as is_async_connection,
    register_kind as register_kind,
    run_steps as run_steps,
    run_steps_async as run_steps_async,
)
from headrace.drivers.steps import (
    Block as Block,
    Copy as Copy,
    Fetch as Fetch,
    Insert as Insert,
    Rows as Rows,
    Steps as Steps,
    fetch as fetch,
)
from headrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from headrace.drivers.psycopg import (
        GuardedAsyncView as GuardedAsyncView,
        PsycopgConnection as PsycopgConnection,
        PsycopgEventRows as PsycopgEventRows,
    )
    from headrace.drivers.sessions import (
        ASYNCPG as ASYNCPG,
        CANCEL_S as CANCEL_S,
        SAVEPOINT as SAVEPOINT,
        SESSION_KINDS as SESSION_KINDS,
        Cancel as Cancel,
        EventRows as EventRows,
        HandlerConnection as HandlerConnection,
        SessionKind as SessionKind,
        SessionStep as SessionStep,
        TransactionSource as TransactionSource,
        check_session_option as check_session_option,
        concurrency_error as concurrency_error,
        handler_name as handler_name,
        innermost as innermost,
        request_for as request_for,
        session_kind as session_kind,
        statement_cancel as statement_cancel,
    )
    from headrace.drivers.sources import Sources as Sources
else:
    # What handlers get needs psycopg.
    __getattr__ = lazy_names(__name__, "sessions", "sources", "psycopg")
