"""Through a real PgBouncer in transaction mode: applications work, nodes refuse, and nothing of a session reaches another client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from headrace.actions import group_dead_letters, list_dead_letters, list_results, queue_state, send_action
from headrace.consume import Consumer, consumer_lag, create_consumer, drop_consumer, seek_consumer
from headrace.core import Event, LoggedEvent, TransactionPooler
from headrace.db import AsyncConnection, Connection, StopSignal, Target, connect, connect_async, is_pooled, migrate
from headrace.db.pooler import refuse_transaction_pooler_async
from headrace.log.archive import archive_topic
from headrace.log.outbox import capture, publish, publish_many, release_capture
from headrace.log.topics import alter_topic, create_topic, drop_topic, follow_log, list_topics, maintain_log, read_log, sequence
from headrace.node import Headrace, Node
from headrace.rules import Rule, alter_rule, create_rule, drop_rule, list_rules
from headrace.schedules import create_schedule, drop_schedule, list_schedules, pause_schedule
from headrace.spark import event_schema
from headrace.spark.source import EventReader, SourceOptions
from headrace.testing import Kit
from tests.builders import drain, fill, numbers, topic, wait_until
from tests.drivers.callers import CALLERS
from tests.spark.reading import secret_file

TRACES = """
    select 'setting ' || name || ' = ' || setting from pg_settings where source = 'session'
        and name not in ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')
    union all select 'role ' || current_user where current_user <> session_user
    union all select 'listen ' || c from pg_listening_channels() c
    union all select 'prepared ' || name from pg_prepared_statements
    union all select 'lock ' || objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'temporary ' || relname from pg_class where relnamespace = pg_my_temp_schema()"""
"""What a client leaves on its server connection. PgBouncer itself sets the five settings for each client."""


def traces(pooled: Target) -> list[str]:
    """What another client sees on the server connection."""
    with psycopg.connect(pooled.dsn, autocommit=True, prepare_threshold=None) as neighbour:
        return [str(row[0]) for row in neighbour.execute(TRACES).fetchall()]


def orders(conn: Connection, first: int, last: int) -> None:
    publish_many(conn, [Event(topic="orders", type="placed", payload={"n": n}, key=f"k{n % 3}") for n in range(first, last + 1)])


async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
    """Nobody calls it."""


MAILS = Consumer(topic="orders", name="mails", handler=handle)
CALLS: dict[str, Callable[[Connection], object]] = {
    "create topic": lambda conn: create_topic(conn, "orders", partitions=3),
    "alter topic": lambda conn: alter_topic(conn, "orders", partitions=4),
    "publish": lambda conn: publish(conn, "orders", "placed", {"n": 0}, key="k"),
    "publish many": lambda conn: orders(conn, 1, 500),
    "create rule": lambda conn: create_rule(
        conn, Rule(name="big", topic="orders", event_type="placed", condition="(object->>'n')::int > 10", action="notify")
    ),
    "sequence": drain,
    "maintain": maintain_log,
    "list rules": list_rules,
    "alter rule": lambda conn: alter_rule(
        conn, Rule(name="big", topic="orders", event_type="placed", condition="(object->>'n')::int > 20", action="notify")
    ),
    "drop rule": lambda conn: drop_rule(conn, "big"),
    "schedule": lambda conn: create_schedule(conn, "nightly", cron="0 3 * * *", topic="orders", type="tick"),
    "list schedules": list_schedules,
    "pause schedule": lambda conn: pause_schedule(conn, "nightly"),
    "drop schedule": lambda conn: drop_schedule(conn, "nightly"),
    "create consumer": lambda conn: create_consumer(conn, MAILS),
    "lag": consumer_lag,
    "seek": lambda conn: seek_consumer(conn, "orders", "mails", "earliest"),
    "claim": lambda conn: conn.execute(
        "select count(*) from headrace.claim((select consumer_id from headrace.consumer where consumer = 'mails'), 10)"
    ),
    "drop consumer": lambda conn: drop_consumer(conn, "orders", "mails"),
    "read": lambda conn: read_log(conn, "orders", limit=10),
    "follow": lambda conn: list(follow_log(conn, "orders", after=400, wait_s=0)),
    "list topics": list_topics,
    "send action": lambda conn: send_action(conn, "notify", {"n": 1}),
    "queue": queue_state,
    "results": lambda conn: list_results(conn, []),
    "dead letters": list_dead_letters,
    "groups": group_dead_letters,
    "capture": lambda conn: capture(conn, "stock", "orders", insert_type="placed", operations=["insert"]),
    "release": lambda conn: release_capture(conn, "stock"),
    "drop topic": lambda conn: drop_topic(conn, "orders", force=True),
    "migrate": migrate,
}


def test_calls_of_an_application_leave_nothing_on_the_server_connection(conn: Connection, shared_backend: Target) -> None:
    conn.execute("create table public.stock (id integer primary key)")
    assert traces(shared_backend) == []
    with connect(shared_backend) as pooled:
        for name, call in CALLS.items():
            # Often enough for psycopg to prepare a statement that is read again.
            for _ in range(7 if name.startswith(("list", "read", "publish", "lag", "results")) else 1):
                call(pooled)
            assert (name, traces(shared_backend)) == (name, [])
        with pytest.raises(psycopg.Error), pooled.transaction():
            pooled.execute("select headrace.publish('none', 'placed')")
    assert traces(shared_backend) == []


def test_neighbour_would_see_a_setting_of_the_session(shared_backend: Target) -> None:
    """The check itself can fail."""
    with psycopg.connect(shared_backend.dsn, autocommit=True) as other:
        other.execute("set enable_seqscan = off")
        other.execute("listen somewhere")
    assert sorted(traces(shared_backend)) == ["listen somewhere", "setting enable_seqscan = off"]
    with psycopg.connect(shared_backend.dsn, autocommit=True) as other:
        other.execute("discard all")


def test_search_path_of_the_caller_stays_after_a_topic_was_created(shared_backend: Target) -> None:
    """pg_partman sets it for the session."""
    with psycopg.connect(shared_backend.dsn, autocommit=True) as other:
        before = other.execute("show search_path").fetchone()
        other.execute("select headrace.create_topic('paths')")
        assert other.execute("show search_path").fetchone() == before
    assert traces(shared_backend) == []


def test_every_call_works_on_backends_that_change(transaction_pooler: Target, conn: Connection) -> None:
    """Three backends in turn: a statement prepared on one is unknown to the next."""
    conn.execute("create table public.stock (id integer primary key)")
    with connect(transaction_pooler) as pooled:
        assert is_pooled(pooled) and not is_pooled(conn)
        for call in CALLS.values():
            call(pooled)
        topic(pooled)
        for n in range(12):
            publish(pooled, "orders", "placed", n)
        drain(pooled)
        assert numbers(conn) == list(range(12))


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("name", [name for name in CALLERS if "asyncpg" not in name])
async def test_publishing_works_through_every_driver(name: str, transaction_pooler: Target, conn: Connection) -> None:
    """As the drivers' manuals advise for poolers: without prepared statements of their own."""
    topic(conn)
    for number in range(3):
        # The form in which SQLAlchemy and asyncpg take an address too.
        parts = conninfo_to_dict(transaction_pooler.dsn)
        dsn = "postgresql://{user}@{host}:{port}/{dbname}".format(**parts)
        async with CALLERS[name](dsn) as caller:
            await caller.one(Event(topic="orders", type="placed", payload=number * 100))
            await caller.many([Event(topic="orders", type="placed", payload=number * 100 + n) for n in range(1, 50)])
            await caller.finish(True)
    drain(conn)
    assert numbers(conn) == [number * 100 + n for number in range(3) for n in range(50)]


@pytest.mark.lane("pg18")
async def test_publishing_with_asyncpg(transaction_pooler: Target, conn: Connection) -> None:
    import asyncpg

    from headrace.log.outbox import publish_async, publish_many_async

    topic(conn)
    parts = conninfo_to_dict(transaction_pooler.dsn)
    own = await asyncpg.connect("postgresql://{user}@{host}:{port}/{dbname}".format(**parts), statement_cache_size=0)
    try:
        for n in range(10):
            await publish_async(own, "orders", "placed", n)
        await publish_many_async(own, [Event(topic="orders", type="placed", payload=n) for n in range(10, 60)])
    finally:
        await own.close()
    drain(conn)
    assert numbers(conn) == list(range(60))


@pytest.mark.lane("pg18")
async def test_application_whose_engine_goes_through_a_pooler_is_on_the_same_database(
    transaction_pooler: Target, database: Target, conn: Connection
) -> None:
    topic(conn)
    conn.execute("create table handled (key text)")
    port = conninfo_to_dict(transaction_pooler.dsn)["port"]
    dsn = f"postgresql+psycopg://postgres@localhost:{port}/{conninfo_to_dict(database.dsn)['dbname']}"
    engine = create_async_engine(dsn, poolclass=NullPool, connect_args={"prepare_threshold": None})
    app = Headrace(session=async_sessionmaker(engine))

    @app.consumer("orders")
    async def mail(event: LoggedEvent, session: AsyncSession) -> None:
        await session.execute(text("insert into handled values (:key)"), {"key": event.key})

    with Kit(database) as kit:
        orders(conn, 1, 3)
        assert (await kit.run_until_idle(app)).failures == 0
    assert sorted(conn.execute("select key from handled").fetchall()) == [("k0",), ("k1",), ("k2",)]


@pytest.mark.lane("pg18")
async def test_embedded_node_refuses_a_transaction_pooler(transaction_pooler: Target, shared_backend: Target) -> None:
    for pooled in (transaction_pooler, shared_backend):
        with pytest.raises(TransactionPooler, match="give the address of PostgreSQL itself"):
            async with Headrace().running([pooled]):
                pytest.fail("the block must not start")
        assert traces(pooled) == []


@pytest.mark.lane("pg18")
async def test_node_refuses_a_transaction_pooler_at_once(
    transaction_pooler: Target, shared_backend: Target, session_pooler: Target, database: Target
) -> None:
    for pooled in (transaction_pooler, shared_backend):
        async with asyncio.timeout(30):
            with pytest.raises(TransactionPooler, match="give the address of PostgreSQL itself"):
                await Node(Headrace(), [pooled]).run()
        assert traces(pooled) == []
    for target in (session_pooler, database):
        node = Node(Headrace(), [target])
        task = asyncio.create_task(node.run())
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(has_node, database):
                await asyncio.sleep(0.02)
        node.stop()
        await task


def has_node(database: Target) -> bool:
    with connect(database) as conn:
        row = conn.execute("delete from headrace_internal.node returning node_id").fetchone()
        return row is not None


@pytest.mark.lane("pg18")
async def test_busy_transaction_pooler_is_recognised(transaction_pooler: Target) -> None:
    """Other clients take and return the backends all the time."""
    stop = StopSignal()

    async def neighbour() -> None:
        async with await connect_async(transaction_pooler) as conn:
            while not stop.is_set():
                await conn.execute("select 1", prepare=False)

    neighbours = [asyncio.create_task(neighbour()) for _ in range(4)]
    for _ in range(10):
        async with await connect_async(transaction_pooler) as first, await connect_async(transaction_pooler) as second:
            with pytest.raises(TransactionPooler):
                await refuse_transaction_pooler_async(first, second, "a node")
    stop.set()
    await asyncio.gather(*neighbours)


@pytest.mark.lane("pg18")
def test_archive_refuses_a_transaction_pooler(transaction_pooler: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    with pytest.raises(TransactionPooler, match="the archive of"):
        list(archive_topic(transaction_pooler, "orders", folder=tmp_path))


@pytest.mark.lane("pg18")
def test_follower_behind_a_pooler_sees_later_events(transaction_pooler: Target, conn: Connection) -> None:
    topic(conn)
    fill(conn, 2)
    with connect(transaction_pooler) as pooled:
        events = follow_log(pooled, "orders", after=0)
        assert [next(events).payload for _ in range(2)] == [1, 2]
        publish(conn, "orders", "placed", 3)
        sequence(conn)
        assert next(events).payload == 3
    assert traces(Target("main", make_conninfo(transaction_pooler.dsn))) == []


@pytest.mark.lane("pg18")
def test_source_of_spark_reads_through_a_pooler(shared_backend: Target, conn: Connection, tmp_path: Path) -> None:
    """Its connections are kept for the next split, and each split sets what it needs for its own transaction."""
    topic(conn)
    fill(conn, 30)
    secret = secret_file(tmp_path, shared_backend)
    reader = EventReader(
        SourceOptions.from_options({"secret": secret, "subscribe": "orders", "minPartitions": "3"}), event_schema()
    )
    for split in reader.partitions() * 3:
        assert sum(batch.num_rows for batch in reader.read(split)) == 10
        assert traces(shared_backend) == []


async def test_claim_of_a_client_that_dies_behind_a_transaction_pooler_is_lost(
    transaction_pooler: Target, conn: Connection
) -> None:
    """An application may claim by SQL: its transaction holds one server connection, which the pooler closes when the client is gone."""
    topic(conn)
    fill(conn, 2)
    create_consumer(conn, MAILS)
    claim = "select payload from headrace.claim_events((select consumer_id from headrace.consumer where consumer = 'mails'), 10, 1, 0, 1)"
    position = "select position, attempts, single_to from headrace.cursor where partition = 0"
    for _ in range(3):
        with connect(transaction_pooler) as healthy, healthy.transaction():
            assert len(healthy.execute(claim).fetchall()) == 3
    assert conn.execute(position).fetchone() == (0, 0, 0), "whoever gives up and commits has lost nothing"
    client = psycopg.connect(transaction_pooler.dsn, prepare_threshold=None)
    client.execute(claim)
    client.close()

    def is_recorded() -> bool:
        with connect(transaction_pooler) as healthy:
            healthy.execute(claim)
        return conn.execute(position).fetchone() == (0, 0, 2)

    wait_until(is_recorded, "the end of the server connection")
