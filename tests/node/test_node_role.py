"""A node whose role is neither superuser nor owner runs every loop."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.actions import Action
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Target, create_namespace, grant_node
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.node import Headrace
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from tests.node.test_containment import running, until


@pytest.fixture
def node_target(conn: Connection, database: Target) -> Iterator[Target]:
    """The database, as a role that may run nodes and nothing else."""
    role = f"node_{uuid4().hex[:12]}"
    conn.execute(f"create role {role} login")
    grant_node(conn, role)
    yield Target("node", make_conninfo(database.dsn, user=role))
    with psycopg.connect(database.dsn, autocommit=True) as owner:
        owner.execute(f"drop owned by {role}")
        owner.execute(f"drop role {role}")


async def test_node_that_is_not_the_owner_does_all_the_work(conn: Connection, node_target: Target) -> None:
    create_namespace(conn, "shop")
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    create_topic(conn, "orders", namespace="shop", time_partition="day", retention=timedelta(days=1))
    for timing in ("after", "inline"):
        rule = Rule(name=timing, topic="orders", event_type="placed", action="MAIL", timing=timing)  # type: ignore[arg-type]
        create_rule(conn, rule, namespace="shop")
    pattern = "repeat {push(x) {sequential {placed, after 1 s}}}"
    outputs = {"x": ActionOutput(action="MAIL")}
    create_correlator(conn, Correlator(name="late", topic="orders", pattern=pattern, outputs=outputs), namespace="shop")
    create_schedule(conn, "soon", cron="* * * * *", topic="orders", type="due", namespace="shop")
    app, handled = Headrace(namespace="shop"), []

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None:
        handled.append(action.cause)

    @app.consumer("orders", name="seen")
    async def see(event: object, tx: AsyncConnection) -> None:
        await tx.execute("create table if not exists pg_temp.seen (n int)")

    async with running(node_target, app):
        await until(lambda: conn.execute("select count(*) from headrace.rule where status = 'valid'").fetchone() == (2,))
        await until(lambda: conn.execute("select status from headrace.correlator").fetchone() == ("valid",))
        publish(conn, "orders", "placed", 1, namespace="shop")
        await until(lambda: len(handled) >= 3)
        conn.execute("select headrace_internal.trim_outbox()")
        await until(lambda: conn.execute("select count(*) from headrace.schedule_due").fetchone() != (0,))
    assert conn.execute("select count(*) from headrace.failure").fetchone() == (0,)


def test_role_of_a_node_maintains_the_log(conn: Connection, node_target: Target) -> None:
    create_topic(conn, "old", time_partition="day", retention=timedelta(days=1))
    publish(conn, "old", "x", 1)
    with psycopg.connect(node_target.dsn, autocommit=True) as node:
        node.execute("select headrace.sequence()")
        node.execute("set headrace.clock_shift = '10 days'")
        dropped = node.execute("select dropped from headrace.maintain_log()").fetchall()
        assert (True,) in dropped
        publish(conn, "old", "x", 2)
        node.execute("select headrace.sequence()")
    assert conn.execute("select position from headrace.log").fetchall() == [(2,)]
