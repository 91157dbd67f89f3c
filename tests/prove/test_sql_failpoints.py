"""Failpoints at every statement of the database's functions: a session that dies there leaves nothing; the next one does it all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest

from headrace.consume import Consumer, create_consumer
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import create_topic, read_log
from headrace.prove.bugs import function_definition
from headrace.prove.faults.crashes import FUNCTIONS, add_failpoints, armed_failpoint, count_statements
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from tests.rules.conftest import correlating, reacting
from tests.rules.steps import compile_all

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(200), pytest.mark.xdist_group("prove")]
Facts = tuple[object, ...]


async def create_workload(database: Target) -> None:
    """A topic with a rule, a correlator, a consumer, a schedule, and a staged batch of Spark."""
    with connect(database) as conn:
        create_topic(conn, "orders", partitions=2)
        create_rule(conn, Rule(name="r", topic="orders", event_type="placed", action="work"))
        create_schedule(conn, "s", cron="* * * * * *", topic="orders", type="tick", missed="one")
        conn.execute("select headrace.create_consumer('orders', 'c', p_attempts_max => 1, p_when_exhausted => 'dead_letter')")
        for name, where in (("all", "type = 'placed'"), ("none", "type = 'lost'")):
            create_consumer(conn, Consumer(topic="orders", name=name, handler=ignore, where=where))
        conn.execute("create schema headrace_prove")
        output = {"x": ActionOutput(action="work")}
        create_correlator(
            conn, Correlator(name="p", topic="orders", key="key", pattern="repeat {push(x) {placed}}", outputs=output)
        )
        conn.execute(STAGE)
        async with reacting(database) as reactor:
            await compile_all(reactor)
        async with correlating(database) as correlators:
            while await correlators.compile_once():
                pass


def ignore(_event: LoggedEvent, _conn: Connection) -> None:
    """Handles nothing."""


STAGE = """
insert into headrace_internal.spark_stage
    (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, producer, priority)
values ('default', 'q', 1, '00000000-0000-4000-8000-000000000001', 0, 'orders', 'row', 'k', '1', '{}',
    '00000000-0000-4000-8000-000000000002', 'spark', 0)"""


CALLS = {
    "publish": "select headrace.publish('orders', 'placed', '{\"n\": 1}', p_key => 'k', p_headers => '{\"a\": 1}')",
    "sequence_step": "select count(*) from headrace_internal.sequence_step(100, false, array[1])",
    "sequence_topic": "select count(*) from headrace.sequence()",
    "run_pass": "select count(*) from headrace_internal.sequence_step(100, false, '{}', '{1,1}', '{0,1}', 1e6)",
    "claim_events": "select count(*) from headrace.consumer c cross join lateral headrace.claim_events(c.consumer_id, 10, 1, 0, 2) "
    "where c.consumer not like 'headrace.%'",
    "claim_at": "select count(*) from headrace.consumer c cross join lateral headrace.claim_at(c.consumer_id, '{0,1}', '{0,0}', 0, "
    "pg_postmaster_start_time()) where c.consumer = 'c'",
    "fail": "select headrace.fail(u.consumer_id, u.partition, u.position, l.position, 1, 'boom') from headrace.cursor u "
    "join headrace.consumer c on c.consumer_id = u.consumer_id and c.consumer = 'c' "
    "join headrace.log l on l.partition = u.partition and l.position > u.position order by l.position limit 1",
    "react": "select count(*) from headrace_internal.react(1, 100)",
    "react_to_events": "select count(*) from headrace_internal.react(1, 100)",
    "fire": "select count(*) from headrace_internal.react(1, 100)",
    "correlate": "select count(*) from headrace_internal.correlate(1, 100)",
    "step_simple": "select count(*) from headrace_internal.correlate(1, 100)",
    "deliver_correlations": "select count(*) from headrace_internal.correlate(1, 100)",
    "commit_spark_batch": "select headrace.commit_spark_batch('q', 1, array['00000000-0000-4000-8000-000000000001'::uuid], 1)",
    "send_actions": "select count(*) from headrace.send_actions('default', array[jsonb_build_object('id', gen_random_uuid(), "
    "'action', 'work')], array[5])",
    "run_schedule": "select set_config('headrace.clock_shift', '9 s', false); select headrace.run_schedule(1)",
    "ack_actions": "select headrace.ack_actions(array_agg(msg_id), array_agg(read_ct), array_agg(0::real)) "
    "from pgmq.q_hr_default where read_ct > 0",
    "fail_action": "select headrace.fail_action(msg_id, read_ct, 1, 1, 1, 'boom') "
    "from pgmq.q_hr_default where read_ct > 0 limit 1",
    "bury_actions": "select headrace.bury_actions(array_agg(msg_id), 'failed', 'boom') from pgmq.q_hr_default where read_ct > 0",
}
PREPARATIONS = {
    "sequence_step": ("publish",),
    "sequence_topic": ("publish",),
    "run_pass": ("publish",),
    "claim_events": ("publish", "sequence_step"),
    "claim_at": ("publish", "sequence_step"),
    "fail": ("publish", "sequence_step"),
    "react": ("publish", "sequence_step"),
    "react_to_events": ("publish", "sequence_step"),
    "fire": ("publish", "sequence_step"),
    "correlate": ("publish", "sequence_step"),
    "step_simple": ("publish", "sequence_step"),
    "deliver_correlations": ("publish", "sequence_step"),
    "ack_actions": ("claimed action",),
    "fail_action": ("claimed action",),
    "bury_actions": ("claimed action",),
}
NOT_REACHED_MAX = {
    "ack_actions": 2, "bury_actions": 1, "claim_at": 1, "claim_events": 26, "commit_spark_batch": 3, "correlate": 3, "deliver_correlations": 1,
    "fail": 12, "fail_action": 6, "fire": 2, "publish": 7, "react": 2, "react_to_events": 0, "run_pass": 9,
    "run_schedule": 3, "send_actions": 4, "sequence_step": 18, "step_simple": 3,
    "sequence_topic": 10,
}  # fmt: skip
"""How many statements are on branches that the call does not take: errors, other policies, an empty batch."""
CLAIMED_ACTION = "select headrace.send_action('work'); update pgmq.q_hr_default set read_ct = 1"
FACTS = """
select (select count(*) from headrace.outbox), (select count(*) from headrace.log), (select count(*) from headrace.firing),
    (select count(*) from headrace.event_dead_letter), (select count(*) from pgmq.q_hr_default),
    (select count(*) from pgmq.q_hrd_default), (select count(*) from headrace.action_result),
    (select count(*) from headrace.schedule_tick), (select sum(position) from headrace.cursor),
    (select count(*) from headrace.correlation), (select count(*) from headrace_internal.spark_batch)
"""


@pytest.fixture(scope="module")
def template(server: Server) -> Iterator[str]:
    """A database with everything, to be copied for every function."""
    name = f"failpoint_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template headrace_template strategy file_copy")
    asyncio.run(create_workload(Target("failpoint", server.dsn(name))))
    yield name
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def read_facts(conn: Connection) -> Facts:
    row = conn.execute(FACTS).fetchone()
    assert row is not None
    return tuple(row)


def session_dies(database: Target, function: str) -> bool:
    """Calls the function in a session of its own; rolls back if the session survives."""
    with suppress(psycopg.OperationalError), connect(database) as conn:
        with conn.transaction(force_rollback=True):
            conn.execute(CALLS[function])
        return False
    return True


def test_every_function_with_failpoints_is_called() -> None:
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_session_that_dies_at_any_statement_of_a_function_leaves_nothing(server: Server, template: str, function: str) -> None:
    name = f"{template}_{function}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template {template} strategy file_copy")
    database = Target("failpoint", server.dsn(name))
    not_reached: set[int] = set()
    with connect(database) as conn:
        for preparation in PREPARATIONS.get(function, ()):
            conn.execute(CLAIMED_ACTION if preparation == "claimed action" else CALLS[preparation])
        before = read_facts(conn)
        count = count_statements(conn, function)
        for statement in range(1, count + 1):
            with armed_failpoint(conn, function, statement):
                not_reached |= set() if session_dies(database, function) else {statement}
            # The next claim would only count the lost session.
            conn.execute("update headrace_internal.cursor set moved_at = moved_at")
            assert read_facts(conn) == before, f"statement {statement} of {function} left something"
        conn.execute(CALLS[function])
        assert function in ("claim_events", "claim_at") or read_facts(conn) != before, "the function did nothing"
        positions = [event.position for event in read_log(conn, "orders")]
        assert positions == list(range(1, len(positions) + 1))
    assert len(not_reached) <= NOT_REACHED_MAX[function], f"{function} never reached {sorted(not_reached)} of {count} statements"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def test_every_function_gets_failpoints_and_its_text_back(conn: Connection) -> None:
    conn.execute("create schema headrace_prove")
    for function in FUNCTIONS:
        original = function_definition(conn, function)
        assert add_failpoints(original)[1] >= 2, function
        with armed_failpoint(conn, function, 1):
            assert "headrace_prove.hit(1)" in function_definition(conn, function)
        assert function_definition(conn, function) == original


def test_failpoint_changes_nothing_else(conn: Connection, database: Target) -> None:
    """An ack reads the row count of its statement, and a sequencer reads FOUND: both right after a failpoint."""
    conn.execute("create schema headrace_prove")
    conn.execute(CLAIMED_ACTION)
    with armed_failpoint(conn, "ack_actions", 99), pytest.raises(psycopg.Error, match="no longer held"):
        conn.execute("select headrace.ack_actions(array[1::bigint, 2], array[1, 1], array[0::real, 0])")
    with armed_failpoint(conn, "correlate", 99):
        assert conn.execute("select * from headrace_internal.correlate(7, 10)").fetchall() == []


def test_failpoint_ends_the_session_that_reaches_it_for_the_nth_time(conn: Connection, database: Target) -> None:
    conn.execute("create schema headrace_prove")
    create_topic(conn, "orders")
    with armed_failpoint(conn, "sequence_step", 1, hit=3):
        assert [session_dies(database, "sequence_step") for _ in range(5)] == [False, False, True, False, False]
