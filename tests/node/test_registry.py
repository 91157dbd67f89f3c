"""Nodes register, send heartbeats, are alive or lost, and deregister; directly handled event types have their rule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.actions import Action
from headrace.core import Conflict, UnregisteredName
from headrace.db import Connection, Pool, Target, create_pool
from headrace.log.topics import create_topic
from headrace.node import Headrace, Identity, Node
from headrace.node.registry import Registry
from headrace.rules import Rule, create_rule
from tests.builders import shift_clock


@pytest.fixture
async def pool(database: Target) -> AsyncIterator[Pool]:
    opened = create_pool(database, size=2)
    await opened.open()
    yield opened
    await opened.close()


async def ignore(action: Action, tx: object) -> None: ...


def states(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute("select name, state from headrace.node_state order by name").fetchall()


@pytest.mark.lane("pg18")
async def test_registered_node_has_its_identity_and_its_handlers(conn: Connection, pool: Pool) -> None:
    app = Headrace()
    app.handler("mail")(ignore)
    identity = Identity(name="n1", description="mails", metadata={"zone": "a"})
    await Registry(app, identity, pool).register()
    row = conn.execute(
        "select node_id, namespace, name, description, metadata, handlers, state, version <> '' from headrace.node_state"
    ).fetchone()
    assert row == (identity.node_id, "default", "n1", "mails", {"zone": "a"}, ["mail"], "alive", True)


@pytest.mark.lane("pg18")
async def test_rule_for_a_handler_that_a_node_has_registered_is_known(conn: Connection, pool: Pool) -> None:
    conn.execute("update headrace_internal.namespace set unknown_names = 'refuse'")
    conn.execute("insert into headrace.event_type (event_type) values ('placed')")
    create_topic(conn, "orders")
    rule = Rule(name="mail", topic="orders", event_type="placed", action="mail")
    with pytest.raises(UnregisteredName, match='action "mail"'):
        create_rule(conn, rule)
    app = Headrace()
    app.handler("mail")(ignore)
    app.handler("1 is not a name for a rule")(ignore)
    await Registry(app, Identity(name="n1"), pool).register()
    create_rule(conn, rule)
    assert conn.execute("select action from headrace.action").fetchall() == [("mail",)]


async def test_node_without_heartbeat_is_lost_after_90_seconds(conn: Connection, pool: Pool) -> None:
    await Registry(Headrace(), Identity(name="n1"), pool).register()
    shift_clock(conn, "89 seconds")
    assert states(conn) == [("n1", "alive")]
    shift_clock(conn, "91 seconds")
    assert states(conn) == [("n1", "lost")]


@pytest.mark.lane("pg18")
async def test_heartbeat_revives_a_lost_or_deleted_node(conn: Connection, pool: Pool) -> None:
    registry = Registry(Headrace(), Identity(name="n1"), pool)
    await registry.register()
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '1 hour'")
    await registry.heartbeat()
    assert states(conn) == [("n1", "alive")]
    conn.execute("delete from headrace_internal.node")
    await registry.heartbeat()
    assert states(conn) == [("n1", "alive")]


async def test_deregistered_node_is_stopped_and_deleted_after_a_day(conn: Connection, pool: Pool) -> None:
    first = Registry(Headrace(), Identity(name="n1"), pool)
    await first.register()
    await first.deregister()
    assert states(conn) == [("n1", "stopped")]
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '25 hours'")
    await Registry(Headrace(), Identity(name="n2"), pool).register()
    assert states(conn) == [("n2", "alive")]


@pytest.mark.lane("pg18")
async def test_running_node_registers_handles_actions_and_deregisters(conn: Connection, database: Target) -> None:
    app = Headrace()
    done = asyncio.Event()

    @app.handler("mail")
    async def mail(action: Action, tx: object) -> None:
        done.set()

    node = Node(app, [database], identity=Identity(name="n1"))
    running = asyncio.create_task(node.run())
    await asyncio.to_thread(conn.execute, "select headrace.send_action('mail', '1')")
    async with asyncio.timeout(30):
        await done.wait()
        assert states(conn) == [("n1", "alive")]
        node.stop()
        await running
    assert (node.actions, states(conn)) == (1, [("n1", "stopped")])


def test_handlers_of_one_action_must_have_the_same_options() -> None:
    app = Headrace()
    app.handler("mail", attempts=3)(ignore)
    app.handler("mail", attempts=3)(ignore)
    with pytest.raises(Conflict, match="same options"):
        app.handler("mail", attempts=4)(ignore)
    assert [len(group.handlers) for group in app.action_handlers.values()] == [2]


@pytest.mark.lane("pg18")
async def test_directly_handled_event_type_has_its_own_action(conn: Connection, pool: Pool) -> None:
    app = Headrace()
    app.on("user.created")(ignore)
    app.on("user.created", topic="users")(ignore)
    assert list(app.action_handlers) == ["on:user.created", "on:users/user.created"]
    await Registry(app, Identity(name="n1"), pool).register()
    assert states(conn) == [("n1", "alive")]
