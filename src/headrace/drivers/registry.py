"""Registry: the kinds of connections that headrace works on, by the names of their classes.

Nothing of a library is imported before a connection of its kind is used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from headrace.core import Invalid

if TYPE_CHECKING:
    import asyncpg
    import psycopg
    import sqlalchemy
    from asyncpg.pool import PoolConnectionProxy
    from django.db.backends.base.base import BaseDatabaseWrapper
    from sqlalchemy import orm
    from sqlalchemy.ext import asyncio as sqlalchemy_async

    from headrace.drivers.steps import Driver, Steps

SyncConnection: TypeAlias = (
    "psycopg.Connection[object] | sqlalchemy.Connection | orm.Session | orm.scoped_session[orm.Session] | BaseDatabaseWrapper"
)
AsyncConnection: TypeAlias = (
    "psycopg.AsyncConnection[object] | asyncpg.Connection | PoolConnectionProxy | sqlalchemy_async.AsyncConnection"
    " | sqlalchemy_async.AsyncSession | sqlalchemy_async.async_scoped_session[sqlalchemy_async.AsyncSession]"
)
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ConnectionKind:
    """A kind of connection, described without its library."""

    name: str
    """For messages."""
    classes: tuple[str, ...]
    """Its classes, each by its top package and its name. A subclass belongs to the kind of the class it inherits from."""
    is_async: bool
    driver_path: str
    """Where its driver is: a module and a name in it, separated by a colon."""

    @cached_property
    def driver(self) -> Any:
        return load(self.driver_path)


_kinds_by_class: dict[str, ConnectionKind] = {}
# The key is the class of the connection: a search through its base classes takes microseconds.
_sync_drivers: dict[type, Driver] = {}
_async_drivers: dict[type, Driver] = {}


def register_kind(kind: ConnectionKind) -> None:
    """Makes a kind known. The kind that was registered last for a class is used."""
    _kinds_by_class.update(dict.fromkeys(kind.classes, kind))
    _sync_drivers.clear()
    _async_drivers.clear()


@cache
def load(path: str) -> Any:
    """What a path such as `headrace.drivers.psycopg:SYNC` leads to."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def class_names(connection_class: type) -> list[str]:
    """A class and those it inherits from, each by its top package and its name."""
    return [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in connection_class.__mro__]


def find_kind(connection_class: type) -> ConnectionKind | None:
    """The kind of a class; None if it is not known."""
    return next((kind for name in class_names(connection_class) if (kind := _kinds_by_class.get(name))), None)


def driver_connection(conn: Any) -> object:
    """The driver's connection inside the objects of SQLAlchemy and Django; None if there is none yet. Any other object as it is."""
    names = set(class_names(type(conn)))
    if names & {"sqlalchemy.scoped_session", "sqlalchemy.async_scoped_session"}:
        return driver_connection(conn())
    if "sqlalchemy.AsyncSession" in names:
        return driver_connection(conn.sync_session)
    if "sqlalchemy.AsyncConnection" in names:
        return driver_connection(conn.sync_connection)
    if "sqlalchemy.Session" in names:
        if "sqlalchemy.Connection" in class_names(type(conn.bind)):
            return driver_connection(conn.bind)
        return driver_connection(conn.connection()) if conn.in_transaction() else None
    if "sqlalchemy.Connection" in names:
        # A detached connection knows no driver_connection; an asynchronous one is adapted.
        inner: Any = conn.connection.dbapi_connection
        return getattr(inner, "driver_connection", inner)
    own: object = conn.connection if names & {"django.BaseDatabaseWrapper", "django.ConnectionProxy"} else conn
    return own


def _find_driver(connection_class: type, *, is_async: bool) -> Driver:
    kind = find_kind(connection_class)
    if kind is None:
        known = ", ".join(dict.fromkeys(kind.name for kind in _kinds_by_class.values()))
        name = f"{connection_class.__module__}.{connection_class.__qualname__}"
        raise Invalid(f"{name} is not a connection that headrace works on; give one of {known}")
    if kind.is_async and not is_async:
        raise Invalid(f"the connection ({kind.name}) is asynchronous; await the function whose name ends in _async")
    if is_async and not kind.is_async:
        raise Invalid(f"the connection ({kind.name}) is not asynchronous; use the function without _async")
    drivers = _async_drivers if is_async else _sync_drivers
    return drivers.setdefault(connection_class, kind.driver)


def run_steps(conn: SyncConnection, steps: Steps[Result]) -> Result:
    """Takes the steps of a function on a connection, and returns its value. Raises Invalid unless the connection is synchronous."""
    driver = _sync_drivers.get(type(conn)) or _find_driver(type(conn), is_async=False)
    result: Result = driver.run(conn, steps)
    return result


async def run_steps_async(conn: AsyncConnection, steps: Steps[Result]) -> Result:
    """As `run_steps`, on an asynchronous connection."""
    driver = _async_drivers.get(type(conn)) or _find_driver(type(conn), is_async=True)
    result: Result = await driver.run(conn, steps)
    return result


def is_async_connection(conn: SyncConnection | AsyncConnection) -> bool:
    """Is it one of the asynchronous connections that we know?"""
    kind = find_kind(type(conn))
    return kind is not None and kind.is_async


for _name, _classes, _driver_path in (
    ("psycopg.Connection", ("psycopg.Connection",), "psycopg:SYNC"),
    ("psycopg.AsyncConnection", ("psycopg.AsyncConnection",), "psycopg:ASYNC"),
    ("asyncpg.Connection", ("asyncpg.Connection", "asyncpg.PoolConnectionProxy"), "asyncpg:ASYNC"),
    ("sqlalchemy.Session", ("sqlalchemy.Session", "sqlalchemy.scoped_session"), "sqlalchemy:SYNC"),
    ("sqlalchemy.Connection", ("sqlalchemy.Connection",), "sqlalchemy:SYNC"),
    ("sqlalchemy.AsyncSession", ("sqlalchemy.AsyncSession", "sqlalchemy.async_scoped_session"), "sqlalchemy:ASYNC"),
    ("sqlalchemy.AsyncConnection", ("sqlalchemy.AsyncConnection",), "sqlalchemy:ASYNC"),
    ("django.db.connection", ("django.BaseDatabaseWrapper", "django.ConnectionProxy"), "django:SYNC"),
):
    _is_async = _driver_path.endswith(":ASYNC")
    _path = f"headrace.drivers.{_driver_path}"
    register_kind(ConnectionKind(name=_name, classes=_classes, is_async=_is_async, driver_path=_path))
