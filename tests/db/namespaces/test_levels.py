"""What each level allows in its own namespace, and that levels of several namespaces stay apart."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.actions import redrive
from headrace.consume import Consumer, consumer_lag, create_consumer, drop_consumer, resume_consumer, seek_consumer
from headrace.core import Event, Forbidden, LoggedEvent, UnknownTopic
from headrace.db import AsyncConnection, Connection, Level, Target, connect, create_namespace, grant_namespace, migrate
from headrace.log.outbox import publish, publish_many
from headrace.log.topics import alter_topic, create_topic, drop_topic, list_topics, read_log
from headrace.node import Headrace, Node
from headrace.schedules import create_schedule, drop_schedule, list_ticks, pause_schedule, run_now
from tests.builders import drain
from tests.db.namespaces.conftest import SignIn, ids, ignore


def test_publisher_publishes_and_reads_nothing(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish")
    publish(role, "orders", "placed", {"n": 9}, headers={"trace": "x"})
    publish_many(role, [Event(topic="orders", type="placed", payload=n) for n in (10, 11)])
    drain(owner_conn)
    assert [event.payload for event in read_log(owner_conn, "orders", namespace="a")][3:] == [{"n": 9}, 10, 11]
    with pytest.raises(Forbidden, match="permission denied"):
        read_log(role, "orders")
    publish(role, "orders", "placed", {"n": 12})
    assert role.execute("select type, payload from headrace.outbox").fetchall() == [(None, None)]


@pytest.mark.parametrize("level", ["publish", "consume", "work", "admin"])
def test_no_level_writes_to_the_outbox_directly(owner_conn: Connection, sign_in: SignIn, level: Level) -> None:
    role, topic_id = sign_in(a=level), ids(owner_conn, "a")["topic_id"]
    for outbox in ("headrace.outbox", "headrace_internal.outbox"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
            role.execute(f"insert into {outbox} (topic_id, type, payload) values ({topic_id}, 'placed', '1')")


async def test_consumer_consumes_and_does_not_publish(owner_conn: Connection, sign_in: SignIn, database: Target) -> None:
    """A node of the role's own runs its consumers; sequencing is the owner's."""
    role = sign_in(a="consume")
    app, positions, done = Headrace(namespace="a"), [], asyncio.Event()

    @app.consumer("orders", name="other", ordered_by="topic")
    async def note(event: LoggedEvent, tx: AsyncConnection) -> None:
        positions.append(event.position)
        if len(positions) == 3:
            done.set()

    node = Node(app, [Target("role", make_conninfo(database.dsn, user=role.info.user))], sequencer=False)
    running = asyncio.create_task(node.run())
    await asyncio.wait([running, asyncio.ensure_future(done.wait())], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    node.stop()
    await running
    assert positions == [1, 2, 3]
    assert [topic.events for topic in list_topics(role)] == [3]
    assert {row.consumer for row in consumer_lag(role)} == {"mailer", "other"}
    seek_consumer(role, "orders", "mailer", "latest")
    resume_consumer(role, "orders", "mailer")
    redrive(role, ["orders/mailer"])
    drop_consumer(role, "orders", "mailer")
    with pytest.raises(Forbidden):
        publish(role, "orders", "placed", 1)
    with pytest.raises(Forbidden):
        create_topic(role, "new")
    with pytest.raises(Forbidden, match="permission denied"):
        alter_topic(role, "orders", partitions=8)


def test_failed_event_of_a_consumer_becomes_its_dead_letter(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="consume")
    consumer_id = ids(owner_conn, "a")["consumer_id"]
    role.execute("select headrace.create_consumer('orders', 'mailer', p_attempts_max => 1, p_when_exhausted => 'dead_letter')")
    row = role.execute("select partition, position, upto from headrace.claim(%s, 1)", (consumer_id,)).fetchone()
    assert row is not None
    assert role.execute("select headrace.fail(%s, %s, %s, %s, 1, 'x')", (consumer_id, *row)).fetchone() == ("dead_letter",)
    assert redrive(role, ["orders/mailer"]) == 1


def test_admin_does_everything_in_its_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    create_topic(role, "new", partitions=2)
    alter_topic(role, "new", partitions=4)
    create_consumer(role, Consumer(topic="new", name="mine", handler=ignore))
    create_schedule(role, "mine", cron="0 6 * * *", topic="new", type="due")
    run_now(role, "mine")
    publish(role, "new", "placed", 1)
    drain(owner_conn)
    assert len(read_log(role, "new")) == 2
    assert len(list_ticks(role, "mine")) == 1
    pause_schedule(role, "mine")
    drop_schedule(role, "mine")
    drop_topic(role, "new", force=True)
    assert [topic.topic for topic in list_topics(role)] == ["orders"]


def test_admin_captures_its_tables_and_the_rows_of_whoever_publishes(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    role.execute("create temp table car (id int primary key)")
    role.execute("select headrace.capture('car', 'orders')")
    role.execute("insert into car values (7)")
    drain(owner_conn)
    assert read_log(role, "orders")[-1].payload == {"id": 7}


def test_level_in_one_namespace_gives_nothing_in_another(owner_conn: Connection, sign_in: SignIn) -> None:
    """Privileges belong to the role, whatever the namespace; checks and policies keep the levels apart."""
    role = sign_in(a="admin", b="publish")
    publish(role, "orders", "placed", 1, namespace="b")
    with pytest.raises(Forbidden):
        read_log(role, "orders", namespace="b")
    with pytest.raises(Forbidden):
        create_topic(role, "new", namespace="b")
    alter_topic(role, "orders", partitions=4, namespace="a")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute("update headrace.topic set partitions = 9 where namespace = 'b'")


def test_consumer_of_one_and_admin_of_another_cannot_alter_the_one(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin", b="consume")
    assert len(read_log(role, "orders", namespace="b")) == 3
    with pytest.raises(Forbidden, match='permission denied for namespace "b"'):
        alter_topic(role, "orders", partitions=4, namespace="b")
    with pytest.raises(Forbidden):
        publish(role, "orders", "placed", 1, namespace="b")


def test_role_without_grants_may_do_nothing(sign_in: SignIn) -> None:
    with pytest.raises(Forbidden, match="permission denied for schema headrace"):
        read_log(sign_in(), "orders", namespace="a")


def test_owner_needs_no_grant(owner_conn: Connection) -> None:
    assert len(read_log(owner_conn, "orders", namespace="a")) == len(read_log(owner_conn, "orders", namespace="b")) == 3


@pytest.mark.lane("pg18")
def test_owner_need_not_be_superuser(owner_conn: Connection, sign_in: SignIn, database: Target) -> None:
    """An ordinary role that owns a database migrates it, makes namespaces and grants them."""
    owner, guest = sign_in(), sign_in()
    name = f"own_{owner.info.user}"
    owner_conn.execute(f"create database {name} owner {owner.info.user}")
    try:
        with connect(Target("own", make_conninfo(database.dsn, user=owner.info.user, dbname=name))) as conn:
            migrate(conn)
            create_namespace(conn, "a")
            create_topic(conn, "orders", namespace="a")
            grant_namespace(conn, guest.info.user, "a", "admin")
            with connect(Target("guest", make_conninfo(database.dsn, user=guest.info.user, dbname=name))) as role:
                publish(role, "orders", "placed", 1, namespace="a")
                create_topic(role, "new", namespace="a")
                with pytest.raises(UnknownTopic):
                    publish(role, "orders", "placed", 1)
            drain(conn)
            assert len(read_log(conn, "orders", namespace="a")) == 1
    finally:
        owner_conn.execute(f"drop database {name} with (force)")
