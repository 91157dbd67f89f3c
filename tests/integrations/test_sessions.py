"""Sessions in handlers: effects through any driver or ORM commit with the cursor or the ack, or not at all."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy import Engine, NullPool, create_engine, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headrace.actions import list_dead_letters, send_action
from headrace.consume import Failure, consumer_lag
from headrace.core import Conflict, HeadraceError, Invalid
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.node import Headrace, Node
from tests.actions.conftest import make_due, run_dry as run_worker_dry
from tests.builders import fill, own_database, topic
from tests.conftest import FAST, temporary_folder
from tests.consume.conftest import run_dry
from tests.integrations.conftest import KINDS, Bench, by_app
from tests.integrations.models import CREATE, Effect, django_effect

pytestmark = pytest.mark.lane("pg18")


def failing(handler: Callable[..., object], *disliked: int) -> Callable[..., object]:
    """The handler, raising after its effect on some payloads."""
    import functools
    import inspect

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def call_async(item: Any, session: Any) -> None:
            await handler(item, session)  # type: ignore[misc]
            if item.payload in disliked:
                raise ValueError(f"cannot handle {item.payload}")

        return call_async

    @functools.wraps(handler)
    def call(item: Any, session: Any) -> None:
        handler(item, session)
        if item.payload in disliked:
            raise ValueError(f"cannot handle {item.payload}")

    return call


@pytest.mark.parametrize("kind", KINDS)
async def test_effects_of_a_consumer_commit_with_its_cursor(bench: Bench, conn: Connection, kind: str) -> None:
    """Event 3 fails after its effect, event 13 by the database: both become dead letters, all others have their effect once."""
    topic(conn)
    fill(conn, 14)
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)
    app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=1))(failing(sessions.handler, 3))
    runner = await bench.runner(app)
    await run_dry(runner)
    assert bench.effects() == [n for n in range(1, 15) if n not in (3, 13)]
    letters = [(letter.payload, letter.attempts) for letter in list_dead_letters(conn)]
    assert letters == [(3, 1), (13, 1)]
    assert consumer_lag(conn)[0].lag_events == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_effects_of_an_action_commit_with_its_ack(bench: Bench, conn: Connection, kind: str) -> None:
    for n in range(1, 15):
        send_action(conn, "work", n)
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)
    app.handler("work", attempts=2, backoff_s=0.001, backoff_max_s=0.001)(failing(sessions.handler, 3))
    worker = bench.worker(app)
    for _ in range(3):
        make_due(conn)
        await run_worker_dry(worker)
    assert bench.effects() == [n for n in range(1, 15) if n not in (3, 13)]
    assert sorted((letter.payload, letter.attempts) for letter in list_dead_letters(conn)) == [(3, 2), (13, 2)]
    assert conn.execute("select count(*) from pgmq.q_hr_default").fetchone() == (0,)


async def commit(_event: object, session: AsyncSession) -> None:
    await session.commit()


async def begin(_event: object, session: AsyncSession) -> None:
    async with session.begin():
        await session.execute(select(1))


async def commit_below(_event: object, session: AsyncSession) -> None:
    await (await session.connection()).commit()


async def roll_back(_event: object, session: AsyncSession) -> None:
    await session.rollback()


async def close(_event: object, session: AsyncSession) -> None:
    await session.close()


async def commit_inside(_event: object, session: AsyncSession) -> None:
    await session.run_sync(lambda inner: inner.commit())


def commit_sync(_event: object, session: Session) -> None:
    session.commit()


def roll_back_sync(_event: object, session: Session) -> None:
    session.rollback()


def commit_django(_event: object, connection: BaseDatabaseWrapper) -> None:
    connection.commit()


def roll_back_django(_event: object, _connection: BaseDatabaseWrapper) -> None:
    from django.db import transaction

    transaction.rollback()


ENDS = [
    commit,
    begin,
    commit_inside,
    commit_below,
    roll_back,
    close,
    commit_sync,
    roll_back_sync,
    commit_django,
    roll_back_django,
]


@pytest.mark.parametrize("own_engine", [False, True])
async def test_handler_that_ends_its_session_has_failed_and_its_name_is_in_the_error(
    bench: Bench, conn: Connection, own_engine: bool
) -> None:
    django_effect(bench.database.dsn)
    options = {True: bench.sessions("async_sessionmaker-asyncpg").option, False: bench.sessions("sessionmaker").option}
    for number, handler in enumerate(ENDS):
        topic(conn, f"t{number}")
        fill(conn, 1, topic=f"t{number}")
        is_async = handler.__name__ in {"commit", "begin", "commit_inside", "commit_below", "roll_back", "close"}
        app = Headrace(session=options[is_async] if own_engine else None)
        app.consumer(f"t{number}", name="c", failure=Failure.stop())(handler)
        await run_dry(await bench.runner(app))
        (lag,) = consumer_lag(conn, topic=f"t{number}")
        assert (lag.state, lag.lag_events) == ("stopped", 1), handler
        last_line = (lag.error or "").strip().splitlines()[-1]
        assert "Conflict" in last_line, (handler, lag.error)
        if handler is not commit_below:  # There the connection knows no handler.
            assert f"handler tests.integrations.test_sessions.{handler.__name__} called" in last_line


async def test_begin_nested_keeps_a_handler_alive_after_a_database_error(bench: Bench, conn: Connection) -> None:
    topic(conn)
    fill(conn, 14)
    app = Headrace()

    @app.consumer("orders", name="c", failure=Failure.stop())
    async def handle(event: Any, session: AsyncSession) -> None:
        try:
            async with session.begin_nested():
                session.add(Effect(n=event.payload))
        except IntegrityError:
            session.add(Effect(n=-event.payload))

    await run_dry(await bench.runner(app))
    assert bench.effects() == [-13, *range(1, 13), 14]


async def test_error_that_a_handler_swallows_without_begin_nested_is_a_failure(bench: Bench, conn: Connection) -> None:
    topic(conn)
    fill(conn, 13)
    app = Headrace()

    @app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=1))
    async def handle(event: Any, session: AsyncSession) -> None:
        session.add(Effect(n=event.payload))
        try:
            await session.flush()
        except IntegrityError:
            return

    await run_dry(await bench.runner(app))
    assert bench.effects() == list(range(1, 13))
    assert [letter.payload for letter in list_dead_letters(conn)] == [13]


async def test_django_atomic_is_a_savepoint_and_on_commit_runs_after_the_commit(bench: Bench, conn: Connection) -> None:
    model = django_effect(bench.database.dsn)
    topic(conn)
    fill(conn, 14)
    app = Headrace(session="django")
    counts: list[int] = []

    @app.consumer("orders", name="c", failure=Failure.stop())
    def handle(event, _connection) -> None:  # type: ignore[no-untyped-def]
        from django.db import transaction
        from django.db.utils import IntegrityError

        transaction.on_commit(lambda: counts.append(conn.execute("select count(*) from effect").fetchone()[0]))  # type: ignore[index]
        try:
            with transaction.atomic():
                model.objects.create(n=event.payload)
        except IntegrityError:
            model.objects.create(n=-event.payload)

    await run_dry(await bench.runner(app))
    assert bench.effects() == [-13, *range(1, 13), 14]
    assert counts == [14] * 14


async def test_django_reads_times_right_on_a_connection_with_another_time_zone(bench: Bench, conn: Connection) -> None:
    django_effect(bench.database.dsn)
    topic(conn)
    fill(conn, 1)
    conn.execute(f"alter database {conn.info.dbname} set timezone = 'Asia/Kolkata'")
    app = Headrace(session="django")
    times: list[datetime] = []

    @app.consumer("orders", name="c", failure=Failure.stop())
    def handle(_event, connection) -> None:  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.execute("select '2026-01-31T12:00:00Z'::timestamptz")
            times.append(cursor.fetchone()[0])

    await run_dry(await bench.runner(app))
    assert [time.astimezone(UTC) for time in times] == [datetime(2026, 1, 31, 12, tzinfo=UTC)]


async def test_handlers_of_one_action_share_a_transaction_through_different_sessions(bench: Bench, conn: Connection) -> None:
    django_effect(bench.database.dsn)
    app = Headrace()
    counts: list[int] = []

    @app.handler("work", attempts=1)
    async def first(action: Any, session: AsyncSession) -> None:
        session.add(Effect(n=action.payload))

    @app.handler("work", attempts=1)
    def second(_action: Any, session: Session) -> None:
        counts.append(len(session.scalars(select(Effect)).all()))

    @app.handler("work", attempts=1)
    def third(_action: Any, _connection: BaseDatabaseWrapper) -> None:
        counts.append(django_effect("").objects.count())

    @app.handler("work", attempts=1)
    async def fourth(action: Any, tx: psycopg.AsyncConnection) -> None:
        counts.append((await (await tx.execute("select count(*) from effect")).fetchone() or (0,))[0])
        if action.payload == 2:
            raise ValueError("no")

    send_action(conn, "work", 1)
    send_action(conn, "work", 2)
    await run_worker_dry(bench.worker(app))
    assert counts == [1, 1, 1, 2, 2, 2]
    assert bench.effects() == [1]


def test_wrong_session_is_rejected_when_the_handler_is_registered() -> None:
    app = Headrace()
    with pytest.raises(Invalid, match=r"handler .*plain is a plain function but gets sqlalchemy.AsyncSession; ask for .*Session"):

        @app.handler("work")
        def plain(_action: object, session: AsyncSession) -> None: ...

    with pytest.raises(Invalid, match=r"is an async function but gets sqlalchemy\.Session"):

        @app.consumer("orders")
        async def handle(_event: object, session: Session) -> None: ...

    for wrong in (5, scoped_session(sessionmaker()), Session(), AsyncSession()):
        with pytest.raises(Invalid, match=r"session=.* is not supported; give a class .*or sessionmaker"):
            Headrace(session=wrong)

    @app.handler("mixed")
    async def one(_action: object, conn: asyncpg.Connection) -> None: ...

    with pytest.raises(Conflict, match="need sessions of one connection"):

        @app.handler("mixed")
        async def two(_action: object, session: AsyncSession) -> None: ...


async def _node_error(app: Headrace, database: Target) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        async with asyncio.timeout(20):
            await Node(app, [database]).run()
    return caught.value


async def test_engine_of_another_database_is_rejected_at_the_start(
    bench: Bench, conn: Connection, server: Server, lane: str
) -> None:
    topic(conn)
    for other_is_migrated in (False, True):
        with own_database(server, "elsewhere") as other:
            if other_is_migrated:
                with connect(other) as there:
                    migrate(there)
            engine = create_async_engine(other.dsn.replace("postgresql://", "postgresql+psycopg://"))
            app = Headrace(session=async_sessionmaker(engine))

            @app.consumer("orders")
            async def handle(_event: object, session: AsyncSession) -> None: ...

            error = await _node_error(app, bench.database)
            await engine.dispose()
        assert "but its handlers run on" in str(error)
        assert ("another database" if other_is_migrated else "without headrace") in str(error)


@pytest.mark.timeout(120)
async def test_engine_of_a_copied_server_is_rejected_at_the_start() -> None:
    """A server started from a snapshot of the disk has the identifier, the timeline and the databases of the first."""
    first, copy = Server(temporary_folder(in_memory=True), settings=FAST), Server(temporary_folder(in_memory=True), settings=FAST)
    try:
        first.start()
        with connect(Target("main", first.dsn())) as conn:
            migrate(conn)
            topic(conn)
        first.stop()
        copy.folder.rmdir()
        shutil.copytree(first.folder, copy.folder)
        for path in (copy.folder, *copy.folder.rglob("*")):
            shutil.chown(path, first.data.owner())
        for server in (first, copy):
            server.start()
        engine = create_async_engine(copy.dsn().replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
        app = Headrace(session=async_sessionmaker(engine))

        @app.consumer("orders")
        async def handle(_event: object, session: AsyncSession) -> None: ...

        assert "another database" in str(await _node_error(app, Target("main", first.dsn())))
    finally:
        first.delete()
        copy.delete()


@pytest.mark.parametrize("form", ["class", "sessionmaker"])
async def test_session_class_that_chooses_engines_itself_stays_in_the_transaction(
    bench: Bench, conn: Connection, server: Server, form: str
) -> None:
    """As in applications with replicas, and in Flask-SQLAlchemy: what it did elsewhere would be committed without the cursor."""
    with own_database(server) as elsewhere, connect(elsewhere) as other:
        other.execute(CREATE)
        engine = create_engine(elsewhere.dsn.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)

        class RoutingSession(Session):
            def get_bind(self, *_arguments: object, **_options: object) -> Engine:
                return engine

        class AsyncRoutingSession(AsyncSession):
            sync_session_class = RoutingSession

        own = create_async_engine(bench.database.dsn.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)
        maker = async_sessionmaker(own, class_=AsyncRoutingSession)
        app = Headrace(session=AsyncRoutingSession if form == "class" else maker)
        topic(conn)
        fill(conn, 1)
        app.consumer("orders", name="c")(by_app)
        await run_dry(await bench.runner(app))
        assert bench.effects() == [1]
        assert other.execute("select count(*) from effect").fetchone() == (0,)


async def test_engine_of_an_unsupported_kind_is_rejected_with_advice(bench: Bench, conn: Connection) -> None:
    topic(conn)
    autocommit = create_engine(
        bench.database.dsn.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    for maker, message in [
        (sessionmaker(autocommit), "AUTOCOMMIT mode"),
        (sessionmaker(create_engine("sqlite://")), "driver pysqlite"),
        (sessionmaker(), "has no engine of its own"),
    ]:
        app = Headrace(session=maker)

        @app.consumer("orders")
        def handle(_event: object, session: Session) -> None: ...

        assert message in str(await _node_error(app, bench.database))


@pytest.mark.parametrize("kind", ["AsyncSession", "async_sessionmaker-psycopg", "async_sessionmaker-asyncpg", "asyncpg"])
async def test_connection_lost_in_a_handler_is_no_failed_attempt(bench: Bench, conn: Connection, kind: str) -> None:
    topic(conn)
    fill(conn, 2)
    sessions = bench.sessions(kind)
    kills = [True]

    async def kill(event: Any, session: Any) -> None:
        await sessions.handler(event, session)  # type: ignore[misc]
        if kills and kills.pop():
            statement = "select pg_terminate_backend(pg_backend_pid())"
            await session.execute(text(statement) if isinstance(session, AsyncSession) else statement)

    kill.__annotations__ = {}
    app = Headrace(session=sessions.option or {"AsyncSession": AsyncSession, "asyncpg": asyncpg.Connection}[kind])
    app.consumer("orders", name="c", failure=Failure.stop())(kill)
    runner = await bench.runner(app)
    with pytest.raises(psycopg.OperationalError):
        await runner.handle_once()
    await run_dry(runner)
    assert bench.effects() == [1, 2]
