"""A unique key: while its action waits, or for a period, a second send returns the first one's id and sends nothing."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID

import pytest

from headrace.actions import cancel_actions, queue_state, send_action
from headrace.core import Invalid
from headrace.db import Connection, Target, connect
from tests.actions.conftest import Bench, run_dry, write
from tests.builders import shift_clock

HOUR = timedelta(hours=1)


async def test_second_send_returns_the_first_id_until_the_action_has_left_the_queue(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    first = send_action(conn, "work", 1, unique_key="k")
    assert send_action(conn, "work", 2, unique_key="k") == first
    other_key = send_action(conn, "work", 3, unique_key="l")
    other_name = send_action(conn, "rest", 4, unique_key="k")
    assert len({first, other_key, other_name}) == 3
    await bench.queue.claim(["rest"], 1)
    assert send_action(conn, "rest", 5, unique_key="k") == other_name  # in flight
    await run_dry(bench.worker(write))
    again = send_action(conn, "work", 6, unique_key="k")
    assert again != first
    await run_dry(bench.worker(write))
    assert conn.execute("select array_agg(n order by id) from effect").fetchone() == ([1, 3, 6],)


async def test_action_stays_unique_for_its_period_after_it_was_done(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    first = send_action(conn, "work", 1, unique_key="k", unique_for=HOUR)
    await run_dry(bench.worker(write))
    assert queue_state(conn).queued == 0
    assert send_action(conn, "work", 2, unique_key="k") == first
    shift_clock(conn, "59 minutes")
    assert send_action(conn, "work", 2, unique_key="k", unique_for=HOUR) == first
    shift_clock(conn, "61 minutes")
    assert send_action(conn, "work", 2, unique_key="k", unique_for=HOUR) != first


def test_rolled_back_send_keeps_no_key(conn: Connection) -> None:
    with pytest.raises(ZeroDivisionError), conn.transaction():
        first = send_action(conn, "work", 1, unique_key="k", unique_for=HOUR)
        assert send_action(conn, "work", 2, unique_key="k") == first
        raise ZeroDivisionError
    assert send_action(conn, "work", 3, unique_key="k") != first
    assert queue_state(conn).queued == 1


def test_concurrent_senders_send_one_action(conn: Connection, database: Target) -> None:
    """Eight sessions begin together, each in its own transaction: one sends, the others wait for it and get its id."""
    barrier = threading.Barrier(8)
    ids: list[list[UUID]] = []

    def send_all() -> None:
        with connect(database) as sender:
            mine = []
            barrier.wait(timeout=30)
            for n in range(25):
                with sender.transaction():
                    mine.append(send_action(sender, "work", n, unique_key=f"k{n}"))
            ids.append(mine)

    threads = [threading.Thread(target=send_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8 and all(mine == ids[0] for mine in ids)
    assert queue_state(conn).due == 25


def test_sender_that_waited_for_a_rollback_sends(conn: Connection, database: Target) -> None:
    sent: list[UUID] = []

    def send_second() -> None:
        with connect(database) as second:
            sent.append(send_action(second, "work", 2, unique_key="k"))

    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with connect(database) as first:
        first.autocommit = False
        send_action(first, "work", 1, unique_key="k")
        thread = threading.Thread(target=send_second)
        thread.start()
        while conn.execute(waits).fetchone() != (1,):
            assert thread.is_alive()
        first.rollback()
        thread.join()
    rows = conn.execute("select message ->> 'payload', (message ->> 'id')::uuid from pgmq.q_hr_default").fetchall()
    assert rows == [("2", sent[0])]


def test_cancelled_action_frees_its_key(conn: Connection) -> None:
    first = send_action(conn, "work", 1, unique_key="k", unique_for=HOUR)
    assert cancel_actions(conn, [first]) == 1
    assert send_action(conn, "work", 2, unique_key="k", unique_for=HOUR) != first


async def test_keys_that_nothing_holds_are_trimmed(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    send_action(conn, "work", 1, unique_key="done")
    await run_dry(bench.worker(write))
    send_action(conn, "work", 2, unique_key="waits")
    send_action(conn, "rest", 3, unique_key="period", unique_for=HOUR)
    conn.execute("delete from pgmq.q_hr_default where message ->> 'action' = 'rest'")
    conn.execute("select headrace_internal.trim_results()")
    keys = conn.execute("select array_agg(unique_key order by unique_key) from headrace_internal.unique_action").fetchone()
    assert keys == (["period", "waits"],)


def test_wrong_keys_and_periods_are_rejected(conn: Connection) -> None:
    for options in ({"unique_key": ""}, {"unique_key": "k" * 501}, {"unique_for": HOUR}):
        with pytest.raises(Invalid, match="1 to 500 characters"):
            send_action(conn, "work", **options)  # type: ignore[arg-type]
    for period in (timedelta(seconds=-1), timedelta(days=367)):
        with pytest.raises(Invalid, match="cannot be unique for"):
            send_action(conn, "work", unique_key="k", unique_for=period)
