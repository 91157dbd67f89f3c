"""The action queue of a namespace: sent by publishers, handled by consumers, closed to the others."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.actions import Action
from headrace.core import Forbidden, NamespaceInUse
from headrace.db import AsyncConnection, Connection, Target, create_namespace, drop_namespace, map_database_errors
from headrace.node import Headrace, Node
from tests.db.namespaces.conftest import SignIn

SEND = "select headrace.send_action('NOTIFY', '1', p_namespace => %s)"


async def test_action_sent_by_a_publisher_is_handled_by_a_consumers_node(
    owner_conn: Connection, sign_in: SignIn, database: Target
) -> None:
    publisher, consumer = sign_in(a="publish"), sign_in(a="work")
    publisher.execute(SEND, ("a",))
    app, done = Headrace(namespace="a"), asyncio.Event()

    @app.handler("NOTIFY")
    async def notify(action: Action, tx: AsyncConnection) -> None:
        done.set()

    node = Node(app, [Target("role", make_conninfo(database.dsn, user=consumer.info.user))], sequencer=False)
    running = asyncio.create_task(node.run())
    await asyncio.wait([running, asyncio.ensure_future(done.wait())], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    node.stop()
    await running
    assert consumer.execute("select outcome from headrace.action_result").fetchall() == [("done",)]
    assert consumer.execute("select state from headrace.node_state").fetchall() == [("stopped",)]


@pytest.mark.parametrize("level", ["publish", "consume", "work", "admin"])
def test_queue_of_another_namespace_is_closed(owner_conn: Connection, sign_in: SignIn, level: str) -> None:
    role = sign_in(a=level)
    owner_conn.execute(SEND, ("b",))
    owner_conn.execute(
        "insert into headrace_internal.action_result values (now(), gen_random_uuid(), null, 1, 1, 'b', 'NOTIFY', 'done')"
    )
    with pytest.raises(Forbidden, match="permission denied"), map_database_errors():
        role.execute(SEND, ("b",))
    tables = owner_conn.execute("select t::text from headrace_internal.queue_tables('b') t").fetchall()
    [(queue,)] = owner_conn.execute("select headrace.queue_name('b')").fetchall()
    assert len(tables) == 4
    for table in (*(name for (name,) in tables), "pgmq.meta"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            role.execute(f"select from {table}")
    for call in (
        "select headrace.queue_state('b')",
        "select headrace.bury_unhandled(0, 'b')",
        "select headrace.discard_actions(p_namespace => 'b')",
        "select headrace.redrive_actions(p_namespace => 'b')",
        f"select pgmq.read('{queue}', 1, 1)",
        f"select pgmq.drop_queue('{queue}')",
        f"select pgmq.purge_queue('{queue}')",
        "select headrace.queue_name('b')",
        "select headrace.queued_actions(p_namespace => 'b')",
        "select headrace.cancel_actions(p_action => 'NOTIFY', p_namespace => 'b')",
        "select headrace.run_actions_now(p_action => 'NOTIFY', p_namespace => 'b')",
        "select headrace.set_action_priority(1, p_action => 'NOTIFY', p_namespace => 'b')",
        "select headrace.is_paused('NOTIFY', 'b')",
        "select headrace.pause('action', 'NOTIFY', p_namespace => 'b')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            role.execute(call)
    if level != "publish":
        assert role.execute("select from headrace.action_result").fetchall() == []


PAUSES = {
    "consumer": "select headrace.pause('consumer', 'orders/mailer', p_namespace => 'a')",
    "queue": "select headrace.pause('queue', p_namespace => 'a')",
    "action": "select headrace.pause('action', 'NOTIFY', p_namespace => 'a')",
    "rules": "select headrace.pause('consumer', 'orders/headrace.rules', p_namespace => 'a')",
    "rule": "select headrace.pause('rule', 'r', p_namespace => 'a')",
}


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("publish", set()),
        ("consume", {"consumer"}),
        ("work", {"consumer", "queue", "action"}),
        ("admin", {"consumer", "queue", "action", "rules", "rule"}),
    ],
)
def test_level_decides_what_a_role_may_pause(owner_conn: Connection, sign_in: SignIn, level: str, allowed: set[str]) -> None:
    owner_conn.execute("select headrace.create_consumer('orders', 'mailer', p_namespace => 'a')")
    owner_conn.execute(
        "insert into headrace.rule (namespace, rule, topic, event_type, action) values ('a', 'r', 'orders', 'placed', 'NOTIFY')"
    )
    role = sign_in(a=level)
    for kind, statement in PAUSES.items():
        if kind in allowed:
            assert role.execute(statement).fetchone() == (True,)
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                role.execute(statement)
    if allowed:
        assert role.execute("select count(*) from headrace.pause").fetchone() == (len(allowed),)


def test_publisher_does_not_read_the_queue(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish")
    role.execute(SEND, ("a",))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute("select message from pgmq.q_" + role.execute("select headrace.queue_name('a')").fetchall()[0][0])


def test_namespace_with_actions_is_not_dropped(conn: Connection) -> None:
    create_namespace(conn, "c")
    conn.execute(SEND, ("c",))
    with pytest.raises(NamespaceInUse, match="has actions"):
        drop_namespace(conn, "c")
    [(queue,)] = conn.execute("select headrace.queue_name('c')").fetchall()
    conn.execute("select pgmq.purge_queue(%s)", (queue,))
    drop_namespace(conn, "c")
    assert conn.execute("select to_regclass('pgmq.q_' || %s)", (queue,)).fetchone() == (None,)
