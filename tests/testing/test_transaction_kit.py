"""The test kit inside the transaction of a test that is rolled back: with every kind of connection, and nothing stays behind."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from headrace.actions import Action
from headrace.core import Conflict, Event, Invalid, LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.node import Headrace
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.testing import Kit, TransactionKit
from tests.drivers.callers import CALLERS, Caller

pytestmark = pytest.mark.lane("pg18")

LATE = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"


@pytest.fixture
def shop(conn: Connection) -> Headrace:
    """A committed schema of an application, and the application."""
    create_topic(conn, "orders", partitions=2)
    conn.execute("create table done (what text)")
    create_rule(conn, Rule(name="large", topic="orders", event_type="placed", action="REVIEW", condition="(object)::int > 1"))
    app = Headrace()

    @app.consumer("orders")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values ('bill')")

    @app.handler("REVIEW")
    def review(action: Action, tx: Connection) -> None:
        tx.execute("insert into done values ('review')")

    return app


def everything(conn: Connection) -> list[tuple[object, ...]]:
    """All that a test might leave behind."""
    return conn.execute(
        """select (select count(*) from headrace_internal.outbox), (select count(*) from headrace_internal.log),
            (select count(*) from headrace_internal.firing), (select count(*) from headrace_internal.consumer),
            (select count(*) from headrace_internal.action_result), (select count(*) from headrace_internal.node),
            (select count(*) from done), (select count(*) from headrace_internal.rule_version where status = 'pending')"""
    ).fetchall()


@pytest.fixture(params=CALLERS)
async def caller(request: pytest.FixtureRequest, database: Target) -> AsyncIterator[Caller]:
    async with CALLERS[request.param](database.dsn) as open_caller:
        yield open_caller


async def test_everything_happens_in_the_open_transaction_and_is_rolled_back_with_it(
    shop: Headrace, conn: Connection, caller: Caller
) -> None:
    before = everything(conn)
    await caller.one(Event(topic="orders", type="placed", payload=2))
    try:
        kit = TransactionKit(caller.conn)
    except Invalid as error:
        assert "asyncpg" in str(error) and "headrace_kit" in str(error)
        pytest.skip("asyncpg cannot share its transaction with psycopg")
    except Conflict as error:
        assert "pipeline" in str(error)
        pytest.skip("a pipeline cannot be shared")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counts = await kit.run_until_idle(shop)
    assert (counts.sequenced, counts.fired, counts.handled, counts.actions, counts.failures) == (1, 1, 1, 1, 0)
    assert [event.payload for event in kit.events("orders")] == [2]
    assert [(action.action, action.state, action.payload) for action in kit.actions()] == [("REVIEW", "done", 2)]
    assert [firing.rule for firing in kit.firings()] == ["large"]
    await caller.one(Event(topic="orders", type="placed", payload=1))
    assert (await kit.run_until_idle(shop)).handled == 1, "the transaction can still be used"
    assert everything(conn) == before, "nobody else sees any of it"
    await caller.finish(False)
    assert everything(conn) == before
    with pytest.raises(Conflict, match="no transaction is open"):
        kit.events("orders")


def test_sync_test_with_a_sync_connection(shop: Headrace, database: Target) -> None:
    with psycopg.connect(database.dsn) as own:
        publish(own, "orders", "placed", 2)
        kit = TransactionKit(own)
        assert kit.run_until_idle_sync(shop).actions == 1
        assert own.execute("select what from done order by what").fetchall() == [("bill",), ("review",)]
        own.rollback()


async def test_connection_without_a_transaction_is_refused(shop: Headrace, database: Target) -> None:
    """Otherwise every step would commit for real, in the database that the test wants to leave as it was."""
    with psycopg.connect(database.dsn, autocommit=True) as own:
        publish(own, "orders", "placed", 2)
        with pytest.raises(Conflict, match="no transaction is open"):
            TransactionKit(own)
        with own.transaction():
            TransactionKit(own)
            with pytest.raises(psycopg.Error):
                own.execute("select 1 / 0")
            with pytest.raises(Conflict, match="aborted"):
                TransactionKit(own)
            raise psycopg.Rollback


async def test_failed_handler_leaves_the_transaction_usable_and_is_retried_on_the_moved_clock(
    shop: Headrace, database: Target
) -> None:
    app, attempts = Headrace(), []

    @app.handler("REVIEW", attempts=2)
    async def review(action: Action, tx: AsyncConnection) -> None:
        attempts.append(action.attempt)
        await tx.execute("select 1 / 0")

    with psycopg.connect(database.dsn) as own:
        kit = TransactionKit(_in_transaction(own))
        kit.send_action("REVIEW")
        await kit.run_until_idle(app)
        kit.advance(hours=1)
        await kit.run_until_idle(app)
        assert attempts == [1, 2]
        assert [letter.reason for letter in kit.dead_letters()] == ["failed"]
        own.rollback()
        shift = own.execute("select headrace.clock() - statement_timestamp() < '1 s'").fetchone()
        assert shift == (True,), "the clock is moved for the transaction only"


async def test_timers_and_schedules_fire_inside_the_transaction(shop: Headrace, conn: Connection, database: Target) -> None:
    late = Correlator(name="late", topic="orders", key="key", pattern=LATE, outputs={"late": ActionOutput(action="REVIEW")})
    create_correlator(conn, late)
    create_schedule(conn, "nightly", cron="0 3 * * *", topic="orders", type="night")
    with psycopg.connect(database.dsn) as own:
        kit = TransactionKit(_in_transaction(own))
        kit.publish("orders", "departed", 1, key="lh1")
        await kit.run_until_idle(shop)
        kit.advance(days=2)
        await kit.run_until_idle(shop)
        assert [output.token for output in kit.outputs()] == ["late"]
        assert len(kit.events("orders", type="night")) == 2
        own.rollback()
    assert conn.execute("select count(*) from headrace.correlation").fetchone() == (0,)


async def test_notices_reach_the_callers_own_handlers_afterwards(shop: Headrace, database: Target) -> None:
    notices: list[str | None] = []
    with psycopg.connect(database.dsn) as own:
        own.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        kit = TransactionKit(_in_transaction(own))
        await kit.run_until_idle(shop)
        own.execute("do $$ begin raise notice 'hello'; end $$")
        own.rollback()
    assert notices[-1:] == ["hello"]


async def test_kit_dispatches_a_transaction_of_the_application(shop: Headrace, database: Target) -> None:
    with Kit(database) as kit, psycopg.connect(database.dsn) as own:
        publish(own, "orders", "placed", 2)
        transaction = await kit.dispatch(own, shop)
        assert len(transaction.actions("REVIEW", state="done")) == 1
        own.rollback()
        assert kit.actions() == [] and kit.events("orders") == []


class Base(DeclarativeBase):
    """The tables of the application."""


class Done(Base):
    __tablename__ = "done"
    what: Mapped[str] = mapped_column(primary_key=True)


def test_sqlalchemy_session_in_the_popular_pattern(shop: Headrace, conn: Connection, database: Target) -> None:
    """Each test in an outer transaction; what the application commits is a savepoint."""
    engine = sqlalchemy.create_engine(database.dsn.replace("postgresql://", "postgresql+psycopg://"))
    app = Headrace()

    @app.on("placed", topic="orders")
    def rename(action: Action, tx: Connection) -> None:
        tx.execute("update done set what = 'after' where what = 'before'")

    with engine.connect() as outer:
        transaction = outer.begin()
        with Session(bind=outer, join_transaction_mode="create_savepoint") as session:
            session.add(Done(what="before"))
            publish(session, "orders", "placed", 1)
            session.commit()
            session.add(Done(what="not flushed yet"))
            TransactionKit(session).run_until_idle_sync(app)
            assert sorted(session.scalars(sqlalchemy.select(Done.what))) == ["after", "not flushed yet"]
        transaction.rollback()
    engine.dispose()
    assert conn.execute("select count(*) from done").fetchone() == (0,)


async def test_handler_that_ends_the_callers_transaction_is_refused(shop: Headrace, database: Target) -> None:
    app = Headrace()

    @app.consumer("orders", name="committer")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.commit()

    with psycopg.connect(database.dsn) as own:
        publish(own, "orders", "placed", 1)
        kit = TransactionKit(own)
        assert (await kit.run_until_idle(app)).failures == 1
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        own.rollback()


def _in_transaction(conn: psycopg.Connection[tuple[object, ...]]) -> psycopg.Connection[tuple[object, ...]]:
    conn.execute("select 1")
    return conn


def test_run_leaves_no_task_behind(shop: Headrace, database: Target) -> None:
    with psycopg.connect(database.dsn) as own:
        publish(own, "orders", "placed", 2)

        async def run() -> set[asyncio.Task[object]]:
            await TransactionKit(own).run_until_idle(shop)
            return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

        assert asyncio.run(run()) == set()
        own.rollback()
