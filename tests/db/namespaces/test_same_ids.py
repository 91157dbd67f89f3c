"""Two namespaces with an action of the same id: the sender chooses it, and the id of a rule's action can be computed."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.db import Connection
from headrace.observe.history import action_overview
from tests.db.namespaces.conftest import SignIn

ACTION = "00000000-0000-8000-8000-000000000001"
SEND = "select headrace.send_actions(%s, array[jsonb_build_object('id', %s::text, 'action', 'NOTIFY')])"
FAIL = """
    select headrace.fail_action(c.msg_id, c.read_ct, 5, 3600, 3600, %(error)s, p_namespace => %(namespace)s)
    from headrace.claim_actions('{NOTIFY}', 1, 30, p_namespace => %(namespace)s) c"""
ERRORS = "select namespace, error from headrace_internal.attempt order by 1"


@pytest.fixture
def failed_in_b(owner_conn: Connection) -> Connection:
    """An action of b has failed; one of a with the same id waits."""
    owner_conn.execute(SEND, ("b", ACTION))
    owner_conn.execute(FAIL, {"error": "only b may read this", "namespace": "b"})
    owner_conn.execute(SEND, ("a", ACTION))
    return owner_conn


def test_queued_action_shows_no_error_of_another_namespace(failed_in_b: Connection, sign_in: SignIn) -> None:
    role = sign_in(a="consume")
    assert role.execute("select action_id::text, error, attempts_max from headrace.queued_actions()").fetchall() == [
        (ACTION, None, None)
    ]
    rows = failed_in_b.execute("select error from headrace.queued_actions(p_namespace => 'b')").fetchall()
    assert rows == [("only b may read this",)]


def test_state_of_an_action_follows_the_attempts_of_its_namespace(failed_in_b: Connection, sign_in: SignIn) -> None:
    """a's action is due at the very time at which b's is tried again."""
    failed_in_b.execute(
        """do $$ begin execute format('update pgmq.%I set read_ct = 1, vt = (select retry_at from headrace_internal.attempt)',
               'q_' || headrace_internal.queue_of('a')); end $$"""
    )
    role = sign_in(a="admin")
    assert role.execute("select state from headrace.queued_actions()").fetchall() == [("in-flight",)]
    assert role.execute("select in_flight, retrying from headrace.queue_state()").fetchall() == [(1, 0)]
    states = "select labels[2], value from headrace.metrics() where metric = 'headrace_action_queue' and value > 0"
    assert role.execute(states).fetchall() == [("in-flight", 1)]
    for change in ("run_actions_now(", "cancel_actions(", "set_action_priority(1, "):
        assert role.execute(f"select headrace.{change}p_action => 'NOTIFY')").fetchall() == [(0,)], change


def test_erasure_leaves_attempts_of_another_namespace_alone(failed_in_b: Connection, sign_in: SignIn) -> None:
    """a names an event of b as one of its archive."""
    failed_in_b.execute(
        """insert into headrace_internal.firing (topic_id, position, event_id, rule_version_id, action, action_id)
           select l.topic_id, l.position, l.event_id, 1, 'NOTIFY', %s
           from headrace_internal.log l join headrace_internal.topic t using (topic_id) where t.namespace = 'b' and l.position = 1""",
        (ACTION,),
    )
    role = sign_in(a="admin")
    for event in failed_in_b.execute("select event_id from headrace_internal.firing").fetchall():
        archived = f'{{"event_ids": ["{event[0]}"], "positions": [1], "times": []}}'
        role.execute("select headrace.erase_key('orders', 'nobody', p_archived => %s)", (archived,))
    assert failed_in_b.execute(ERRORS).fetchall() == [("b", "only b may read this")]
    assert role.execute("select coalesce(row_counts ->> 'attempts', '0') from headrace.erasure").fetchall() == [("0",)]


def test_action_shows_the_attempts_of_its_own_namespace(failed_in_b: Connection) -> None:
    """The owner sees every namespace, and still asks for one."""
    assert action_overview(failed_in_b, UUID(ACTION), namespace="a").attempts == ()
    [attempt] = action_overview(failed_in_b, UUID(ACTION), namespace="b").attempts
    assert attempt.error == "only b may read this"
