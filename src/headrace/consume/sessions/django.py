"""Django in the handler's transaction: while the handler runs, `django.db.connections[alias]` is headrace's connection.

So models, querysets, `atomic` (a savepoint) and `on_commit` work as in a request with ATOMIC_REQUESTS. Django's connections belong
to a thread: a plain function runs in one, and an async handler gets a thread of its own for its ORM calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus

from headrace.consume.sessions.guard import TransactionGuard
from headrace.consume.sessions.kinds import SessionStep
from headrace.consume.sessions.views import create_sync_view
from headrace.core import Conflict, Invalid
from headrace.db import AsyncConnection

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

AfterCommit = list[Callable[[], object]]


@contextmanager
def django_on(
    conn: AsyncConnection, step: SessionStep, guard: TransactionGuard, after_commit: AfterCommit
) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection on the node's connection, for the current thread."""
    wrapper, previous = _install(conn, step)
    try:
        with guard.around(wrapper):
            yield wrapper
        _check(wrapper, step)
    finally:
        _restore(step, previous)
    after_commit += _on_commit_functions(wrapper)


@asynccontextmanager
async def async_django_on(
    conn: AsyncConnection, step: SessionStep, guard: TransactionGuard, after_commit: AfterCommit
) -> AsyncIterator[BaseDatabaseWrapper]:
    """The same for an async handler: its ORM calls run in a thread that this block owns."""
    from asgiref.sync import ThreadSensitiveContext, sync_to_async

    async with ThreadSensitiveContext():
        wrapper, previous = await sync_to_async(_install)(conn, step)
        try:
            with guard.around(wrapper):
                yield wrapper
            _check(wrapper, step)
        except BaseException:
            # After a timeout, or when the node stops, the thread goes on with its statement, and what follows here waits for it.
            if conn.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await conn.cancel_safe(timeout=5)
            raise
        finally:
            await sync_to_async(_restore)(step, previous)
    after_commit += _on_commit_functions(wrapper)


def _install(conn: AsyncConnection, step: SessionStep) -> tuple[Any, Any]:
    from django.db import connections

    alias = step.request.option
    wrapper: Any = connections.create_connection(alias)
    if wrapper.vendor != "postgresql":
        raise Invalid(
            f"Django's database {alias!r} is {wrapper.vendor}; handlers need PostgreSQL, the same database as the node's"
        )
    parameters = wrapper.get_connection_params()
    if "context" not in parameters:
        raise Invalid("Django uses psycopg2 here; install psycopg 3 (pip install 'psycopg[binary]'), which Django prefers")
    view = create_sync_view(conn.pgconn)
    view._adapters = AdaptersMap(parameters["context"].adapters)
    view.cursor_factory = parameters["cursor_factory"]
    wrapper.connection = view
    # As inside `atomic`: Django begins and ends nothing, and its own atomic blocks are savepoints.
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
    from django.db import connections

    connections[step.request.option] = previous


def _check(wrapper: Any, step: SessionStep) -> None:
    if wrapper.needs_rollback:
        raise Conflict(
            f"handler {step.name} caught an error inside atomic(savepoint=False) and went on, but what it did must be rolled "
            "back; let the error out, or use atomic()"
        )


def _on_commit_functions(wrapper: Any) -> AfterCommit:
    return [hook[1] for hook in wrapper.run_on_commit]


def _reject(step: SessionStep, method: str, *_arguments: object, **_options: object) -> NoReturn:
    raise Conflict(
        f"handler {step.name} called {method} on Django's connection; remove the call: headrace commits after the handler, "
        "together with the cursor or the ack. Put atomic() around what may fail, or raise an error to undo everything"
    )
