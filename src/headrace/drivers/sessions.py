"""Sessions: what a handler gets as its second argument, a driver's connection or an ORM session, and the connection below it: one
transaction at a time, in which headrace's own statements and a handler's effects happen.

Which session it is says the annotation of the second parameter, or the application's `session`. Classes are compared by name, so that
no library is imported that the application does not use. Other packages add kinds by entry points.

Promises: the claim, the handler's effects and the move of the cursor (or the ack) commit together or not at all, whatever driver or
ORM the handler uses; a session cannot end that transaction; a lost connection raises psycopg.OperationalError, whatever the driver."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString, NoReturn, Protocol, TypeAlias

import psycopg
import psycopg.errors
from psycopg.pq import TransactionStatus

from headrace.core import Conflict, ExtensionPoint, Invalid, LoggedEvent
from headrace.db import Parameter, cancel_asyncpg
from headrace.drivers.registry import driver_connection

ASYNC_SESSION, SESSION = "sqlalchemy.AsyncSession", "sqlalchemy.Session"
ASYNC_PSYCOPG, PSYCOPG = "psycopg.AsyncConnection", "psycopg.Connection"
ASYNCPG = "asyncpg.Connection"
DJANGO = "django"

_BY_CLASS = {
    "sqlalchemy.AsyncSession": ASYNC_SESSION,
    "sqlalchemy.async_scoped_session": ASYNC_SESSION,
    "sqlalchemy.async_sessionmaker": ASYNC_SESSION,
    "sqlalchemy.Session": SESSION,
    "sqlalchemy.scoped_session": SESSION,
    "sqlalchemy.sessionmaker": SESSION,
    "psycopg.AsyncConnection": ASYNC_PSYCOPG,
    "psycopg.Connection": PSYCOPG,
    "asyncpg.Connection": ASYNCPG,
    "asyncpg.PoolConnectionProxy": ASYNCPG,
    "asyncpg.Pool": ASYNCPG,
    "django.BaseDatabaseWrapper": DJANGO,
    "django.ConnectionProxy": DJANGO,
}
_MAKERS = {name: _BY_CLASS[name] for name in ("sqlalchemy.async_sessionmaker", "sqlalchemy.sessionmaker", "asyncpg.Pool")}
_IS_ASYNC = {ASYNC_SESSION: True, ASYNC_PSYCOPG: True, ASYNCPG: True, SESSION: False, PSYCOPG: False}
"""Django's connection serves both: its async methods call the sync ones in a thread."""
_OTHER_FORM = {
    ASYNC_SESSION: "ask for sqlalchemy.orm.Session",
    SESSION: "ask for sqlalchemy.ext.asyncio.AsyncSession",
    ASYNC_PSYCOPG: "ask for psycopg.Connection",
    PSYCOPG: "ask for psycopg.AsyncConnection",
    ASYNCPG: "ask for psycopg.Connection",
}
_SUPPORTED = (
    "a class (SQLAlchemy AsyncSession or Session, psycopg AsyncConnection or Connection, asyncpg Connection), "
    "an async_sessionmaker or sessionmaker, an asyncpg Pool, a mapping from the name of a shard to one of these, "
    "or 'django' ('django:ALIAS' for another alias than default)"
)


Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
Rows: TypeAlias = list[tuple[Any, ...]]


SAVEPOINT: LiteralString = "savepoint headrace_batch"
ROLLBACK_TO_SAVEPOINT: LiteralString = "rollback to savepoint headrace_batch"


ADVICE = "leave commit and rollback to headrace"


class SessionKind(Protocol):
    """A kind of session that another package adds. Its entry point is named after the class that handlers ask for: the top package,
    a dot and the name of the class."""

    is_async: bool
    """True if handlers that ask for it are async functions; plain functions otherwise."""

    def open(self, conn: Any, session_class: type | None) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        """Gives a session in the open transaction of a psycopg connection: an AsyncConnection and an asynchronous context manager if
        `is_async`, else a Connection and a plain one. `session_class` is the class that the handler asks for, which may be a subclass.

        At the end of the block the session writes what it still holds. It leaves the transaction open: commit and rollback are
        headrace's. What it raises fails the handler."""


SESSION_KINDS: Final[ExtensionPoint[SessionKind]] = ExtensionPoint(
    group="headrace.session_kinds", noun="session kind", own={}, contract=SessionKind
)


@dataclass(frozen=True)
class SessionRequest:
    """What one handler gets as its second argument."""

    kind: str
    option: Any = None
    """The class of the session; or where sessions come from: a sessionmaker, a pool, a mapping of these by shard; or the alias of
    a Django database."""

    @property
    def session_class(self) -> type | None:
        """The class that the handler, or the application, asks for."""
        return self.option if isinstance(self.option, type) else None

    @property
    def source(self) -> Any:
        """Where its transaction comes from if it is not a connection of the node; None: the node's own connection."""
        return self.option if self.option is not None and not isinstance(self.option, type | str) else self._own_source

    @property
    def _own_source(self) -> Any:
        # asyncpg cannot share a connection with psycopg, so these handlers have a pool of their own.
        return ASYNCPG if self.kind == ASYNCPG else None


@dataclass(frozen=True)
class SessionStep:
    """One handler with what it asks for."""

    handler: Callable[..., Any]
    request: SessionRequest
    is_async: bool

    @property
    def name(self) -> str:
        return qualified_name(self.handler)


def session_kind(annotation: object) -> str | None:
    """The kind of session that a parameter with this annotation asks for; None if it is no session.

    The annotation may be a class, a generic alias of one, or the text of either."""
    if isinstance(annotation, str):
        return _kind_of_text(annotation)
    origin = getattr(annotation, "__origin__", annotation)
    if not isinstance(origin, type):
        return None
    return _kind_of_class(origin)


def _kind_of_class(annotation: type, known: Mapping[str, str] = _BY_CLASS) -> str | None:
    # A subclass of the application's counts as the class it inherits from.
    names = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in annotation.__mro__]
    added = SESSION_KINDS.names() if known is _BY_CLASS else ()
    return next((known.get(name) or name for name in names if name in known or name in added), None)


def _kind_of_text(text: str) -> str | None:
    """For names that exist only for type checkers: `sqlalchemy.orm.Session`, `Session`, `asyncpg.Connection[Record]`."""
    path = text.partition("[")[0].strip().strip("'\"")
    module, _, name = path.rpartition(".")
    if module:
        path = f"{module.partition('.')[0]}.{name}"
        return _BY_CLASS.get(path) or (path if path in SESSION_KINDS.names() else None)
    # `Connection` alone may be any library's.
    return {"AsyncSession": ASYNC_SESSION, "Session": SESSION}.get(name)


def request_for(handler: Callable[..., Any], app_session: object) -> SessionRequest:
    """What a handler asks for; raises Invalid if a plain function asks for an asynchronous session, or the reverse."""
    is_async = inspect.iscoroutinefunction(handler)
    annotation = _second_annotation(handler)
    kind = session_kind(annotation)
    option: object = None
    if kind is not None:
        option = app_session if _kind_of_option(app_session) == kind else _session_class(annotation)
    elif app_session is not None:
        kind, option = _kind_of_option(app_session), app_session
    kind = kind or (ASYNC_PSYCOPG if is_async else PSYCOPG)
    if kind == DJANGO:
        return SessionRequest(DJANGO, str(option).partition(":")[2] or "default" if isinstance(option, str) else "default")
    if (_IS_ASYNC[kind] if kind in _IS_ASYNC else SESSION_KINDS.load(kind).is_async) != is_async:
        form = "an async function" if is_async else "a plain function"
        other = "a plain function (def)" if is_async else "an async function (async def)"
        raise Invalid(
            f"handler {qualified_name(handler)} is {form} but gets {kind}; {_OTHER_FORM.get(kind, 'ask for another class')} in the annotation of its "
            f"second parameter, or make it {other}"
        )
    return SessionRequest(kind, option)


def check_session_option(session: object) -> None:
    """Raises Invalid for a `session` of the application that is not supported."""
    if session is not None and _kind_of_option(session) is None:
        raise Invalid(f"session={session!r} is not supported; give {_SUPPORTED}")


def _kind_of_option(option: object) -> str | None:
    if isinstance(option, Mapping):
        kinds = {_kind_of_option(value) for value in option.values()}
        return kinds.pop() if len(kinds) == 1 else None
    if isinstance(option, str):
        return DJANGO if option.partition(":")[0] == DJANGO else None
    if isinstance(option, type):
        return session_kind(option)
    # A session or connection that is open already is nobody's to share, and a scoped_session hands out such ones.
    return _kind_of_class(type(option), _MAKERS)


def _session_class(annotation: object) -> type | None:
    origin = getattr(annotation, "__origin__", annotation)
    return origin if isinstance(origin, type) else None


def _second_annotation(handler: Callable[..., Any]) -> object:
    """The annotation of the second parameter, as an object where its name can be resolved, else as its text."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return None
    if len(parameters) < 2:
        return None
    annotation = parameters[1].annotation
    if not isinstance(annotation, str):
        return annotation
    function: Any = innermost(handler)
    function = getattr(function, "__func__", function)
    function = function if hasattr(function, "__globals__") else type(function).__call__
    try:
        variables = inspect.getclosurevars(function)
        names = {**getattr(function, "__globals__", {}), **variables.nonlocals}
        return eval(annotation, names)
    except Exception:  # noqa: BLE001 - a name that exists only for type checkers
        return annotation


def qualified_name(handler: Callable[..., Any]) -> str:
    """The name of a handler with its module, for messages."""
    return f"{getattr(innermost(handler), '__module__', '')}.{handler_name(handler)}".lstrip(".")


def handler_name(function: object) -> str:
    """The name of a handler, for messages."""
    inner = innermost(function)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(name).replace("<locals>.", "").replace("<lambda>", "handler")


def innermost(function: object) -> object:
    """The function that the user wrote, without the decorators that say so and without partial arguments."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


class EventRows(ABC):
    """The rows of a statement whose columns are the fields of LoggedEvent, decoded when they are asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, start: int, end: int) -> Rows:
        """The rows from `start` up to, not including, `end`; raises what decoding them raises."""

    @abstractmethod
    def position(self, index: int) -> int:
        """The position in a row, even if the row cannot be decoded."""

    @abstractmethod
    def partition(self, index: int) -> int:
        """The partition in a row, even if the row cannot be decoded."""


class HandlerConnection(ABC):
    """A connection for handlers, in one transaction at a time."""

    def __init__(self) -> None:
        self.after_commit: list[Callable[[], object]] = []
        """Plain functions that a handler left to be called after the commit."""

    @abstractmethod
    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        """Begins a transaction, and runs its first statement if there is one."""

    @abstractmethod
    async def begin_events(
        self, statement: LiteralString, parameters: Sequence[Parameter], *, raw: bool = False, savepoint: bool = False
    ) -> EventRows:
        """Begins a transaction with a statement that returns events. With `raw`, payload and headers are JSON text, which the handler
        decodes itself; with `savepoint`, `rollback_to_savepoint` leads back to this moment."""

    @abstractmethod
    async def execute(self, statement: LiteralString, parameters: Parameters = (), *, prepare: bool | None = None) -> Rows: ...

    @abstractmethod
    async def fetch_events(
        self, statement: LiteralString, parameters: Mapping[str, object], *, raw: bool = False
    ) -> list[LoggedEvent]:
        """The events of a query; with `raw`, payload and headers are JSON text, which the handler decodes itself."""

    @abstractmethod
    def savepoint(self) -> AbstractAsyncContextManager[object]: ...

    @abstractmethod
    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        """Runs the last statement if there is one, and commits."""

    @abstractmethod
    async def rollback(self) -> None:
        """Rolls back if a transaction is open; a lost connection has no transaction."""

    async def rollback_to_savepoint(self) -> bool:
        """Undoes what happened since `begin_events`, and keeps its locks. False if a handler has ended the transaction; then it is
        rolled back."""
        if self.is_lost or not self.has_transaction:
            return False
        try:
            await self.execute(ROLLBACK_TO_SAVEPOINT)
        except psycopg.errors.InvalidSavepointSpecification:
            await self.rollback()
            return False
        return True

    @property
    @abstractmethod
    def has_transaction(self) -> bool:
        """True while a transaction is open, aborted or not."""

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """True if the server or the network ended the connection, and not the handler."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True while the transaction is open and not aborted."""

    @abstractmethod
    def session(self, step: SessionStep) -> AbstractAsyncContextManager[Any]:
        """The session of an async handler. The exit raises if the handler has ended the transaction or left it aborted."""

    def sync_session(self, step: SessionStep) -> AbstractContextManager[Any]:
        """The session of a plain function, for the thread that calls it."""
        raise Conflict(f"handler {step.name} is a plain function, and its connection is asynchronous")


class TransactionSource(Protocol):
    """Where the connections of handlers come from."""

    def connect(self) -> AbstractAsyncContextManager[HandlerConnection]:
        """A connection, returned at the end of the block; an open transaction is rolled back."""


def reject(method: str) -> NoReturn:
    raise Conflict(f"the handler called {method} on its connection; {ADVICE}")


def concurrency_error(error: BaseException) -> psycopg.Error | None:
    """psycopg's error if a deadlock or a serialization failure caused this one, whatever library raised it; else None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
            return cause
        sqlstate = getattr(cause, "sqlstate", None)
        if sqlstate in ("40P01", "40001"):
            return psycopg.errors.lookup(sqlstate)(str(cause))
        cause = getattr(cause, "orig", None) or (cause.__cause__ if _is_wrapper(cause) else None)
    return None


def _is_wrapper(error: BaseException) -> bool:
    """True for an error by which a library repeats one of its driver. Anything else was raised by the handler on purpose."""
    return type(error).__module__.partition(".")[0] in ("django", "sqlalchemy")


CANCEL_S = 5.0
"""Longest time for the cancel request itself."""
Cancel: TypeAlias = Callable[[], Awaitable[None]]


def statement_cancel(session: Any) -> Cancel | None:
    """What cancels the statement of an async session of SQLAlchemy; None for other sessions, which survive the cancelling of their
    task. SQLAlchemy gives up its connection then, and the event would be delivered again and again without a failed attempt."""
    if getattr(getattr(session, "bind", None), "sync_connection", None) is None:
        return None
    driver: Any = driver_connection(session)
    if not isinstance(driver, psycopg.AsyncConnection):
        return partial(cancel_asyncpg, driver)

    async def cancel_psycopg() -> None:
        if driver.pgconn.transaction_status == TransactionStatus.ACTIVE:
            await driver.cancel_safe(timeout=CANCEL_S)

    return cancel_psycopg
