"""The test kit in a database of its own: everything runs to idle in the test, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from headrace.actions import Action
from headrace.consume import Batch, Failure
from headrace.core import Invalid, LoggedEvent, NotIdle
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Server, Target
from headrace.log.outbox import publish, publish_async
from headrace.log.topics import create_topic
from headrace.node import Headrace
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.testing import Kit, TransactionKit, make_action, make_event
from tests.builders import own_database

pytestmark = pytest.mark.lane("pg18")

LATE = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"


@pytest.fixture
def kit(database: Target) -> Iterator[Kit]:
    with Kit(database) as own:
        create_topic(own.conn, "orders", partitions=2)
        own.conn.execute("create table done (what text)")
        yield own


def done(kit: Kit) -> list[str]:
    return [what for (what,) in kit.conn.execute("select what from done order by ctid")]


def shop() -> Headrace:
    """A consumer, a handler of an event type, and one of the action of a rule, async and sync."""
    app = Headrace()

    @app.consumer("orders")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values ('bill ' || %s)", (event.key,))

    @app.on("paid", topic="orders")
    def ship(action: Action, tx: Connection) -> None:
        tx.execute("insert into done values ('ship ' || %s)", (action.key,))
        publish(tx, "orders", "shipped", key=action.key)

    @app.handler("REVIEW")
    async def review(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values ('review ' || %s)", (action.key,))

    return app


LARGE = Rule(name="large", topic="orders", event_type="placed", action="REVIEW", condition="(object ->> 'total')::int > 100")


@pytest.mark.lane("pg18", "pg15")
async def test_one_run_handles_what_handlers_cause_in_turn(kit: Kit) -> None:
    create_rule(kit.conn, LARGE)
    kit.publish("orders", "placed", {"total": 200}, key="a")
    kit.publish("orders", "paid", key="a")
    counts = await kit.run_until_idle(shop())
    assert sorted(done(kit)) == ["bill a", "bill a", "bill a", "review a", "ship a"]
    assert [event.type for event in kit.events("orders")] == ["placed", "paid", "shipped"]
    assert (counts.sequenced, counts.handled, counts.actions, counts.failures) == (3, 3, 2, 0)
    assert [(firing.rule, firing.action) for firing in kit.firings("large")] == [("large", "REVIEW")]
    [review] = kit.actions("REVIEW")
    assert (review.state, review.payload, review.key, review.attempts) == ("done", {"total": 200}, "a", 1)
    assert (await kit.run_until_idle(shop())).handled == 0, "a second run finds nothing"


def test_sync_run_is_the_same(kit: Kit) -> None:
    kit.publish("orders", "paid", key="a")
    kit.run_until_idle_sync(shop())
    assert sorted(done(kit)) == ["bill a", "bill a", "ship a"]


async def test_sync_run_inside_an_event_loop_says_what_to_write(kit: Kit) -> None:
    with pytest.raises(Invalid, match=r"await kit\.run_until_idle"):
        kit.run_until_idle_sync(shop())


async def test_failed_action_is_retried_when_the_clock_has_moved_and_buried_in_the_end(kit: Kit) -> None:
    app = Headrace()

    @app.handler("SEND", attempts=2)
    async def send(action: Action, tx: AsyncConnection) -> None:
        raise ValueError("no connection to the mail server")

    kit.send_action("SEND", {"to": "x"})
    assert (await kit.run_until_idle(app)).failures == 1
    assert (await kit.run_until_idle(app)).failures == 0, "the pause is not over"
    [action] = kit.actions(state="retrying")
    assert action.attempts == 1 and kit.dead_letters() == []
    kit.advance(minutes=5)
    await kit.run_until_idle(app)
    [letter] = kit.dead_letters()
    assert letter.name == "SEND" and "mail server" in str(letter.error)
    assert [(action.state, action.payload) for action in kit.actions()] == [("dead", {"to": "x"})]


async def test_failed_event_becomes_a_dead_letter(kit: Kit) -> None:
    app = Headrace()

    @app.consumer("orders", failure=Failure.dead_letter(attempts=1))
    def bill(event: LoggedEvent, tx: Connection) -> None:
        tx.execute("select 1 / 0")

    kit.publish("orders", "placed", key="a")
    await kit.run_until_idle(app)
    assert [(letter.kind, letter.source) for letter in kit.dead_letters()] == [("event", "orders/bill")]


async def test_timer_of_a_correlator_fires_when_the_clock_is_moved_past_it(kit: Kit) -> None:
    late = Correlator(name="late", topic="orders", key="key", pattern=LATE, outputs={"late": ActionOutput(action="LATE")})
    create_correlator(kit.conn, late)
    app = Headrace()
    kit.publish("orders", "departed", key="lh1")
    await kit.run_until_idle(app)
    kit.advance(seconds=9)
    await kit.run_until_idle(app)
    assert kit.outputs() == []
    kit.advance(seconds=2)
    await kit.run_until_idle(app)
    assert [(output.correlator, output.token, output.key) for output in kit.outputs("late")] == [("late", "late", "lh1")]
    assert [(action.action, action.state) for action in kit.actions()] == [("LATE", "queued")]


async def test_every_tick_of_a_schedule_fires_though_the_clock_jumps(kit: Kit) -> None:
    """Ticks that are late by more than the grace time count as missed, and `skip` is the default: the kit fires each at its time."""
    create_schedule(kit.conn, "nightly", cron="0 3 * * *", topic="orders", type="night")
    assert (await kit.run_until_idle(Headrace())).scheduled == 0
    kit.advance(hours=48)
    assert (await kit.run_until_idle(Headrace())).scheduled == 2
    assert len(kit.events("orders", type="night")) == 2
    kit.advance(days=40)
    assert (await kit.run_until_idle(Headrace())).scheduled == 40, "beyond what was planned ahead"


async def test_moved_clock_is_that_of_the_applications_sessions_too(kit: Kit) -> None:
    with psycopg.connect(kit.dsn, autocommit=True) as application:
        before = application.execute("select headrace.clock()").fetchone()
        kit.advance(days=1)
        kit.advance(hours=1)
        after = application.execute("select headrace.clock()").fetchone()
        assert before and after and timedelta(hours=25) <= after[0] - before[0] < timedelta(hours=25, minutes=1)
        publish(application, "orders", "placed")
    await kit.run_until_idle(Headrace())
    [event] = kit.events("orders")
    assert event.emitted_at >= after[0]
    with pytest.raises(Invalid, match="forward only"):
        kit.advance(minutes=-1)


async def test_batch_waits_for_its_time_and_a_rate_does_not_hold_up_the_test(kit: Kit) -> None:
    app, batches = Headrace(), []

    @app.consumer("orders", batch=Batch(min=10, max=100, wait_s=60), ordered_by="topic")
    async def bill(events: list[LoggedEvent], tx: AsyncConnection) -> None:
        batches.append(len(events))

    @app.handler("SLOW", rate_per_s=0.001)
    async def slow(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values ('slow')")

    kit.publish("orders", "placed")
    for _ in range(3):
        kit.send_action("SLOW")
    await kit.run_until_idle(app)
    assert batches == [] and done(kit) == ["slow"] * 3
    kit.advance(seconds=61)
    await kit.run_until_idle(app)
    assert batches == [1]


async def test_consumer_of_the_latest_gets_what_comes_after_its_registration(kit: Kit) -> None:
    app, seen = Headrace(), []

    @app.consumer("orders", start="latest")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        seen.append(event.type)

    kit.publish("orders", "old")
    await kit.run_until_idle(Headrace())
    await kit.register(app)
    kit.publish("orders", "new")
    await kit.run_until_idle(app)
    assert seen == ["new"]


async def test_application_that_never_becomes_idle_is_reported(kit: Kit) -> None:
    app = Headrace()

    @app.consumer("orders")
    async def echo(event: LoggedEvent, tx: AsyncConnection) -> None:
        await publish_async(tx, "orders", "again")

    kit.publish("orders", "placed")
    with pytest.raises(NotIdle, match=r"not idle within 0.3 s \(\d+ sequenced, \d+ handled\)"):
        await kit.run_until_idle(app, timeout_s=0.3)


async def test_action_without_a_handler_stays_queued_and_is_buried_as_on_a_node(kit: Kit) -> None:
    kit.send_action("NOBODY")
    await kit.run_until_idle(Headrace())
    assert [action.state for action in kit.actions()] == ["queued"]
    kit.advance(seconds=11)
    assert (await kit.run_until_idle(Headrace())).buried == 1
    assert [letter.reason for letter in kit.dead_letters()] == ["no_handler"]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_application_with_an_engine_of_its_own_is_tested_on_the_tests_database_only(
    kit: Kit, server: Server, driver: str
) -> None:
    """Otherwise its sessions would consume events of the engine's database, and commit there."""
    new_session = async_sessionmaker()
    app = Headrace(session=new_session)

    @app.consumer("orders")
    async def bill(event: LoggedEvent, session: AsyncSession) -> None:
        await session.execute(text("insert into done values ('bill')"))

    @app.handler("REVIEW")
    async def review(action: Action, session: AsyncSession) -> None:
        await session.execute(text("insert into done values ('review')"))

    kit.publish("orders", "placed")
    kit.send_action("REVIEW")
    with own_database(server, template="headrace_template") as real, Kit(real) as real_kit:
        create_topic(real_kit.conn, "orders", partitions=2)
        real_kit.conn.execute("create table done (what text)")
        real_kit.publish("orders", "placed")
        engine = create_async_engine(real.dsn.replace("postgresql://", f"postgresql+{driver}://"))
        new_session.configure(bind=engine)
        for run in (kit.register, kit.run_until_idle):
            with pytest.raises(Invalid, match=r"another database.*docs/howto/testing\.md"):
                await run(app)
        assert done(real_kit) == []
        assert real_kit.conn.execute("select count(*) from headrace.consumer").fetchall() == [(0,)]
        await engine.dispose()
    engine = create_async_engine(kit.dsn.replace("postgresql://", f"postgresql+{driver}://"))
    new_session.configure(bind=engine)
    assert (await kit.run_until_idle(app)).failures == 0
    assert sorted(done(kit)) == ["bill", "review"]
    with psycopg.connect(kit.dsn) as own:
        own.execute("select 1")
        with pytest.raises(Invalid, match="see nothing of the test's transaction"):
            await TransactionKit(own).run_until_idle(app)
    await engine.dispose()


async def test_handler_with_a_connection_of_asyncpg_gets_one_to_the_tests_database(kit: Kit) -> None:
    app = Headrace()

    @app.consumer("orders")
    async def bill(event: LoggedEvent, tx: asyncpg.Connection[asyncpg.Record]) -> None:
        await tx.execute("insert into done values ('bill')")

    kit.publish("orders", "placed")
    assert (await kit.run_until_idle(app)).failures == 0
    assert done(kit) == ["bill"]


async def test_factories_make_what_a_handler_gets() -> None:
    event = make_event("placed", {"items": (1, 2)}, key="a")
    assert (event.type, event.payload, event.key, event.position) == ("placed", {"items": [1, 2]}, "a", 1)
    action = make_action("SEND", {"to": "x"}, attempt=3)
    assert (action.action, action.payload, action.attempt, action.namespace) == ("SEND", {"to": "x"}, 3, "default")
