"""The drivers of `bench.publish`: each runs the same parameterised INSERT that one writes by hand, and `publish()`, on one
connection. Both sides create the event's id in the client and encode the same dict, the hand-written one by the fastest encoder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import asyncpg
import django
import msgspec
import psycopg
import sqlalchemy
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb, set_json_dumps
from uuid_utils.compat import uuid7

from bench.pgbench import PAYLOAD
from headrace import publish, publish_async

TYPE = "account.created"
_ROW = "insert into bare (topic_id, event_id, type, key, payload) values "
_encode = msgspec.json.Encoder().encode
_payload: dict[str, Any] = msgspec.json.decode(PAYLOAD)
_numbers = count()


def _key() -> str:
    return f"account-{next(_numbers) % 1000}"


@dataclass(frozen=True)
class Session:
    """A connection that can do both; `transaction` opens one around some of them."""

    backend_pid: int
    insert: Callable[[], Any]
    publish: Callable[[], Any]
    transaction: Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class AsyncSession:
    """The same on an asynchronous connection."""

    backend_pid: int
    insert: Callable[[], Awaitable[Any]]
    publish: Callable[[], Awaitable[Any]]
    transaction: Callable[[], AbstractAsyncContextManager[Any]]


@contextmanager
def psycopg_sync(dsn: str, autocommit: bool) -> Iterator[Session]:
    statement = _ROW + "(%s, %s, %s, %s, %s)"
    with psycopg.connect(dsn, autocommit=True) as conn:
        set_json_dumps(_encode, conn)
        yield Session(
            conn.info.backend_pid,
            lambda: conn.execute(statement, (1, uuid7(), TYPE, _key(), Jsonb(_payload))),
            lambda: publish(conn, "bench", TYPE, _payload, key=_key()),
            nullcontext if autocommit else conn.transaction,
        )


@asynccontextmanager
async def psycopg_async(dsn: str, autocommit: bool) -> AsyncIterator[AsyncSession]:
    statement = _ROW + "(%s, %s, %s, %s, %s)"
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        set_json_dumps(_encode, conn)
        yield AsyncSession(
            conn.info.backend_pid,
            lambda: conn.execute(statement, (1, uuid7(), TYPE, _key(), Jsonb(_payload))),
            lambda: publish_async(conn, "bench", TYPE, _payload, key=_key()),
            nullcontext if autocommit else conn.transaction,
        )


@asynccontextmanager
async def asyncpg_connection(dsn: str, autocommit: bool) -> AsyncIterator[AsyncSession]:
    statement = _ROW + "($1, $2, $3, $4, $5)"
    conn = await asyncpg.connect(dsn)
    yield AsyncSession(
        conn.get_server_pid(),
        lambda: conn.execute(statement, 1, uuid7(), TYPE, _key(), _encode(_payload).decode()),
        lambda: publish_async(conn, "bench", TYPE, _payload, key=_key()),
        nullcontext if autocommit else conn.transaction,
    )
    await conn.close()


@contextmanager
def sqlalchemy_connection(dsn: str, autocommit: bool) -> Iterator[Session]:
    statement = sqlalchemy.text(_ROW + "(:topic_id, :event_id, :type, :key, cast(:payload as jsonb))")
    isolation: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"), **isolation)

    def insert() -> None:
        row = {"topic_id": 1, "event_id": uuid7(), "type": TYPE, "key": _key(), "payload": _encode(_payload).decode()}
        conn.execute(statement, row)

    with engine.connect() as conn:
        driver_conn: Any = conn.connection.driver_connection
        pid = driver_conn.info.backend_pid
        conn.rollback()
        yield Session(
            pid,
            insert,
            lambda: publish(conn, "bench", TYPE, _payload, key=_key()),
            nullcontext if autocommit else conn.begin,
        )
        conn.rollback()
    engine.dispose()


@contextmanager
def django_connection(dsn: str, autocommit: bool) -> Iterator[Session]:
    from django.db import connection, transaction

    statement = _ROW + "(%s, %s, %s, %s, %s)"

    def insert() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, (1, uuid7(), TYPE, _key(), Jsonb(_payload, _encode)))

    connection.ensure_connection()
    yield Session(
        connection.connection.info.backend_pid,
        insert,
        lambda: publish(connection, "bench", TYPE, _payload, key=_key()),
        nullcontext if autocommit else transaction.atomic,
    )
    connection.close()


def configure_django(dsn: str) -> None:
    """Once per process, before a Django connection is used."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    address = conninfo_to_dict(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": address["dbname"],
        "USER": address["user"],
        "HOST": address["host"],
        "PORT": address["port"],
        # As psycopg does by default; without it Django interpolates in the client.
        "OPTIONS": {"server_side_binding": True, "prepare_threshold": 5},
    }
    settings.configure(DATABASES={"default": database})
    django.setup()


SYNC = {"psycopg": psycopg_sync, "SQLAlchemy": sqlalchemy_connection, "Django": django_connection}
ASYNC = {"psycopg async": psycopg_async, "asyncpg": asyncpg_connection}
