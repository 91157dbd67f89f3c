"""Failpoints at every statement inside the database's functions: whoever dies there leaves nothing; the next one does it all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest

from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, Server, Target, connect
from headrace.log import create_topic, read
from headrace.prove.step import FUNCTIONS, armed, definition_of, instrumented, steps_of
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from tests.rules.conftest import correlating, reacting
from tests.rules.steps import compile_all

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(200), pytest.mark.xdist_group("prove")]
Facts = tuple[object, ...]


async def furnish(database: Target) -> None:
    """A topic with a rule, a correlator, a consumer, a schedule, and a staged batch of Spark's."""
    with connect(database) as conn:
        create_topic(conn, "orders", partitions=2)
        create_rule(conn, Rule(name="r", topic="orders", event_type="placed", action="work"))
        create_schedule(conn, "s", cron="* * * * * *", topic="orders", type="tick", missed="one")
        conn.execute("select headrace.create_consumer('orders', 'c', p_attempts_max => 1, p_when_exhausted => 'dead_letter')")
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


STAGE = """
insert into headrace_internal.spark_stage
    (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, producer, priority)
values ('default', 'q', 1, '00000000-0000-4000-8000-000000000001', 0, 'orders', 'row', 'k', '1', '{}',
    '00000000-0000-4000-8000-000000000002', 'spark', 0)"""


ACTS = {
    "publish": "select headrace.publish('orders', 'placed', '{\"n\": 1}', p_key => 'k', p_headers => '{\"a\": 1}')",
    "sequence": "select count(*) from headrace.sequence()",
    "claim": "select count(*) from headrace.claim((select consumer_id from headrace_internal.consumer where consumer = 'c'), 10, 1, 0, 2)",
    "fail": "select headrace.fail(u.consumer_id, u.partition, u.position, l.position, 1, 'boom') from headrace_internal.cursor u "
    "join headrace_internal.consumer c on c.consumer_id = u.consumer_id and c.consumer = 'c' "
    "join headrace_internal.log l on l.partition = u.partition and l.position > u.position order by l.position limit 1",
    "react": "select count(*) from headrace_internal.react(1, 100)",
    "fire": "select count(*) from headrace_internal.react(1, 100)",
    "correlate": "select count(*) from headrace_internal.correlate(1, 100)",
    "deliver_correlations": "select count(*) from headrace_internal.correlate(1, 100)",
    "commit_spark_batch": "select headrace_internal.commit_spark_batch('q', 1, array['00000000-0000-4000-8000-000000000001'::uuid], 1)",
    "send_actions": "select count(*) from headrace.send_actions('default', array[jsonb_build_object('id', gen_random_uuid(), "
    "'action', 'work')], array[5])",
    "run_schedule": "select set_config('headrace.clock_shift', '9 s', false); select headrace.run_schedule(1)",
    "ack_actions": "select headrace.ack_actions(array_agg(msg_id), array_agg(read_ct), array_agg(0::real)) "
    "from pgmq.q_hr_default where read_ct > 0",
    "fail_action": "select headrace.fail_action(msg_id, read_ct, 1, 1, 1, 'boom') "
    "from pgmq.q_hr_default where read_ct > 0 limit 1",
    "bury_actions": "select headrace.bury_actions(array_agg(msg_id), 'failed', 'boom') from pgmq.q_hr_default where read_ct > 0",
}
BEFORE = {
    "sequence": ("publish",),
    "claim": ("publish", "sequence"),
    "fail": ("publish", "sequence"),
    "react": ("publish", "sequence"),
    "fire": ("publish", "sequence"),
    "correlate": ("publish", "sequence"),
    "deliver_correlations": ("publish", "sequence"),
    "ack_actions": ("hand out",),
    "fail_action": ("hand out",),
    "bury_actions": ("hand out",),
}
NOT_TAKEN = {
    "ack_actions": 1, "bury_actions": 1, "claim": 2, "commit_spark_batch": 3, "correlate": 2, "deliver_correlations": 1,
    "fail": 7, "fail_action": 3, "fire": 1, "publish": 2, "react": 2, "run_schedule": 3, "send_actions": 4, "sequence": 3,
}  # fmt: skip
"""How many steps are on branches that the act does not take: errors, other policies, an empty batch."""
HAND_OUT = "select headrace.send_action('work'); update pgmq.q_hr_default set read_ct = 1"
FACTS = """
select (select count(*) from headrace_internal.outbox), (select count(*) from headrace_internal.log), (select count(*) from headrace_internal.firing),
    (select count(*) from headrace_internal.dead_letter), (select count(*) from pgmq.q_hr_default),
    (select count(*) from pgmq.q_hr_default_dlq), (select count(*) from headrace_internal.action_result),
    (select count(*) from headrace_internal.schedule_tick), (select sum(position) from headrace_internal.cursor),
    (select count(*) from headrace_internal.correlation), (select count(*) from headrace_internal.spark_batch)
"""


@pytest.fixture
async def template(server: Server) -> Iterator[str]:
    """A furnished database, to be copied for every step."""
    name = f"step_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template headrace_template strategy file_copy")
    await furnish(Target("step", server.dsn(name)))
    yield name
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def facts(conn: Connection) -> Facts:
    row = conn.execute(FACTS).fetchone()
    assert row is not None
    return tuple(row)


def die(database: Target, act: str) -> bool:
    """Whether the session died of it; where it did not, what it did is rolled back."""
    with suppress(psycopg.OperationalError), connect(database) as conn:
        with conn.transaction(force_rollback=True):
            conn.execute(ACTS[act])
        return False
    return True


@pytest.mark.parametrize("act", sorted(ACTS))
async def test_session_that_dies_at_any_statement_of_a_function_leaves_nothing(server: Server, template: str, act: str) -> None:
    function = next(one for one in FUNCTIONS if one.startswith(f"headrace_internal.{act}("))
    name = f"{template}_{act}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template {template} strategy file_copy")
    database = Target("step", server.dsn(name))
    missed: set[int] = set()
    with connect(database) as conn:
        for prepare in BEFORE.get(act, ()):
            conn.execute(HAND_OUT if prepare == "hand out" else ACTS[prepare])
        before = facts(conn)
        steps = steps_of(conn, function)
        for step in range(1, steps + 1):
            with armed(conn, function, step):
                missed |= set() if die(database, act) else {step}
            assert facts(conn) == before, f"step {step} of {act} left something"
        conn.execute(ACTS[act])
        assert act == "claim" or facts(conn) != before, "nothing was done at all"
        positions = [event.position for event in read(conn, "orders")]
        assert positions == list(range(1, len(positions) + 1))
    assert len(missed) <= NOT_TAKEN.get(act, 0), f"{act} never came to {sorted(missed)} of {steps} steps"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def test_every_function_has_steps_and_is_put_back(conn: Connection) -> None:
    conn.execute("create schema headrace_prove")
    for function in FUNCTIONS:
        plain = definition_of(conn, function)
        assert instrumented(plain)[1] >= 2, function
        with armed(conn, function, 1):
            assert "headrace_prove.hit(1)" in definition_of(conn, function)
        assert definition_of(conn, function) == plain


def test_failpoint_changes_nothing_else(conn: Connection, database: Target) -> None:
    """An ack asks how many rows its statement had, and a sequencer whether it found any: both right after a failpoint."""
    conn.execute("create schema headrace_prove")
    conn.execute("select headrace.send_action('work'); update pgmq.q_hr_default set read_ct = 1")
    with (
        armed(conn, next(one for one in FUNCTIONS if "ack_actions" in one), 99),
        pytest.raises(psycopg.Error, match="no longer held"),
    ):
        conn.execute("select headrace.ack_actions(array[1::bigint, 2], array[1, 1], array[0::real, 0])")
    with armed(conn, "headrace_internal.correlate(integer,integer)", 99):
        assert conn.execute("select * from headrace_internal.correlate(7, 10)").fetchall() == []


def test_failpoint_strikes_at_its_nth_time_and_once(conn: Connection, database: Target) -> None:
    conn.execute("create schema headrace_prove")
    create_topic(conn, "orders")
    with armed(conn, "headrace.sequence(integer)", 1, hit=3):
        assert [die(database, "sequence") for _ in range(5)] == [False, False, True, False, False]
