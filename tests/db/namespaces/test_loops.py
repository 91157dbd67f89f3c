"""A node serves all namespaces: what an admin of one holds open delays the others by a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.db import Connection, Target
from tests.builders import start_python, wait_until
from tests.db.namespaces.conftest import SignIn

pytestmark = pytest.mark.lane("pg18")

TOPICS = 3
WITHIN_S = 20
TICKS = "select count(*) from headrace.schedule_tick join headrace.schedule using (schedule_id) where outcome = 'fired' and schedule = "


@contextmanager
def node(target: Target) -> Iterator[None]:
    process = start_python("headrace", "node", "run", "--dsn", target.dsn)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def count(conn: Connection, text: str) -> int:
    row = conn.execute(text).fetchone()
    assert row is not None
    return int(row[0])


def hand_over(holder: Connection, waiter: Connection, statement: str) -> None:
    """The holder commits, and the waiter has its locks before any loop sees what was written."""
    waiting = threading.Thread(target=waiter.execute, args=(statement,))
    waiting.start()
    blocked = f"select cardinality(pg_blocking_pids({waiter.info.backend_pid}))"
    wait_until(lambda: count(holder, blocked) > 0, "the second session waits")
    holder.commit()
    waiting.join()


def create_rules(admin: Connection, name: str) -> None:
    rule = "insert into headrace.rule (rule, topic, event_type, action) values (%(topic)s, %(topic)s, 'x', 'A')"
    for number in range(TOPICS):
        admin.execute("select headrace.create_topic(%s)", (f"{name}{number}",))
        admin.execute(rule, {"topic": f"{name}{number}"})
    valid = f"select count(*) from headrace.rule where status = 'valid' and rule ~ '^{name}'"
    wait_until(lambda: count(admin, valid) == TOPICS, "the rules are valid")


def hold_cursors_of_rules(admin: Connection, holder: Connection, _: Connection) -> None:
    """Of rules that are to be compiled."""
    create_rules(admin, "changed")
    holder.execute("begin")
    holder.execute("select headrace.set_engine(topic, 'database') from headrace.topic where topic ~ '^changed'")
    admin.execute("update headrace.rule set priority = priority + 1 where rule ~ '^changed'")


def hold_pauses_of_rules(admin: Connection, holder: Connection, _: Connection) -> None:
    """Of rules that fire: their actions are held, unless the rule is resumed meanwhile."""
    create_rules(admin, "paused")
    admin.execute("select headrace.pause('rule', rule) from headrace.rule where rule ~ '^paused'")
    holder.execute("begin")
    holder.execute("select headrace.resume('rule', rule) from headrace.rule where rule ~ '^paused'")
    admin.execute("select headrace.publish(topic, 'x', '1') from headrace.topic where topic ~ '^paused'")


def hold_cursors_of_correlators(admin: Connection, holder: Connection, _: Connection) -> None:
    """Of correlators that are to be compiled."""
    correlator = "insert into headrace.correlator (correlator, topic, pattern) values (%s, 'orders', 'push(x) {x}')"
    for number in range(TOPICS):
        admin.execute(correlator, (f"c{number}",))
    valid = "select count(*) from headrace.correlator where status = 'valid'"
    wait_until(lambda: count(admin, valid) == TOPICS, "the correlators are valid")
    holder.execute("begin")
    holder.execute("select headrace.set_engine('orders', 'database')")
    admin.execute("update headrace.correlator set pattern = 'push(y) {x}'")


def hold_schedules(admin: Connection, holder: Connection, waiter: Connection) -> None:
    """That are to be planned."""
    wait_until(lambda: count(admin, "select count(*) from headrace.schedule_due") > 0, "the schedule is planned")
    holder.execute("begin")
    holder.execute(
        """select headrace.plan_schedule(schedule_id, cron, zone, planned_until, '{}', planned_until, '-infinity')
           from headrace.schedule"""
    )
    waiter.execute("begin")
    hand_over(holder, waiter, "update headrace.schedule set source = 'mine'")


def hold_conditions(_: Connection, holder: Connection, waiter: Connection) -> None:
    """Of consumers, that are to be compiled."""
    create = "select headrace.create_consumer('orders', 'c', p_where => 'key = ''{}''')"
    holder.execute(create.format(1))
    holder.execute("begin")
    holder.execute(create.format(2))
    waiter.execute("begin")
    hand_over(holder, waiter, create.format(3))


HOLDS: list[Callable[[Connection, Connection, Connection], None]] = [
    hold_cursors_of_rules, hold_pauses_of_rules, hold_cursors_of_correlators, hold_schedules, hold_conditions,
]  # fmt: skip
"""Each of them once kept one of the loops waiting for 30 s or for ever."""


def test_open_transactions_of_one_namespace_delay_no_loop_of_another(
    owner_conn: Connection, sign_in: SignIn, database: Target
) -> None:
    other = sign_in(b="admin")
    other.execute("insert into headrace.rule (rule, topic, event_type, action) values ('old', 'orders', 'placed', 'A')")
    other.execute("insert into headrace.schedule (schedule, cron, topic, type) values ('old', '* * * * * *', 'orders', 'tick')")
    with node(database):
        wait_until(lambda: count(other, f"{TICKS} 'old'") > 0, "the node fires")
        for hold in HOLDS:
            hold(sign_in(a="admin"), sign_in(a="admin"), sign_in(a="admin"))
        ticks = count(other, f"{TICKS} 'old'")
        other.execute("select headrace.publish('orders', 'placed', '1', p_key => 'last')")
        other.execute("insert into headrace.rule (rule, topic, event_type, action) values ('new', 'orders', 'placed', 'A')")
        other.execute("insert into headrace.correlator (correlator, topic, pattern) values ('new', 'orders', 'push(x) {placed}')")
        other.execute("select headrace.create_consumer('orders', 'new', p_where => 'key = ''x''')")
        other.execute(
            "insert into headrace.schedule (schedule, cron, topic, type) values ('new', '* * * * * *', 'orders', 'tick')"
        )
        for what, text in {
            "a rule is compiled": "select count(*) from headrace.rule where rule = 'new' and status = 'valid'",
            "a rule fires": "select count(*) from headrace.event_history where rule = 'old' and key = 'last'",
            "a correlator is compiled": "select count(*) from headrace.correlator where correlator = 'new' and status = 'valid'",
            "a condition is compiled": "select count(*) from headrace.consumer where consumer = 'new' and condition_status = 'valid'",
            "an old schedule fires": f"select ({TICKS} 'old') - {ticks}",
            "a new schedule fires": f"{TICKS} 'new'",
        }.items():
            wait_until(lambda text=text: count(other, text) > 0, what, timeout_s=WITHIN_S)  # type: ignore[misc]
