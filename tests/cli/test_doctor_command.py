"""`headrace doctor` finds problems; every check is proved by a seeded problem."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pytest

from headrace.actions import send_action
from headrace.consume import Consumer, Failure, create_consumer
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.db.server import free_port
from headrace.log.topics import read_log
from headrace.node import Headrace, Identity, Node
from headrace.observe.doctor import LIMITS, Check, compare_shards, examine
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from tests.builders import fill, own_database, shift_clock, topic
from tests.cli.conftest import Answer, Cli, call

LATE_ID = "01890000-0000-7000-8000-000000000001"
"""A version 7 id of 2023: an event with it has waited long."""


def levels(answer: Answer, check: str) -> list[str]:
    return [one["level"] for one in answer.json if one["check"] == check]


def problems(target: Target, check: str, level: str = "problem") -> list[Check]:
    return [one for one in examine(target) if (one.check, one.level) == (check, level)]


def test_fresh_database_has_no_problem_except_fsync_which_the_tests_switch_off(cli: Cli) -> None:
    answer = cli("doctor", "--json")
    assert {one["check"] for one in answer.json if one["level"] == "problem"} == {"fsync"}
    assert answer.code == 6
    assert {"reachable", "version", "migrated", "clock", "connections", "outbox", "indexes"} <= {
        one["check"] for one in answer.json if one["level"] == "ok"
    }


def test_findings_are_a_table_with_signs_and_advice(cli: Cli) -> None:
    answer = cli("doctor")
    assert "✓" in answer.out and "✗" in answer.out
    assert "set fsync = on" in answer.out
    assert answer.err.startswith("ProblemsFound: 1 findings: fsync")


@pytest.mark.lane("pg18")
def test_healthy_server_exits_with_0(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path) -> None:
    server = Server(shared_folder)
    server.start()
    try:
        with connect(Target("main", server.dsn())) as conn:
            migrate(conn)
        answer = call("doctor", "--dsn", server.dsn(), "--json")
        assert answer.code == 0, answer.out
        assert levels(answer, "sequencer") == ["warning"]
        assert call("doctor", "--dsn", server.dsn(), "--strict").code == 6
    finally:
        server.stop()


def test_unreachable_server_is_a_problem() -> None:
    answer = call("doctor", "--dsn", f"postgresql://nobody@127.0.0.1:{free_port()}/none", "--json")
    assert answer.code == 6
    assert levels(answer, "reachable") == ["problem"]


def test_unmigrated_database_is_a_problem(empty: Target) -> None:
    [check] = problems(empty, "migrated")
    assert check.advice == "run: headrace migrate"


def test_changed_migration_is_a_problem(database: Target, conn: Connection) -> None:
    conn.execute("update headrace_internal.migration set checksum = 'another' where name = 'schema'")
    assert problems(database, "migrated")


@pytest.mark.parametrize("setting", ["synchronous_commit", "headrace.clock_shift"])
def test_settings_that_break_promises_are_problems(database: Target, conn: Connection, setting: str) -> None:
    value = {"synchronous_commit": "off", "headrace.clock_shift": "1 day"}[setting]
    conn.execute(f"do $$ begin execute format('alter database %I set {setting} = ''{value}''', current_database()); end $$")
    assert problems(database, {"headrace.clock_shift": "clock"}.get(setting, setting))


def test_waiting_outbox_without_sequencer_is_a_problem(database: Target, conn: Connection) -> None:
    topic(conn)
    conn.execute("select headrace.publish('orders', 'placed', '1', p_event_id => %s)", (LATE_ID,))
    [check] = problems(database, "outbox")
    assert check.advice == "run: headrace node run"
    node_id = uuid4()
    conn.execute("select headrace.register_node(%s, 'n1', '1', '{}')", (node_id,))
    assert problems(database, "outbox"), "a node without a sequencer is not enough"
    conn.execute("select headrace_internal.mark_sequencer(%s)", (node_id,))
    assert problems(database, "outbox", "warning") and not problems(database, "sequencer", "warning")
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '2 minutes'")
    assert problems(database, "outbox") and problems(database, "sequencer", "warning")


def test_budgets_of_live_nodes_are_shown(database: Target, conn: Connection) -> None:
    for name, metadata in (
        ("n1", '{"connections": 10}'),
        ("n2", '{"connections": 25}'),
        ("older", "{}"),
        ("odd", '{"connections": "x"}'),
    ):
        conn.execute("select headrace.register_node(%s, %s, '1', p_metadata => %s)", (uuid4(), name, metadata))
    [check] = [check for check in examine(database) if check.check == "connections" and "live nodes" in check.message]
    assert (check.level, check.message) == ("ok", "2 live nodes may open up to 35: n1 10, n2 25")
    conn.execute("update headrace_internal.node set stopped_at = headrace.clock()")
    assert not [check for check in examine(database) if "live nodes" in check.message]


async def test_running_sequencer_is_seen_whatever_else_its_node_does(database: Target, conn: Connection) -> None:
    """Its sessions are shared by all loops of the node: the last query of each says nothing."""
    node = Node(Headrace(), [database], identity=Identity(name="n1"))
    running = asyncio.create_task(node.run())
    try:
        async with asyncio.timeout(20):
            while problems(database, "sequencer", "warning"):
                await asyncio.sleep(0.02)
        [check] = problems(database, "sequencer", "ok")
        assert check.message == "runs on n1"
    finally:
        node.stop()
        await running
    assert problems(database, "sequencer", "warning")


def test_invalid_and_waiting_correlators_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    for name in ("bad", "late"):
        conn.execute(
            "insert into headrace.correlator (correlator, topic, pattern) values (%s, 'orders', 'push(x) {placed}')", (name,)
        )
    conn.execute(
        "update headrace_internal.correlator_version set status = 'invalid', error = E'no\\nsense' where correlator = 'bad'"
    )
    conn.execute(
        "update headrace_internal.correlator_version set written_at = written_at - interval '1 minute' where correlator = 'late'"
    )
    assert [one.message for one in problems(database, "correlators")] == ["default/bad is invalid: no"]
    assert "default/late has waited" in problems(database, "correlators", "warning")[0].message


def test_recorded_failures_are_found(database: Target, conn: Connection) -> None:
    for _ in range(2):
        conn.execute("select headrace_internal.record_failure('sequence', 'shop', 'orders', E'no branch\\nat all')")
    [check] = problems(database, "failures", "warning")
    assert check.message.startswith("sequence shop/orders failed 2 times since") and check.message.endswith(": no branch")
    conn.execute("select headrace_internal.record_failure('sequence', 'shop', 'orders', 'no branch')")
    assert problems(database, "failures")


def test_failed_inline_rules_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    conn.execute(
        "insert into headrace_internal.inline_failure (topic_id, event_id, error) "
        "select headrace.topic_id('orders'), headrace.uuid_v7(), E'division by zero\nin a rule' from generate_series(1, 3)"
    )
    [check] = problems(database, "failures", "warning")
    assert check.message.startswith("inline rules of default/orders failed on 3 events since")
    assert check.message.endswith(": division by zero")


def test_rights_that_nobody_should_have_are_found(database: Target, conn: Connection) -> None:
    """As after an installation that left out the grants."""
    assert not problems(database, "grants")
    role = f"tenant_{uuid4().hex[:8]}"
    conn.execute(f"create role {role}")
    try:
        conn.execute("select headrace.grant_namespace(%s, 'default', 'consume')", (role,))
        assert not problems(database, "grants")
        conn.execute("grant execute on function headrace.drop_topic to public")
        conn.execute(f"grant select on headrace_internal.outbox to {role}")
        public, tenant = problems(database, "grants")
        assert "PUBLIC holds 1 rights" in public.message and "headrace.drop_topic" in public.message
        assert f"{role} holds 1 rights" in tenant.message and "select on headrace_internal.outbox" in tenant.message
        assert tenant.advice == "run: headrace migrate; it restores the rights"
    finally:
        conn.execute(f"drop owned by {role}; drop role {role}")


def test_schema_in_a_search_path_where_others_may_create_is_found(database: Target, conn: Connection) -> None:
    assert not problems(database, "search path", "warning")
    conn.execute("grant create on schema public to public")
    [finding] = problems(database, "search path", "warning")
    assert finding.message == "PUBLIC may create functions in schema public, which is in the search path"
    assert finding.advice is not None and "revoke create on schema public from PUBLIC" in finding.advice
    conn.execute("revoke create on schema public from public; create schema shared; grant create on schema shared to public")
    assert not problems(database, "search path", "warning")
    name = conn.info.dbname
    conn.execute(f"alter database {name} set search_path = shared, public")
    [finding] = problems(database, "search path", "warning")
    assert "schema shared" in finding.message


async def test_doctor_of_a_superuser_calls_no_function_planted_in_schema_public(database: Target, conn: Connection) -> None:
    conn.execute("create function public.format(text, text, text) returns text language sql as 'select 1 / 0; select $1'")
    conn.execute("create function public.round(numeric) returns numeric language sql as 'select 1 / 0.0'")
    conn.execute("select headrace.register_node(%s, 'gone', '1', '{}')", (uuid4(),))
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '1 hour'")
    conn.execute(f"alter database {conn.info.dbname} set search_path = public, pg_catalog")
    assert "default/gone is lost" in problems(database, "nodes", "warning")[0].message


def test_old_emitted_at_does_not_count_as_waiting(database: Target, conn: Connection) -> None:
    topic(conn)
    conn.execute("select headrace.publish('orders', 'placed', '1', p_emitted_at => '2013-01-01')")
    assert not problems(database, "outbox")


def test_stopped_consumer_and_dead_letters_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    fill(conn, 3)
    for name, policy in (("a", Failure.stop()), ("b", Failure.dead_letter(attempts=1)), ("c", Failure.retry())):
        id = create_consumer(conn, Consumer(topic="orders", name=name, handler=lambda event, tx: None, failure=policy))
        for _ in range(3 if name == "c" else 1):
            conn.execute("select headrace.fail(%s, 0, 0, 1, 1, 'ValueError')", (id,))
    node = uuid4()
    conn.execute("select headrace.register_node(%s, 'node', '1')", (node,))
    conn.execute("select headrace.register_consumers(%s, '{orders/a,orders/b,orders/c}')", (node,))
    [stopped] = problems(database, "consumers")
    assert "default/orders/a" in stopped.message and "headrace consumer resume orders a" in str(stopped.advice)
    [letters] = problems(database, "dead letters", "warning")
    assert "default/orders/b: 1 event was" in letters.message
    [failing] = problems(database, "consumers", "warning")
    assert "default/orders/c" in failing.message


def test_consumer_that_no_node_runs_and_that_keeps_events_is_found(database: Target, conn: Connection) -> None:
    topic(conn)
    create_consumer(conn, Consumer(topic="orders", name="old-name", handler=lambda event, tx: None))
    assert problems(database, "consumers", "warning") == [], "it keeps nothing"
    fill(conn, 7)
    [found] = problems(database, "consumers", "warning")
    assert found.message.startswith("default/orders/old-name: no node runs it, and 7 events behind it stay in the log")
    assert found.advice is not None and "headrace consumer drop orders old-name" in found.advice
    node = uuid4()
    conn.execute("select headrace.register_node(%s, 'node', '1')", (node,))
    conn.execute("select headrace.register_consumers(%s, '{orders/old-name}')", (node,))
    assert problems(database, "consumers", "warning") == []


@pytest.mark.parametrize("ordered_by", ["partition", "topic"])
def test_consumer_that_has_handled_everything_keeps_nothing(
    database: Target, conn: Connection, ordered_by: Literal["partition", "topic"]
) -> None:
    topic(conn, partitions=8)
    create_consumer(conn, Consumer(topic="orders", name="c", handler=lambda event, tx: None, ordered_by=ordered_by))
    fill(conn, 7, keys=2)
    assert "7 events behind it" in problems(database, "consumers", "warning")[0].message
    for row in read_log(conn, "orders"):
        partition = row.partition if ordered_by == "partition" else -1
        conn.execute("update headrace_internal.cursor set position = %s where partition = %s", (row.position, partition))
    assert problems(database, "consumers", "warning") == [], "partitions without events keep nothing"
    fill(conn, 1)
    assert "1 event behind it stays" in problems(database, "consumers", "warning")[0].message


def test_time_partitions_that_end_soon_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    assert not problems(database, "time partitions", "warning")
    conn.execute("update headrace_internal.topic set log_until = now()")
    assert problems(database, "time partitions", "warning")


def test_open_transaction_is_found(database: Target, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "transaction_max_s", 0.0)
    with conn.transaction():
        conn.execute("create table held ()")
        [check] = problems(database, "open transactions", "warning")
        assert f"pg_terminate_backend({conn.info.backend_pid})" in str(check.advice)


def test_invalid_index_is_found(database: Target, conn: Connection) -> None:
    conn.execute("create index half_built on headrace_internal.consumer (created_at)")
    conn.execute("update pg_index set indisvalid = false where indexrelid = 'headrace_internal.half_built'::regclass")
    [check] = problems(database, "indexes")
    assert check.advice == "run: reindex index headrace_internal.half_built"


def test_log_that_is_ahead_of_the_clock_is_found(database: Target, conn: Connection) -> None:
    """The clock jumps ahead, an event is sequenced, and the clock comes back: a new timer is due two hours late."""
    topic(conn)
    fill(conn, 1)
    assert problems(database, "log time", "ok")
    shift_clock(conn, "2 hours 10 s")
    fill(conn, 1)
    shift_clock(conn, "0 s")
    [check] = problems(database, "log time", "warning")
    assert re.fullmatch(
        r"the log time of topic default/orders is ahead of the clock by 02:0\d:\d\d: new timers .*", check.message
    )
    conn.execute(f"alter database {conn.info.dbname} set headrace.clock_shift = '3 hours'")
    assert problems(database, "log time", "ok")


@pytest.mark.lane("pg15")
def test_function_whose_queries_are_compiled_is_found(database: Target, conn: Connection) -> None:
    assert problems(database, "jit", "ok")
    conn.execute("alter function headrace.read_log reset jit")
    assert problems(database, "jit", "ok"), "the tests switch the compiler off"
    conn.execute(f"alter database {conn.info.dbname} set jit = on")
    [check] = problems(database, "jit", "warning")
    assert check.advice
    conn.execute(check.advice.removeprefix("run: "))
    assert problems(database, "jit", "ok")


def test_full_server_is_found(database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.observe.doctor.CONNECTIONS_MAX", 0.0)
    assert problems(database, "connections", "warning")


def test_shards_that_differ_are_found(server: Server, database: Target, conn: Connection) -> None:
    topic(conn)
    with own_database(server, "other", template="headrace_template") as other:
        [mine, theirs] = compare_shards([database, other])
    assert (mine.level, theirs.level) == ("ok", "problem")
    assert "default/orders" in theirs.message


def test_extensions_are_listed(database: Target, lane: str) -> None:
    output = {check.check: check.message for check in examine(database) if check.check in ("pg_cron", "pg_partman")}
    assert output["pg_partman"].startswith("version" if lane == "pg15" else "not installed")


def test_invalid_and_waiting_rules_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    for rule in ("bad", "late"):
        create_rule(conn, Rule(name=rule, topic="orders", event_type="placed", action="MAIL"))
    conn.execute(
        "update headrace_internal.rule_version set status = 'invalid', error = E'no condition\nat all' where rule = 'bad'"
    )
    conn.execute("update headrace_internal.rule_version set written_at = written_at - interval '1 minute' where rule = 'late'")
    assert [one.message for one in problems(database, "rules")] == ["default/bad is invalid: no condition"]
    assert "default/late has waited" in problems(database, "rules", "warning")[0].message


def test_late_and_dead_actions_are_found(database: Target, conn: Connection) -> None:
    for _ in range(2):
        send_action(conn, "MAIL")
    conn.execute("select headrace.bury_actions(array[1], 'failed', 'ValueError: no', null, null, null)")
    conn.execute("update pgmq.q_hr_default set vt = vt - interval '2 minutes'")
    assert "1 actions are due" in problems(database, "actions", "warning")[0].message
    assert "1 action was moved to the dead letters" in problems(database, "dead letters", "warning")[0].message


def test_failing_schedules_and_lost_nodes_are_found(database: Target, conn: Connection) -> None:
    topic(conn)
    create_schedule(conn, "daily", cron="0 6 * * *", topic="orders", type="due")
    assert [one.level for one in examine(database) if one.check == "schedules"] == ["ok"]
    conn.execute("update headrace_internal.schedule set error = 'disk full'")
    conn.execute("select headrace.register_node(%s, 'gone', '1', '{}')", (uuid4(),))
    conn.execute("update headrace_internal.node set heartbeat_at = heartbeat_at - interval '1 hour'")
    assert "disk full" in problems(database, "schedules", "warning")[0].message
    assert "default/gone is lost" in problems(database, "nodes", "warning")[0].message
    conn.execute("update headrace_internal.schedule set replan_at = 'infinity'")
    assert "is invalid" in problems(database, "schedules")[0].message


def test_lost_nodes_are_one_line_that_names_the_command(database: Target, conn: Connection) -> None:
    conn.execute(
        """insert into headrace_internal.node (node_id, name, namespace, version, heartbeat_at)
        select gen_random_uuid(), 'web-' || n, 'default', '0.1.0', headrace.clock() - make_interval(mins => 2 + n) from generate_series(1, 18) n"""
    )
    [lost] = problems(database, "nodes", "warning")
    assert "18 nodes are lost" in lost.message and "web-1, web-2, web-3, …" in lost.message
    assert "headrace node forget --lost" in lost.advice


def test_node_that_could_become_superuser_is_found(database: Target, conn: Connection) -> None:
    assert next(check for check in examine(database) if check.check == "owner").level == "ok"
    role = f"node_{uuid4().hex[:12]}"
    conn.execute(f"create role {role}")
    try:
        conn.execute("select headrace.grant_node(%s)", (role,))
        check = next(check for check in examine(database) if check.check == "owner")
        assert check.level == "warning" and role in check.message
    finally:
        conn.execute(f"drop owned by {role}; drop role {role}")


def test_fill_of_the_lock_table_is_shown(database: Target, conn: Connection) -> None:
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(n) from generate_series(1, 100) n")
        check = next(check for check in examine(database) if check.check == "locks")
    used, places = (int(number) for number in re.findall(r"\d+", check.message))
    assert check.level == "ok" and 100 <= used < places
