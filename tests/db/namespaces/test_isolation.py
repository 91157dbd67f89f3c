"""A role of namespace a can neither read nor act in b, by no function and no table."""

from __future__ import annotations

import psycopg
import pytest

from headrace.consume import consumer_lag
from headrace.db import Connection, Level, list_namespaces
from headrace.log.topics import list_topics
from headrace.schedules import list_schedules
from tests.db.namespaces.conftest import SignIn, ids

LEVELS: list[Level] = ["publish", "consume", "work", "admin"]


def snapshot(conn: Connection, namespace: str) -> list[object]:
    """All rows of a namespace, as the owner sees them."""
    owned = "(select topic_id from headrace.topic where namespace = %(namespace)s)"
    consumers = f"(select consumer_id from headrace.consumer where topic_id in {owned})"
    schedules = "(select schedule_id from headrace.schedule where namespace = %(namespace)s)"
    texts = [
        "select * from headrace.topic where namespace = %(namespace)s",
        f"select * from headrace_internal.topic_border where topic_id in {owned} order by 1, 2",
        f"select * from headrace.outbox where topic_id in {owned} order by id",
        f"select * from headrace.log where topic_id in {owned} order by position",
        f"select * from headrace.consumer where topic_id in {owned}",
        f"select * from headrace.cursor where consumer_id in {consumers} order by 1, 2",
        f"select * from headrace.event_dead_letter where consumer_id in {consumers}",
        "select to_jsonb(s) from headrace.schedule s where namespace = %(namespace)s",
        "select * from headrace.pause where namespace = %(namespace)s order by kind, name",
        f"select * from headrace.schedule_due where schedule_id in {schedules} order by 1, 2",
        f"select * from headrace.schedule_tick where schedule_id in {schedules} order by 1, 2",
        "select * from headrace.namespace",
    ]
    return [conn.execute(text, {"namespace": namespace}).fetchall() for text in texts]


CALLS = [
    "select headrace.publish('orders', 'placed', '1', p_namespace => 'b')",
    'select headrace.publish_many(\'[{"topic": "orders", "type": "placed", "payload": 1}]\', \'b\')',
    "insert into headrace.event_0 (topic, type, payload, namespace) values ('orders', 'placed', '1', 'b')",
    "insert into headrace.event_1 (topic, type, payload, namespace, is_checked) values ('orders', 'placed', '1', 'b', true)",
    "insert into headrace.event_2 (topic, type, payload, namespace, missing_ok) select 'orders', 'placed', '1', 'b', true",
    "select headrace.publish_rows(%(topic_id)s, 'pg_class', 'insert', array['{}'::jsonb], null)",
    """select headrace.publish_cloudevent('orders', '{"specversion": "1.0", "id": "1", "source": "/", "type": "placed"}', 'b')""",
    "select headrace.commit_spark_batch('q', 1, '{}', 0, 'b')",
    "select headrace.stage_rows('q', 1, gen_random_uuid(), '{1}', '{orders}', '{placed}', '{}', '{1}', '{}', '{}', '{}', '{}', '{}', 'b')",
    "select headrace.drop_staged_rows('q', 1, '{}', 'b')",
    "select headrace.claim_actions('{NOTIFY}', 10, 30, p_namespace => 'b')",
    "select headrace.claim_ordered_actions('NOTIFY', 10, 30, 'b')",
    "select headrace.claim_retried_action('{NOTIFY}', false, 30, 'b')",
    "select headrace.discard_actions(p_namespace => 'b')",
    "select headrace.edit_dead_letter(1, '1', 'b')",
    "select headrace.set_queue_asleep(false, 'b')",
    "select headrace.queue_is_empty('b')",
    "select headrace.try_lock_topic(%(topic_id)s, 'archive')",
    "select headrace.record_capture('pg_class', %(topic_id)s, '{}', null, '{a,b,c}', null)",
    "insert into headrace.action (namespace, action) values ('b', 'FORGED')",
    "select headrace.handle_event_type('placed', 'FORGED', p_namespace => 'b')",
    """select headrace.write_definition('rule', null, '{"namespace": "b", "rule": "r", "topic": "orders", "event_type": "placed",
        "action": "A"}')""",
    """select headrace.write_definition('schedule', '{"namespace": "b", "schedule": "nightly"}', null)""",
    """select headrace.write_definition('schedule', '{"namespace": "a", "schedule": "nightly"}', '{"namespace": "b"}')""",
    "select headrace.send_action('NOTIFY', '1', p_namespace => 'b')",
    "select headrace.set_engine('orders', 'spark', 'b')",
    "select headrace.keep_until_archived('orders', true, 'b')",
    "select headrace.record_archive(%(topic_id)s, '/', '[]')",
    "select headrace.erase_key('orders', 'k', p_namespace => 'b')",
    "select headrace.pending_erasures(%(topic_id)s)",
    "select headrace.erased_texts(1, %(topic_id)s, '{1}', '{1}', '{1}')",
    "select headrace.end_erasure(1, %(topic_id)s, 1)",
    "select headrace.end_vacuum(1, '{}')",
    "select headrace.create_topic('new', p_namespace => 'b')",
    "select headrace.alter_topic('orders', 8, p_namespace => 'b')",
    "select headrace.drop_topic('orders', true, 'b')",
    "select headrace_internal.extend_log(%(topic_id)s, now())",
    "select headrace.topic_id('orders', 'b')",
    "select headrace.log_head(%(topic_id)s)",
    "select headrace.read_log(%(topic_id)s)",
    "select headrace.find_event('00000000-0000-4000-8000-000000000001', 'b')",
    "select headrace.due_consumers('b')",
    "select headrace_internal.compile_condition(%(consumer_id)s, 'true', 'true', null)",
    "select headrace.sequence()",
    "select headrace_internal.trim_outbox()",
    "select headrace.maintain_log()",
    "select headrace.drop_expired(%(topic_id)s, 'infinity', true)",
    "select headrace_internal.extend_log(%(topic_id)s, 'infinity')",
    "select headrace.create_consumer('orders', 'spy', p_namespace => 'b')",
    "select headrace.create_consumer('orders', 'mailer', p_namespace => 'b', p_where => 'true')",
    "select headrace.drop_consumer('orders', 'mailer', 'b')",
    "select headrace.claim(%(consumer_id)s, 10)",
    "select headrace.advance(%(consumer_id)s, 0, 99)",
    "select headrace.fail(%(consumer_id)s, 0, 0, 1, 1, 'x')",
    "select headrace.hold_back(%(consumer_id)s, 0, 0, 9)",
    "select headrace.claim_redrive(%(consumer_id)s)",
    "select headrace.redrive('orders', 'mailer', null, 'b')",
    "select headrace.discard('orders', 'mailer', null, 'b')",
    "select headrace.seek('orders', 'mailer', 'latest', false, 'b')",
    "select headrace.seek_position(%(topic_id)s, 'latest')",
    "select headrace.resume('consumer', 'orders/mailer', 'b')",
    "select headrace.pause('consumer', 'orders/mailer', p_namespace => 'b')",
    "select headrace.pause('schedule', 'nightly', p_namespace => 'b')",
    "select headrace.pause('queue', p_namespace => 'b')",
    "select headrace.resume('queue', p_namespace => 'b')",
    "select headrace.forget_nodes(p_namespace => 'b')",
    "select headrace.resume('schedule', 'nightly', 'b')",
    "insert into headrace.schedule (namespace, schedule, cron, topic, type) values ('b', 'spy', '* * * * *', 'orders', 'x')",
    "update headrace.schedule set cron = '* * * * *', dropped = true where namespace = 'b'",
    "select headrace.run_schedule(%(schedule_id)s)",
    "select headrace.run_schedule_now('nightly', 'b')",
    "select headrace_internal.publish_tick(%(schedule_id)s, now())",
    "select headrace.next_ticks('nightly', 10, 'b')",
    "select headrace.plan_schedule(%(schedule_id)s, '0 3 * * *', 'UTC', now(), array[now()], now(), now())",
    "select headrace_internal.claim_schedule(0)",
    "select headrace.create_namespace('c')",
    "select headrace.drop_namespace('b')",
    "select headrace.grant_namespace(current_user, 'b', 'admin')",
    "select headrace.revoke_namespace('postgres', 'b')",
    "select headrace_internal.apply_grants(current_user::regrole)",
    "select headrace_internal.secure()",
    "insert into headrace.outbox (topic_id, type, payload) values (%(topic_id)s, 'placed', '1')",
    "insert into headrace.namespace_grant (role, namespace, level) values (current_user::regrole, 'b', 'admin')",
    "insert into headrace.namespace (namespace) values ('c')",
    "insert into headrace.topic (namespace, topic) values ('b', 'new')",
    "insert into headrace.cursor (consumer_id, partition, position) values (%(consumer_id)s, 7, 0)",
    "insert into headrace.rule (namespace, rule, topic, event_type, action) values ('b', 'r', 'orders', 'placed', 'NOTIFY')",
    "insert into headrace.correlator (namespace, correlator, topic, pattern) values ('b', 'c', 'orders', 'push(x) {placed}')",
    "insert into headrace.schedule (namespace, schedule, cron, topic_id, type) values ('a', 's', '* * * * *', %(topic_id)s, 'x')",
    "insert into headrace.schedule (namespace, schedule, cron, topic, type) values ('b', 's', '* * * * *', 'orders', 'x')",
    "select headrace.claim(%(consumer_id)s, 10, p_caller => 'postgres')",
    "insert into headrace.schedule_due values (%(schedule_id)s, now())",
    "update headrace.topic set retention = '1 day', partitions = 9 where topic_id = %(topic_id)s",
    "update headrace.topic set namespace = 'b'",
    "update headrace.cursor set position = 99 where consumer_id = %(consumer_id)s",
    "update headrace.schedule set cron = '* * * * *' where schedule_id = %(schedule_id)s",
    "delete from headrace.log where topic_id = %(topic_id)s",
    "delete from headrace.outbox where topic_id = %(topic_id)s",
    "delete from headrace.consumer where consumer_id = %(consumer_id)s",
    "update headrace.schedule set dropped = true where schedule_id = %(schedule_id)s",
    "delete from headrace.topic where topic_id = %(topic_id)s",
    "truncate headrace.outbox",
    "drop table headrace.log",
    "select from headrace.topic where topic_id = %(topic_id)s for update",
    "create table headrace.mine (x int)",
    "copy headrace.outbox (topic_id, type, payload) from program 'true'",
]


def try_everything(role: Connection, known: dict[str, int]) -> None:
    """Every call, with ids of the other namespace."""
    for call in CALLS:
        try:
            with role.transaction():
                role.execute(call, known)
        except psycopg.Error as error:
            assert error.sqlstate in ("42501", "HR100", "HR101", "HR102", "HR130", "HR131", "23514", "55000", "42809"), (
                call,
                error,
            )


@pytest.mark.parametrize("level", LEVELS)
def test_no_call_of_a_role_changes_another_namespace(owner_conn: Connection, sign_in: SignIn, level: Level) -> None:
    role = sign_in(a=level)
    before = snapshot(owner_conn, "b")
    try_everything(role, ids(owner_conn, "b"))
    assert snapshot(owner_conn, "b") == before


def test_trying_everything_finds_a_seeded_hole(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="consume")
    before = snapshot(owner_conn, "b")
    hole = (
        "create or replace function headrace_internal.holds_level(p_caller name, p_level text, p_namespace text) returns boolean "
    )
    owner_conn.execute(hole + "language sql stable as $$ select true $$")
    try_everything(role, ids(owner_conn, "b"))
    assert snapshot(owner_conn, "b") != before


@pytest.mark.parametrize("level", LEVELS)
def test_no_table_or_view_shows_a_row_of_another_namespace(owner_conn: Connection, sign_in: SignIn, level: Level) -> None:
    """Every relation the role can read holds only rows of its own namespace."""
    role, known = sign_in(a=level), ids(owner_conn, "b")
    relations = owner_conn.execute(
        """select oid::regclass::text from pg_class
           where relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and relkind in ('r', 'p', 'v', 'S')"""
    ).fetchall()
    readable: dict[str, str] = {}
    for (relation,) in relations:
        try:
            readable[relation] = str(role.execute(f"select * from {relation}").fetchall())
        except psycopg.errors.InsufficientPrivilege:
            continue
    assert "headrace.topic" in readable
    assert not any(relation.startswith("headrace_internal.") for relation in readable)
    assert not any("secret': 'b'" in rows or "'b'" in rows for rows in readable.values())
    for column, value in known.items():
        for (relation,) in owner_conn.execute(
            """select format('%%I.%%I', table_schema, table_name) from information_schema.columns
               where table_schema like 'headrace%%' and column_name = %s""",
            (column,),
        ).fetchall():
            if relation in readable:
                assert role.execute(f"select from {relation} where {column} = %s", (value,)).fetchall() == [], relation


@pytest.mark.parametrize("level", LEVELS)
def test_unknown_and_forbidden_look_the_same(sign_in: SignIn, level: Level) -> None:
    """A role does not learn which topics another namespace has."""
    role = sign_in(a=level)
    hints = []
    for topic, namespace in (("orders", "b"), ("nothing", "b"), ("orders", "nowhere")):
        with pytest.raises(psycopg.Error) as error:
            role.execute("select headrace.topic_id(%s, %s)", (topic, namespace))
        hints.append(str(error.value.diag.message_hint).replace(topic, "…"))
    assert len(set(hints)) == 1


def test_lists_show_only_the_own_namespace(sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    assert [row.namespace for row in list_namespaces(role)] == ["a"]
    assert list_topics(role, namespace="b") == []
    assert list_schedules(role, namespace="b") == []
    assert consumer_lag(role, namespace="b") == []


@pytest.mark.parametrize("level", LEVELS)
def test_role_of_another_namespace_claims_and_locks_no_cursor_whose_position_it_guesses(
    owner_conn: Connection, sign_in: SignIn, level: Level
) -> None:
    role, consumer_id = sign_in(a=level), ids(owner_conn, "b")["consumer_id"]
    claim_at = "select partition from headrace.claim_at(%s, '{0,1}', '{0,0}', 0, pg_postmaster_start_time()) order by 1"
    with pytest.raises(psycopg.errors.InsufficientPrivilege), role.transaction():
        try:
            role.execute(claim_at, (consumer_id,))
        finally:
            assert owner_conn.execute(claim_at, (consumer_id,)).fetchall() == [(0,), (1,)]
