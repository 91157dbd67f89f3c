"""A publication of all tables, as Debezium and blue/green upgrades create it, stops nothing: PostgreSQL refuses to update or delete
rows of a published table without a replica identity, whatever its wal_level."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.actions import Action
from headrace.consume import Failure
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.archive import erase_key
from headrace.log.topics import create_topic
from headrace.node import Headrace
from headrace.observe.doctor import examine
from headrace.rules import Rule, create_rule
from headrace.testing import Kit
from tests.builders import topic, trim_outbox

WITHOUT_IDENTITY = """
    select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind = 'r' and c.relpersistence = 'p'
        and c.relreplident <> 'f'
        and not exists (select from pg_index i
            where i.indrelid = c.oid and (i.indisreplident or i.indisprimary and c.relreplident = 'd'))
    order by 1"""
"""Unlogged tables are never published."""


def test_every_table_has_a_replica_identity(conn: Connection) -> None:
    """Also those that are created with a topic and a namespace, and later for the events' own time."""
    conn.execute("select headrace.create_namespace('shop')")
    create_topic(conn, "orders", namespace="shop")
    create_topic(conn, "history", clock="event")
    conn.execute("select headrace.publish('history', 'placed', '1', p_emitted_at => '2020-02-02')")
    conn.execute("select from headrace.sequence()")
    assert conn.execute("select count(*) from headrace_internal.log where appended_at < '2021-01-01'").fetchone() == (1,)
    assert conn.execute(WITHOUT_IDENTITY).fetchall() == []


def shop(failing: bool) -> Headrace:
    app = Headrace()

    @app.consumer("orders", failure=Failure.dead_letter(attempts=1))
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        if failing and event.type == "paid":
            raise ValueError("the printer is out of paper")

    @app.handler("REVIEW", attempts=2, backoff_s=1)
    async def review(action: Action, tx: AsyncConnection) -> None:
        if failing:
            raise ValueError("nobody is there")

    return app


@pytest.mark.timeout(120)
async def test_everything_works_while_all_tables_are_published(conn: Connection, database: Target) -> None:
    conn.execute("set client_min_messages = error; create publication everything for all tables")
    with Kit(database) as kit:
        create_topic(kit.conn, "orders", partitions=2, retention=timedelta(days=1), time_partition="day")
        kit.conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        for timing in ("after", "inline"):
            create_rule(kit.conn, Rule(name=timing, topic="orders", event_type="placed", action="REVIEW", timing=timing))  # type: ignore[arg-type]
        pattern = "repeat {push(late) {sequential {placed, fail {within 10 s {paid}}}}}"
        outputs = {"late": ActionOutput(action="REVIEW")}
        create_correlator(kit.conn, Correlator(name="late", topic="orders", key="key", pattern=pattern, outputs=outputs))
        kit.conn.execute(
            "insert into headrace.schedule (schedule, cron, topic, type) values ('daily', '0 0 * * *', 'orders', 'paid')"
        )
        for key in ("ada", "bob"):
            kit.publish("orders", "placed", {"email": key}, key=key)
        kit.publish("orders", "paid", key="bob")
        await kit.run_until_idle(shop(failing=True))
        kit.advance(seconds=20)
        await kit.run_until_idle(shop(failing=True))
        assert {letter.kind for letter in kit.dead_letters()} == {"action", "event"}
        kit.conn.execute("select headrace.redrive_actions(p_action => 'REVIEW')")
        kit.conn.execute("select headrace.redrive('orders', 'bill')")
        kit.advance(minutes=1)
        await kit.run_until_idle(shop(failing=False))
        assert kit.dead_letters() == []
        assert {action.state for action in kit.actions("REVIEW")} == {"done"} and len(kit.outputs("late")) == 1
        kit.publish("orders", "placed", {"email": "ada"}, key="ada")  # It is still in the outbox when its key is erased.
        erase_key(database, "orders", "ada", replace_key=True, actions=True, vacuum=False)
        await kit.run_until_idle(shop(failing=False))
        kit.advance(days=40)
        await kit.run_until_idle(shop(failing=False))
        assert {dropped for (dropped,) in kit.conn.execute("select dropped from headrace.maintain_log()")} == {True}
        for trim in ("trim_results", "trim_unique_actions", "forget_lineage"):
            kit.conn.execute(f"select headrace_internal.{trim}()")
        trim_outbox(kit.conn)
        kit.conn.execute("update headrace.schedule set dropped = true; select headrace.drop_topic('orders', true)")
        kit.conn.execute("select headrace.create_namespace('gone'); select headrace.drop_namespace('gone')")
        assert kit.conn.execute("select kind, error from headrace_internal.failure").fetchall() == []


def test_doctor_names_a_published_table_without_a_replica_identity(conn: Connection, database: Target) -> None:
    """Such as that of a pgmq that somebody else installed."""
    topic(conn)
    conn.execute("alter table pgmq.meta replica identity nothing")
    check = "replica identity"
    assert [finding.level for finding in examine(database) if finding.check == check] == ["ok"]
    conn.execute("set client_min_messages = error; create publication everything for all tables")
    [finding] = [finding for finding in examine(database) if finding.check == check]
    assert finding.level == "problem" and "pgmq.meta" in finding.message
    assert finding.advice == "run as its owner: alter table pgmq.meta replica identity using index meta_queue_name_key"
