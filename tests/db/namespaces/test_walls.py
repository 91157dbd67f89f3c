"""Attacks of an admin of namespace a on namespace b. Each worked once."""

from __future__ import annotations

import contextlib

import psycopg
import pytest

from headrace.core import TopicExists, map_database_errors
from headrace.db import Connection, Target, connect, create_namespace, drop_namespace
from headrace.log.outbox import publish
from headrace.log.topics import create_topic, read_log
from tests.builders import drain
from tests.db.namespaces.conftest import SignIn, ids

SECRET = "select payload from headrace.outbox where topic_id = %s"


def test_schedule_rule_and_correlator_stay_in_their_own_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    role, known = sign_in(a="admin"), ids(owner_conn, "b")
    role.execute("insert into headrace.rule (rule, topic, event_type, action) values ('r', 'orders', 'placed', 'A')")
    role.execute("insert into headrace.correlator (correlator, topic, pattern) values ('c', 'orders', 'push(x) {placed}')")
    for attack in (
        "insert into headrace.schedule (schedule, cron, topic_id, type) values ('s', '* * * * *', %(topic_id)s, 'forged')",
        "update headrace.schedule set topic_id = %(topic_id)s",
        "insert into headrace.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action, priority, "
        "delay_s, timing, active) select rule_id, 99, 'a', rule, %(topic_id)s, event_type, condition, action, 0, 0, 'after', true "
        "from headrace.rule",
    ):
        with pytest.raises(psycopg.Error):
            role.execute(attack, known)
    for column in ("topic_id", "rule_id", "version", "status"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            role.execute(f"update headrace.rule set {column} = {column}")
    # Columns of ours in a view that may be written: the value is ignored.
    role.execute("insert into headrace.rule (rule, topic, event_type, action, topic_id) "
                 "values ('s', 'orders', 'placed', 'A', %(topic_id)s)", known)  # fmt: skip
    role.execute("insert into headrace.schedule (schedule, cron, topic, type, topic_id) "
                 "values ('s', '* * * * *', 'orders', 'due', %(topic_id)s)", known)  # fmt: skip
    own = ids(owner_conn, "a")["topic_id"]
    for table in ("rule", "rule_version", "correlator", "correlator_version", "schedule"):
        rows = owner_conn.execute(f"select distinct topic_id from headrace_internal.{table} where namespace = 'a'").fetchall()
        assert rows == [(own,)], table


def test_namespaces_with_similar_names_share_no_queue(conn: Connection) -> None:
    for namespace in ("shop", "shop_dlq", "shop__dlq", "d_shop"):
        create_namespace(conn, namespace)
    tables = conn.execute(
        "select count(*), count(distinct q.t) from headrace_internal.namespace n, headrace_internal.queue_tables(n.namespace) q (t)"
    ).fetchone()
    assert tables is not None and tables[0] == tables[1]
    conn.execute("select headrace.send_action('A', '1', p_namespace => 'shop')")
    conn.execute("select headrace.bury_unhandled(0, 'shop')")
    assert conn.execute("select dead from headrace.queue_state('shop')").fetchone() == (1,)
    assert conn.execute("select due from headrace.queue_state('shop_dlq')").fetchone() == (0,)
    drop_namespace(conn, "shop_dlq")
    assert conn.execute("select dead from headrace.queue_state('shop')").fetchone() == (1,)


MODES = ["access share", "row share", "row exclusive", "share update exclusive", "share", "share row exclusive", "exclusive",
         "access exclusive"]  # fmt: skip


def test_locks_a_role_can_take_do_not_stop_another_namespace(owner_conn: Connection, sign_in: SignIn, database: Target) -> None:
    role = sign_in(a="admin")
    relations = owner_conn.execute(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind in ('r', 'p', 'v')"
    ).fetchall()
    role.autocommit = False
    taken = set()
    for (relation,) in relations:
        for mode in MODES:
            try:
                with role.transaction():
                    role.execute(f"lock table {relation} in {mode} mode nowait")
                taken.add(mode)
            except psycopg.Error:
                continue
        try:
            with role.transaction():
                role.execute(f"select 1 from {relation} for update")
        except psycopg.Error:
            continue
    assert "access share" in taken, "the role holds the locks of a reader"
    role.execute("select pg_advisory_lock(n) from generate_series(1, 100) n")
    with connect(database) as other, other.transaction():
        other.execute("set local lock_timeout = '2s'")
        publish(other, "orders", "placed", {"n": 4}, namespace="b")
        other.execute(
            "insert into headrace.rule (namespace, rule, topic, event_type, action) values ('b', 'r', 'orders', 'placed', 'A')"
        )
        other.execute("select headrace.send_action('A', p_namespace => 'b')")
        other.execute("select headrace.claim_ordered_actions('A', 1, 30, 'b')")
        other.execute("select headrace.claim(%(consumer_id)s, 10)", ids(other, "b"))
    drain(owner_conn)
    role.rollback()


def test_admin_cannot_lock_a_view_in_front_of_another_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    """Only modes that readers and writers of other namespaces do not wait for."""
    role, other = sign_in(a="admin"), sign_in(b="admin")
    views = owner_conn.execute("select viewname from pg_views where schemaname = 'headrace' order by 1").fetchall()
    for (view,) in views:
        for mode in MODES[3:]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                role.execute(f"begin; lock table headrace.{view} in {mode} mode nowait")
            role.rollback()
    with role.transaction():
        for (view,) in views:
            for mode in MODES[:3]:
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege), role.transaction():
                    role.execute(f"lock table headrace.{view} in {mode} mode nowait")
        other.execute("set lock_timeout = '1s'")
        other.execute("insert into headrace.event_type (event_type) values ('other')")
        other.execute("update headrace.event_type set description = 'x' where event_type = 'other'")
        other.execute("update headrace.event_type set dropped = true where event_type = 'other'")
        owner_conn.execute("set lock_timeout = '1s'")
        owner_conn.execute(f"select headrace.grant_namespace('{other.info.user}', 'b', 'consume')")


@pytest.mark.parametrize("level", ["admin", "node", "owner"])
def test_definitions_are_dropped_by_an_update(owner_conn: Connection, sign_in: SignIn, level: str) -> None:
    role = {"admin": lambda: sign_in(a="admin"), "node": sign_in, "owner": lambda: owner_conn}[level]()
    if level == "node":
        owner_conn.execute("select headrace.grant_node(%s)", (role.info.user,))
    role.execute("select set_config('headrace.namespace', 'a', false)")
    for kind, columns, values in (
        ("event_type", "event_type", "'x'"),
        ("action", "action", "'x'"),
        ("rule", "rule, topic, event_type, action", "'x', 'orders', 'placed', 'A'"),
        ("correlator", "correlator, topic, pattern", "'x', 'orders', 'push(x) {placed}'"),
        ("relay", "relay, topic, target", "'x', 'orders', 'webhook'"),
        ("schedule", "schedule, cron, topic, type", "'x', '* * * * *', 'orders', 'due'"),
    ):
        role.execute(f"insert into headrace.{kind} ({columns}) values ({values})")
        for expected in ([("x", True)], []):
            dropped = (
                f"update headrace.{kind} set dropped = true where {kind} = 'x' and namespace = 'a' returning {kind}, dropped"
            )
            assert role.execute(dropped).fetchall() == expected, kind
        assert role.execute(f"select from headrace.{kind} where {kind} = 'x' and namespace = 'a'").fetchall() == []


def test_open_create_topic_of_one_namespace_does_not_delay_another(owner_conn: Connection, sign_in: SignIn) -> None:
    """B creates a topic, publishes to it and reads its log while the transaction of A that creates one is open."""
    role, other = sign_in(a="admin"), sign_in(b="admin")
    other.execute("set lock_timeout = '100ms'")
    with role.transaction():
        create_topic(role, "mine")
        create_topic(other, "mine", partitions=2)
        publish(other, "mine", "placed", {"n": 1})
        drain(owner_conn)
        assert [event.payload for event in read_log(other, "mine")] == [{"n": 1}]
        assert other.execute("select count(*) from headrace.log where topic_id = headrace.topic_id('mine')").fetchone() == (1,)
    publish(role, "mine", "placed", {"n": 2})
    drain(owner_conn)
    assert [event.payload for event in read_log(role, "mine")] == [{"n": 2}]


def test_reader_of_a_new_topic_delays_its_own_sequencing_alone(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    create_topic(role, "mine")
    publish(role, "mine", "placed", {"n": 1})
    publish(owner_conn, "orders", "placed", {"n": 1}, namespace="b")
    with role.transaction():
        assert read_log(role, "mine") == []
        for _ in range(2):
            owner_conn.execute("select headrace.sequence()")
        assert len(read_log(owner_conn, "orders", namespace="b")) == 5
        assert owner_conn.execute("select namespace, name from headrace.failure").fetchall() == [("a", "mine")]
    owner_conn.execute("delete from headrace_internal.failure")
    drain(owner_conn)
    assert [event.payload for event in read_log(role, "mine")] == [{"n": 1}]


def test_topics_that_fail_delay_another_namespace_by_one_attempt(owner_conn: Connection, sign_in: SignIn) -> None:
    """Each costs the sequencer the 10 ms that it waits for a lock, in the transaction that shows the events of the others."""
    role = sign_in(a="admin")
    drain(owner_conn)
    for number in range(5):
        create_topic(role, f"new{number}")
        publish(role, f"new{number}", "placed", {"n": 1})
    failed = "select count(*), coalesce(sum(failures), 0) from headrace.failure where namespace = 'a'"
    with role.transaction():
        for number in range(5):
            read_log(role, f"new{number}")
        owner_conn.execute("select headrace.sequence()")
        assert owner_conn.execute(failed).fetchone() == (5, 5)
        owner_conn.execute("select set_config('headrace.clock_shift', '1 minute', false)")
        publish(owner_conn, "orders", "placed", {"n": 5}, namespace="b")
        owner_conn.execute("select headrace.sequence()")
        assert len(read_log(owner_conn, "orders", namespace="b")) == 5
        assert owner_conn.execute(failed).fetchone() == (5, 6)
    # The one that failed twice is due a little later.
    owner_conn.execute("select set_config('headrace.clock_shift', '2 minutes', false)")
    drain(owner_conn)
    assert owner_conn.execute(failed).fetchone() == (0, 0)


def test_stranger_with_any_lock_delays_no_wake_up(owner_conn: Connection, sign_in: SignIn) -> None:
    """Publishers of sleeping topics ask nobody who could say no: once it was an advisory lock, one for each hundredth of a second."""
    stranger, publisher = sign_in(), sign_in(a="publish")
    owner_conn.execute("update headrace_internal.topic set asleep = true; select headrace.sequence()")
    seconds = "generate_series(0, 2000) n"
    stranger.execute(
        "select pg_advisory_lock(hashtext('headrace_outbox'), "
        f"((date_part('epoch', clock_timestamp()) * 100)::bigint + n)::bit(32)::integer) from {seconds}"
    )
    owner_conn.execute("listen headrace_outbox")
    with publisher.transaction():
        publish(publisher, "orders", "placed", {"n": 4})
        owner_conn.execute("update headrace_internal.topic set asleep = true")
        publish(owner_conn, "orders", "placed", {"n": 4}, namespace="b")
        assert [notice.channel for notice in owner_conn.notifies(timeout=10, stop_after=1)] == ["headrace_outbox"]


def test_topic_is_created_where_the_owner_wants_whatever_the_caller_has_set(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    role.execute("set default_tablespace = 'pg_global'")
    create_topic(role, "mine")
    assert owner_conn.execute("select count(*) from pg_class where relname ~ '^log_' and reltablespace <> 0").fetchone() == (0,)


def test_repeated_creation_uses_up_no_ids(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    create_topic(role, "first")
    for _ in range(5):
        with pytest.raises(TopicExists):
            create_topic(role, "first")
        role.execute("select headrace.create_consumer('first', 'c', p_backoff_s => 2)")
    create_topic(role, "second")
    role.execute("select headrace.create_consumer('first', 'd')")
    topics = role.execute("select topic_id from headrace.topic where topic in ('first', 'second') order by 1").fetchall()
    consumers = role.execute("select consumer_id from headrace.consumer where consumer in ('c', 'd') order by 1").fetchall()
    assert topics[1][0] - topics[0][0] == 1 and consumers[1][0] - consumers[0][0] == 1


def test_topics_of_headrace_are_written_and_dropped_by_nobody_of_a_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    create_topic(owner_conn, "headrace.audit", namespace="a")
    publish(owner_conn, "headrace.audit", "consumer.pause", {"who": "ann"}, namespace="a")
    role.execute("create table pg_temp.t (x int)")
    event = '{"specversion": "1.0", "id": "1", "source": "/x", "type": "t"}'
    for attack in (
        "select headrace.publish('headrace.audit', 'forged', '{}')",
        """select headrace.publish_many('[{"topic": "orders", "type": "t"}, {"topic": "headrace.audit", "type": "t"}]')""",
        f"select headrace.publish_cloudevent('headrace.audit', '{event}')",
        "select headrace.create_topic('headrace.mine')",
        "select headrace.alter_topic('headrace.audit', p_retention => '1 day')",
        "select headrace.drop_topic('headrace.audit', p_force => true)",
        "select headrace.capture('pg_temp.t', 'headrace.audit')",
        "insert into headrace.schedule (schedule, cron, topic, type) values ('s', '* * * * *', 'headrace.audit', 't')",
        "insert into headrace.correlator (correlator, topic, pattern, outputs) values ('c', 'orders', 'push(x) {placed}', "
        """'{"x": {"event": "t", "topic": "headrace.audit"}}')""",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="reserved"):
            role.execute(attack)
    drain(owner_conn)
    assert [event.type for event in read_log(role, "headrace.audit")] == ["consumer.pause"]


def test_publisher_of_one_and_admin_of_another_reads_no_waiting_payload(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(b="publish", a="admin")
    publish(owner_conn, "orders", "placed", {"own": True}, namespace="a")
    own, other = ids(owner_conn, "a")["topic_id"], ids(owner_conn, "b")["topic_id"]
    assert role.execute(SECRET, (own,)).fetchall() == [({"own": True},)]
    assert role.execute(SECRET, (other,)).fetchall() == [(None,)]


def test_topic_ids_cannot_be_chosen(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="admin")
    with pytest.raises(psycopg.Error):
        role.execute("insert into headrace.topic (topic_id, namespace, topic) overriding system value values (999, 'a', 'mine')")
    with pytest.raises(psycopg.Error):
        role.execute(
            "insert into headrace_internal.topic (topic_id, namespace, topic) overriding system value values (999, 'a', 'm')"
        )
    create_topic(role, "mine")
    assert read_log(role, "mine") == []


def test_leaky_function_in_a_filter_sees_no_row_of_another_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    """The planner may evaluate a cheap function of the reader before the filter of a view that is no security barrier."""
    role = sign_in(a="admin")
    role.execute(
        """create function pg_temp.peek(text) returns boolean language plpgsql cost 0.0000001 as
           $$ begin raise notice '%', $1; return true; end $$"""
    )
    notices: list[str] = []
    role.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    for relation in ("log", "topic", "consumer", "schedule", "outbox", "namespace", "consumer_lag", "event_unmatched"):
        role.execute(f"select count(*) from headrace.{relation} r where pg_temp.peek(to_jsonb(r)::text)")
    assert notices and not any('"b"' in notice or "waiting" in notice for notice in notices)


def test_migrating_again_as_the_owner_restores_the_walls(owner_conn: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="publish")
    owner_conn.execute(
        f"grant usage on schema headrace_internal to {role.info.user}; grant select on headrace_internal.log to public"
    )
    assert role.execute("select count(*) from headrace_internal.log").fetchone() == (6,)
    with map_database_errors():
        owner_conn.execute("select headrace_internal.secure()")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute("select count(*) from headrace_internal.log")


def test_planted_operators_and_functions_open_no_view(owner_conn: Connection, sign_in: SignIn) -> None:
    """A view runs in the reader's session: a function that it calls must not look names up by the reader's search path."""
    role = sign_in(a="publish")
    name = role.info.user
    owner_conn.execute(f"create schema authorization {name}")
    role.execute(
        f"""create function {name}.yes(text, text) returns boolean language sql as 'select true';
            create operator {name}.= (leftarg = text, rightarg = text, function = {name}.yes);
            create function {name}.pg_has_role(name, oid, text) returns boolean language sql as 'select true';
            create function {name}.pg_has_role(name, regrole, text) returns boolean language sql as 'select true';
            set search_path = {name}, pg_catalog"""
    )
    rows = role.execute(
        "select (select count(*) from headrace.topic), (select count(*) from headrace.outbox), (select count(*) from headrace.namespace)"
    ).fetchone()
    assert rows == (1, 0, 1)


def test_catalog_shows_no_name_of_a_namespace(conn: Connection) -> None:
    """Names of tables, functions and columns are open to every role."""
    create_namespace(conn, "merger_with_acme")
    create_topic(conn, "layoffs", namespace="merger_with_acme")
    conn.execute(
        """insert into headrace.rule (namespace, rule, topic, event_type, condition, action, timing)
           values ('merger_with_acme', 'r', 'layoffs', 'planned', 'object ->> ''who'' = ''everybody''', 'TELL', 'inline')"""
    )
    for catalog in ("pg_class", "pg_proc", "pg_trigger", "pg_constraint", "pg_attribute", "pg_description", "pg_statistic_ext"):
        text = str(conn.execute(f"select c::text from {catalog} c where c::text ~ 'acme|layoffs|everybody'").fetchall())
        assert text == "[]", catalog
