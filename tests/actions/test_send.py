"""Sending: in the caller's transaction, in order, checked."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headrace.actions import queue_state, send_action
from headrace.core import Invalid, InvalidEventType
from headrace.db import Connection, Server, Target, connect, migrate
from tests.actions.conftest import send, waiting
from tests.builders import notifications


def envelope(n: int) -> Jsonb:
    return Jsonb({"id": str(uuid4()), "action": "work", "payload": n})


def test_ids_come_in_the_order_of_the_actions_also_with_delays(conn: Connection) -> None:
    actions = [envelope(n) for n in range(6)]
    rows = conn.execute("select headrace.send_actions('default', %s, %s)", (actions, [5, None, 0, 5, 60, 0])).fetchall()
    for n, (msg_id,) in enumerate(rows):
        row = conn.execute(
            "select message -> 'payload', round(extract(epoch from vt - enqueued_at)) from pgmq.q_hr_default where msg_id = %s",
            (msg_id,),
        ).fetchone()
        assert row == (n, [5, 0, 0, 5, 60, 0][n])


def test_rolled_back_action_is_not_sent(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        send(conn, 1)
    assert waiting(conn) == []


def test_sending_no_actions_does_nothing(conn: Connection) -> None:
    assert conn.execute("select headrace.send_actions('default', '{}')").fetchall() == []


def test_message_that_is_not_an_action_is_rejected(conn: Connection) -> None:
    with pytest.raises(psycopg.Error) as rejected:
        conn.execute("select headrace.send_actions('default', %s)", ([envelope(1), Jsonb({"action": "work"})],))
    assert rejected.value.sqlstate == "HR300"
    assert waiting(conn) == []


def test_invalid_name_and_delay_are_rejected_with_a_reason(conn: Connection) -> None:
    with pytest.raises(InvalidEventType, match="is not a name"):
        send_action(conn, "no name")
    with pytest.raises(Invalid, match="cannot be"):
        send_action(conn, "work", delay=timedelta(seconds=-1))


def test_envelope_has_all_fields_of_the_action(conn: Connection) -> None:
    conn.execute("select set_config('headrace.node', 'n1', false)")
    action_id = send_action(conn, "work", {"a": 1}, key="k", priority=3, event_type="placed")
    (message,) = conn.execute("select message from pgmq.q_hr_default").fetchone() or ({},)
    assert message.pop("emitted_at")
    assert message == {
        "id": str(action_id),
        "action": "work",
        "payload": {"a": 1},
        "key": "k",
        "priority": 3,
        "namespace": "default",
        "event_type": "placed",
        "producer": "n1",
        "scheduled_task_id": None,
        "cause": {},
    }


def test_sender_notifies_only_a_node_that_sleeps(conn: Connection, second: Connection) -> None:
    second.execute("listen headrace_action")
    conn.execute("select headrace.set_queue_asleep(false)")
    send(conn, 1)
    assert notifications(second, conn) == 0
    conn.execute("select headrace.set_queue_asleep(true)")
    send(conn, 2)
    assert [notification.payload for notification in second.notifies(timeout=60, stop_after=1)] == [""], "every role may listen"


def test_queue_is_created_and_dropped_with_its_namespace(conn: Connection) -> None:
    conn.execute("insert into headrace_internal.namespace (namespace) values ('tenant')")
    send_action(conn, "work", namespace="tenant")
    assert queue_state(conn, namespace="tenant").due == 1
    assert queue_state(conn).due == 0
    conn.execute("delete from headrace_internal.namespace where namespace = 'tenant'")
    assert conn.execute("select queue_name from pgmq.meta where queue_name like '%tenant%'").fetchall() == []


def test_namespace_with_the_longest_name_has_its_queue(conn: Connection) -> None:
    conn.execute("insert into headrace_internal.namespace (namespace) values (%s)", ("n" * 40,))
    send_action(conn, "work", namespace="n" * 40)
    assert queue_state(conn, namespace="n" * 40).due == 1


def test_functions_of_pgmq_work_on_the_queue(conn: Connection) -> None:
    send(conn, 1, 2, key="k", priority=5)
    read = conn.execute("select msg_id, read_ct from pgmq.read('hr_default', 30, 10)").fetchall()
    assert [row[1] for row in read] == [1, 1]
    conn.execute("select pgmq.set_vt('hr_default', %s, 0)", (read[0][0],))
    conn.execute("select pgmq.delete('hr_default', %s::bigint)", (read[1][0],))
    assert waiting(conn) == [1]


def test_owner_without_superuser_rights_can_migrate_and_send(server: Server) -> None:
    role, database = f"owner_{uuid4().hex}", f"owned_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create role {role} login")
        admin.execute(f"create database {database} owner {role}")
    try:
        with connect(Target("owned", server.dsn(database).replace("postgres@", f"{role}@"))) as conn:
            migrate(conn)
            send(conn, 1)
            assert waiting(conn) == [1]
    finally:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"drop database {database} with (force)")
            admin.execute(f"drop role {role}")
