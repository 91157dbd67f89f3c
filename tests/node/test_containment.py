"""One broken thing of namespace `a` harms nothing in namespace `b`, and the doctor names it.

Each test breaks one unit by writing into the internal tables as the owner, runs a node, and waits until `b` has its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headrace.actions import Action
from headrace.consume import Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.node import Headrace, Node, databases as databases_module
from headrace.observe.doctor import examine
from headrace.observe.history import event_history
from headrace.schedules import create_schedule
from tests.builders import create_outbox_triggers

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def two(conn: Connection) -> Connection:
    """Two namespaces, each with a topic `orders`."""
    for namespace in ("a", "b"):
        conn.execute("select headrace.create_namespace(%s)", (namespace,))
        conn.execute("select headrace.create_topic('orders', p_namespace => %s)", (namespace,))
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    return conn


@asynccontextmanager
async def running(database: Target, app: Headrace | None = None) -> AsyncIterator[Node]:
    """A node that must live until the end of the block."""
    node = Node(app or Headrace(), [database], grace_s=5)
    task = asyncio.create_task(node.run())
    try:
        yield node
        assert not task.done(), "the node has ended by itself"
    finally:
        node.stop()
        await task


async def until(condition: Callable[[], bool], *, timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


def topic_id(conn: Connection, namespace: str) -> int:
    row = conn.execute("select headrace.topic_id('orders', %s)", (namespace,)).fetchone()
    assert row is not None
    return int(row[0])


def publish(conn: Connection, namespace: str, n: int = 1) -> str:
    statement = "select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_namespace => %s)"
    row = conn.execute(statement, (n, namespace)).fetchone()
    assert row is not None
    return str(row[0])


def write_rule(conn: Connection, namespace: str, rule: str, *, timing: str = "after") -> None:
    conn.execute(
        """insert into headrace.rule (namespace, rule, topic, event_type, condition, action, timing)
           values (%s, %s, 'orders', 'placed', 'true', 'MAIL', %s)""",
        (namespace, rule, timing),
    )


def count(conn: Connection, statement: str) -> int:
    row = conn.execute(f"select count(*) from {statement}").fetchone()
    assert row is not None
    return int(row[0])


def logged(conn: Connection, namespace: str) -> int:
    return count(conn, f"headrace_internal.log where topic_id = {topic_id(conn, namespace)}")


def fired(conn: Connection, namespace: str) -> int:
    return count(conn, f"headrace_internal.firing where topic_id = {topic_id(conn, namespace)}")


def findings(database: Target, check: str) -> str:
    return "\n".join(one.message for one in examine(database) if one.check == check and one.level in ("problem", "warning"))


async def test_topic_without_its_log(two: Connection, database: Target) -> None:
    two.execute(f"drop table headrace_internal.log_{topic_id(two, 'a')}")
    stuck = publish(two, "a")
    publish(two, "b")
    async with running(database):
        await until(lambda: logged(two, "b") == 1)
        await until(lambda: "sequence a/orders failed" in findings(database, "failures"))
        publish(two, "b")
        await until(lambda: logged(two, "b") == 2)
        [history] = event_history(two, stuck, namespace="a")  # type: ignore[arg-type]
        assert [obstacle.what for obstacle in history.obstacles] == ["sequence orders"]


async def test_schedule_in_a_far_future(two: Connection, database: Target) -> None:
    """Its planner reads a time that Python does not know."""
    with two.transaction():
        two.execute("set local headrace.clock_shift = '9000 years'")
        two.execute(
            "insert into headrace.schedule (namespace, schedule, cron, topic, type) values ('a', 'far', '* * * * * *', 'orders', 'due')"
        )
    two.execute(
        "insert into headrace.schedule (namespace, schedule, cron, topic, type) values ('b', 'near', '* * * * * *', 'orders', 'due')"
    )
    async with running(database):
        await until(lambda: logged(two, "b") >= 1)
        assert "schedule plan a/far failed" in findings(database, "failures")


async def test_schedule_whose_failure_cannot_be_recorded_in_its_row(two: Connection, database: Target) -> None:
    for namespace in ("a", "b"):
        create_schedule(two, "daily", cron="0 0 * * *", topic="orders", type="due", namespace=namespace)
    two.execute(
        """insert into headrace_internal.schedule_due (schedule_id, tick_at)
           select schedule_id, headrace.clock() - case namespace when 'a' then interval '9 s' else interval '8 s' end
           from headrace_internal.schedule"""
    )
    two.execute(
        """create function public.refuse() returns trigger language plpgsql as
             $$ begin if new.namespace = 'a' and new.attempts > 0 then raise 'no row'; end if; return new; end $$;
           create trigger a_refuse before update on headrace_internal.schedule for each row execute function public.refuse();
           create function public.refuse_event() returns trigger language plpgsql as
             $$ begin if new.headers ->> 'schedule' = 'daily' and new.topic_id = (select headrace.topic_id('orders', 'a'))
                then raise 'no event'; end if; return new; end $$"""
    )
    create_outbox_triggers(two, "public.refuse_event")
    async with running(database):
        await until(lambda: logged(two, "b") == 1)
        assert "schedule a/daily failed" in findings(database, "failures")


async def test_unreadable_condition_of_an_inline_rule(two: Connection, database: Target) -> None:
    """It is marked invalid when its topic is compiled again; the other rules of its topic go on, and so do other namespaces."""
    write_rule(two, "a", "broken", timing="inline")
    async with running(database):
        await until(lambda: count(two, "headrace.rule where status = 'valid'") == 1)
    two.execute("update headrace_internal.rule_version set canonical = 'object ->> ('")
    write_rule(two, "a", "next", timing="inline")
    write_rule(two, "b", "direct", timing="inline")
    write_rule(two, "b", "later")
    async with running(database):
        await until(lambda: count(two, "headrace.rule where status = 'valid'") == 3)
        for namespace in ("a", "b"):
            publish(two, namespace)
        await until(lambda: (fired(two, "a"), fired(two, "b")) == (1, 2))
        assert "a/broken" in findings(database, "rules")
        two.execute("update headrace.rule set condition = 'false' where rule = 'broken'")
        await until(lambda: "a/broken" not in findings(database, "rules"))


async def test_rules_that_fail_to_run(two: Connection, database: Target) -> None:
    for namespace in ("a", "b"):
        write_rule(two, namespace, "mail")
    async with running(database):
        await until(lambda: count(two, "headrace.rule where status = 'valid'") == 2)
        two.execute(
            """update headrace_internal.rule_program set checksum = 'broken', program = 'select 1 / 0, $1, $2'
               where topic_id = %s and kind = 'after'""",
            (topic_id(two, "a"),),
        )
        stuck = publish(two, "a")
        publish(two, "b")
        await until(lambda: fired(two, "b") == 1)
        await until(
            lambda: "a/orders/headrace.rules: 1 partitions keep failing: column h.version_id" in findings(database, "consumers")
        )
        [history] = event_history(two, stuck, namespace="a")  # type: ignore[arg-type]
        assert [obstacle.what for obstacle in history.obstacles] == ["consumer headrace.rules"]


async def test_rules_that_fail_to_compile(two: Connection, database: Target) -> None:
    """The cursor of the rules is gone."""
    two.execute("select headrace_internal.create_internal_consumer(%s, 'headrace.rules')", (topic_id(two, "a"),))
    two.execute("delete from headrace_internal.cursor")
    for namespace in ("a", "b"):
        write_rule(two, namespace, "mail")
    async with running(database):
        await until(lambda: count(two, "headrace.rule where status = 'valid' and namespace = 'b'") == 1)
        publish(two, "b")
        await until(lambda: fired(two, "b") == 1)
        assert "rule compilation a/orders failed" in findings(database, "failures")


async def test_correlator_with_an_unreadable_table(two: Connection, database: Target) -> None:
    for namespace in ("a", "b"):
        two.execute(
            """insert into headrace.correlator (namespace, correlator, topic, pattern, outputs)
               values (%s, 'late', 'orders', 'push(late) {sequential {placed, after 50 ms}}', '{"late": {"action": "LATE"}}')""",
            (namespace,),
        )
    async with running(database):
        await until(lambda: count(two, "headrace.correlator where status = 'valid'") == 2)
    two.execute(
        """update headrace_internal.correlator_table t set compiled = '{}' from headrace_internal.correlator c
           where c.correlator_id = t.correlator_id and c.namespace = 'a'"""
    )
    async with running(database):
        for namespace in ("a", "b"):
            publish(two, namespace)
        await until(lambda: count(two, f"headrace_internal.correlation where topic_id = {topic_id(two, 'b')}") == 1)
        await until(lambda: "correlator a/late failed" in findings(database, "failures"))


async def test_action_delivered_as_often_as_an_integer_can_count(two: Connection, database: Target) -> None:
    handled: list[object] = []
    app = Headrace(namespace="b")

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None:
        handled.append(action.payload)

    for n in (1, 2):
        two.execute("select headrace.send_action('MAIL', to_jsonb(%s::int), p_namespace => 'b')", (n,))
    [(queue,)] = two.execute("select headrace.queue_name('b')").fetchall()
    two.execute(f"update pgmq.q_{queue} set read_ct = 2147483647 where msg_id = 1")
    async with running(database, app):
        await until(lambda: handled == [2])
        await until(lambda: "b: 1 action was moved" in findings(database, "dead letters"))
        two.execute("select headrace.send_action('MAIL', '3', p_namespace => 'b')")
        await until(lambda: handled == [2, 3])


async def test_event_that_python_cannot_read(two: Connection, database: Target) -> None:
    """Its partition follows the consumer's policy; the other partitions go on."""
    two.execute("select headrace.alter_topic('orders', p_partitions => 2, p_namespace => 'b')")
    handled: list[object] = []
    app = Headrace(namespace="b")

    @app.consumer("orders", failure=Failure.stop())
    async def note(event: LoggedEvent, tx: AsyncConnection) -> None:
        handled.append(event.key)

    with two.transaction():
        two.execute(
            "select headrace.publish('orders', 'placed', '1', p_key => 'k' || n, p_namespace => 'b') from generate_series(1, 20) n"
        )
    two.execute("select count(*) from headrace.sequence()")
    two.execute("update headrace_internal.log set emitted_at = '11000-01-01' where partition = 0")
    others = count(two, "headrace_internal.log where partition = 1")
    two.execute("select headrace.create_consumer('orders', 'note', p_namespace => 'b')")
    two.execute("update headrace_internal.cursor set attempts = 2147483647 where partition = 0")
    async with running(database, app):
        await until(lambda: len(handled) == others)
        await until(lambda: "b/orders/note: 1 partition has stopped" in findings(database, "consumers"))


async def test_topic_dropped_and_created_again_while_its_consumer_runs(
    two: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.consume.runner.TOPIC_CHECK_S", 0.05)
    monkeypatch.setattr("headrace.consume.runner.IDLE_S", 0.05)
    handled: list[object] = []
    app = Headrace(namespace="b")

    @app.consumer("orders", concurrency=1)
    async def note(event: LoggedEvent, tx: AsyncConnection) -> None:
        handled.append(event.payload)

    async with running(database, app):
        publish(two, "b", 1)
        await until(lambda: handled == [1])
        await asyncio.to_thread(two.execute, "select headrace.drop_topic('orders', p_force => true, p_namespace => 'b')")
        await until(lambda: "there is no topic" in findings(database, "failures"))
        await asyncio.to_thread(two.execute, "select headrace.create_topic('orders', p_namespace => 'b')")
        publish(two, "b", 2)
        await until(lambda: handled == [1, 2])
        await until(lambda: not findings(database, "failures"))


async def test_missing_function_of_a_loop(two: Connection, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    """As during a migration by hand: the loop waits, its error is logged once, and doctor shows it."""
    async with running(database):
        publish(two, "b")
        await until(lambda: logged(two, "b") == 1)
        await asyncio.to_thread(two.execute, "alter function headrace_internal.sequence_step rename to gone")
        await until(lambda: "loop sequencer failed" in findings(database, "failures"))
        await asyncio.to_thread(two.execute, "alter function headrace_internal.gone rename to sequence_step")
        publish(two, "b")
        await until(lambda: logged(two, "b") == 2)
        await until(lambda: "loop sequencer" not in findings(database, "failures"))
    assert caplog.text.count("sequencer failed") == 1


async def test_failing_step_of_the_maintenance_keeps_no_other_from_running(
    two: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases_module, "MAINTENANCE_S", 0.05)
    two.execute("alter function headrace.maintain_log rename to gone")
    two.execute("create table public.called (); alter function headrace_internal.forget_lineage rename to gone")
    two.execute(
        """create function headrace_internal.forget_lineage() returns integer language sql
           as 'insert into public.called default values; select 1'"""
    )
    async with running(database):
        await until(lambda: count(two, "public.called") > 0)
        await until(lambda: "time partitions failed" in findings(database, "failures"))
