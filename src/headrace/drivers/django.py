"""Django: a connection of `django.db.connections`, on psycopg 3 or psycopg 2; and Django in a handler's transaction: while the handler
runs, `django.db.connections[alias]` is headrace's connection.

So models, querysets, `atomic` (a savepoint) and `on_commit` work as in a request with ATOMIC_REQUESTS. Django's connections belong
to a thread: a plain function runs in one, and an async handler gets a thread of its own for its ORM calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, LiteralString, NoReturn

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import atomic
from psycopg.pq import TransactionStatus

from headrace.core import Conflict, Invalid
from headrace.db import create_view, set_adapters
from headrace.drivers.psycopg import GuardedSyncView, PsycopgConnection, TransactionGuard
from headrace.drivers.registry import find_kind
from headrace.drivers.sessions import SessionStep
from headrace.drivers.steps import Copy, Parameters, Rows, SyncDriver


def _has_transaction(conn: BaseDatabaseWrapper) -> bool:
    return conn.in_atomic_block or not conn.get_autocommit()


def _block(conn: BaseDatabaseWrapper) -> AbstractContextManager[object]:
    return atomic(using=conn.alias)


def _fetch(conn: BaseDatabaseWrapper, statement: LiteralString, parameters: Parameters) -> Rows:
    with conn.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [tuple(row) for row in cursor.fetchall()]


def _insert(conn: BaseDatabaseWrapper, statement: LiteralString, parameters: Parameters) -> bool:
    with conn.cursor() as cursor:
        cursor.execute(statement, parameters)
        return bool(cursor.rowcount > 0)


def _copy(conn: BaseDatabaseWrapper, step: Copy) -> bool:
    """A COPY goes to the psycopg connection inside; psycopg 2 has none that fits here."""
    kind = find_kind(type(conn.connection))
    return kind is not None and bool(kind.driver.copy(conn.connection, step))


SYNC = SyncDriver(
    has_transaction=_has_transaction,
    block=_block,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)


@contextmanager
def django_on(connection: PsycopgConnection, step: SessionStep, guard: TransactionGuard) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection on the node's connection, for the current thread."""
    wrapper, previous = _install(connection, step)
    try:
        with guard.around(wrapper, wrapper.connection):
            yield wrapper
        _check(wrapper, step)
    finally:
        _restore(step, previous)
    connection.after_commit += _on_commit_functions(wrapper)


@asynccontextmanager
async def async_django_on(
    connection: PsycopgConnection, step: SessionStep, guard: TransactionGuard
) -> AsyncIterator[BaseDatabaseWrapper]:
    """The same for an async handler: its ORM calls run in a thread that this block owns."""
    async with ThreadSensitiveContext():
        wrapper, previous = await sync_to_async(_install)(connection, step)
        try:
            with guard.around(wrapper, wrapper.connection):
                yield wrapper
            _check(wrapper, step)
        except BaseException:
            # After a timeout, or when the node stops, the thread goes on with its statement, and what follows here waits for it.
            if connection.conn.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await connection.conn.cancel_safe(timeout=5)
            raise
        finally:
            await sync_to_async(_restore)(step, previous)
    connection.after_commit += _on_commit_functions(wrapper)


def _install(connection: PsycopgConnection, step: SessionStep) -> tuple[Any, Any]:
    alias = step.request.option
    wrapper: Any = connections.create_connection(alias)
    if wrapper.vendor != "postgresql":
        raise Invalid(
            f"Django's database {alias!r} is {wrapper.vendor}; handlers need PostgreSQL, the same database as the node's"
        )
    parameters = wrapper.get_connection_params()
    if "context" not in parameters:
        raise Invalid("Django uses psycopg2 here; install psycopg 3 (pip install 'psycopg[binary]'), which Django prefers")
    view = create_view(GuardedSyncView, connection.conn)
    set_adapters(view, parameters["context"].adapters)
    view.cursor_factory = parameters["cursor_factory"]
    wrapper.connection = view
    # It works as inside `atomic`: Django begins and ends nothing, and its own atomic blocks are savepoints.
    wrapper.autocommit, wrapper.in_atomic_block = False, True
    wrapper.isolation_level = None
    wrapper.health_check_done = True
    for method in ("commit", "rollback", "close", "set_autocommit"):
        setattr(wrapper, method, partial(_reject, step, method))
    name = wrapper.timezone_name
    if name and view.info.parameter_status("TimeZone") != name:
        # Django reads times as if the session had this time zone. Only for this transaction.
        view.execute("select pg_catalog.set_config('TimeZone', %s, true)", (name,))
    previous = connections[alias]
    connections[alias] = wrapper
    return wrapper, previous


def _restore(step: SessionStep, previous: Any) -> None:
    connections[step.request.option] = previous


def _check(wrapper: Any, step: SessionStep) -> None:
    if wrapper.needs_rollback:
        raise Conflict(
            f"handler {step.name} caught an error inside atomic(savepoint=False) and went on, but what it did must be rolled "
            "back; let the error out, or use atomic()"
        )


def _on_commit_functions(wrapper: Any) -> list[Callable[[], object]]:
    return [hook[1] for hook in wrapper.run_on_commit]


def _reject(step: SessionStep, method: str, *_arguments: object, **_options: object) -> NoReturn:
    raise Conflict(
        f"handler {step.name} called {method} on Django's connection; remove the call: headrace commits after the handler, "
        "together with the cursor or the ack. Put atomic() around what may fail, or raise an error to undo everything"
    )
