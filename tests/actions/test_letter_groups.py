"""Groups of dead letters: the counts are those of all letters, bounded; pages cover a group once; only of the caller's namespace."""

from __future__ import annotations

import psycopg
import pytest

from headrace.db import Connection
from tests.actions.test_dead_letter import bury_events

BURY = """
insert into pgmq.q_hrd_default (vt, message)
select now(), jsonb_build_object('action', jsonb_build_object('id', gen_random_uuid(), 'action', %(action)s::text, 'payload', n),
    'reason', 'failed', 'error', %(error)s::text || n, 'attempts', 1, 'buried_at', headrace.clock() + n * interval '1 s')
from generate_series(1, %(count)s) n"""
COUNT = "select name, error_group, dead, is_more from headrace.count_dead_letters(%s, %s) where kind = 'action' order by 1, 2"
READ = "select number from headrace.read_dead_letters('action', 'queue', 'MAIL', 'failed', 'full #', p_after => %s, p_limit => 7)"


@pytest.fixture
def letters(conn: Connection) -> Connection:
    for action, error, count in (("MAIL", "full ", 40), ("MAIL", "gone ", 3), ("CHARGE", "full ", 5)):
        conn.execute(BURY, {"action": action, "error": error, "count": count})
    # Without an error, and without anything that a dead letter should have.
    conn.execute(
        'insert into pgmq.q_hrd_default (vt, message) values (now(), \'{"action": {"action": "MAIL"}, "reason": "lost"}\')'
    )
    conn.execute("insert into pgmq.q_hrd_default (vt, message) values (now(), '{}')")
    return conn


def test_groups_have_the_counts_of_all_letters(letters: Connection) -> None:
    counted = letters.execute(
        """select action, error_group, count(*), false from headrace.action_dead_letters() group by action, reason, error_group
        order by 1, 2"""
    ).fetchall()
    assert letters.execute(COUNT, (10_000, 200)).fetchall() == counted


def test_counts_and_groups_are_bounded(letters: Connection) -> None:
    assert ("MAIL", "full #", 20, True) in letters.execute(COUNT, (20, 200)).fetchall()
    assert len(letters.execute(COUNT, (20, 2)).fetchall()) == 2


def test_newest_and_oldest_are_those_of_the_group(letters: Connection) -> None:
    row = letters.execute(
        "select last_at - first_at from headrace.count_dead_letters(2) where name = 'MAIL' and error_group = 'full #'"
    ).fetchone()
    assert row is not None and row[0].total_seconds() == 39, "also of a group that is not counted to its end"


def test_pages_cover_a_group_once(letters: Connection) -> None:
    places: list[int] = []
    while page := letters.execute(READ, (places[-1] if places else 0,)).fetchall():
        places += [place for (place,) in page]
    assert len(places) == 40 and places == sorted(set(places))


def test_events_are_grouped_by_consumer_and_error(conn: Connection) -> None:
    bury_events(conn, 1, 2, 3, 4, 6)
    conn.execute("update headrace_internal.dead_letter set state = 'redrive' where position = 3")
    conn.execute("update headrace_internal.dead_letter set state = 'discarded' where position = 6")
    groups = conn.execute("select source, error_group, dead, marked from headrace.count_dead_letters() order by 2").fetchall()
    assert groups == [("orders/c", "KeyError: no #", 2, 0), ("orders/c", "ValueError: no #", 1, 1)]
    read = "select number, state from headrace.read_dead_letters('event', 'orders/c', null, 'handler failed', 'ValueError: no #', p_open => %s)"
    assert conn.execute(read, (False,)).fetchall() == [(1, "dead"), (3, "redrive")]
    assert conn.execute(read, (True,)).fetchall() == [(1, "dead")]


def test_groups_of_another_namespace_are_forbidden(letters: Connection) -> None:
    letters.execute("create role stranger_to_letters")
    letters.execute("set role stranger_to_letters")
    try:
        for call in ("count_dead_letters()", "read_dead_letters('action', 'queue', 'MAIL', 'failed', 'full #')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                letters.execute(f"select from headrace.{call}")
    finally:
        letters.execute("reset role")
        letters.execute("drop role stranger_to_letters")


def test_many_letters_are_read_by_the_index(conn: Connection) -> None:
    conn.execute(BURY, {"action": "MAIL", "error": "full ", "count": 20_000})
    conn.execute("vacuum analyze pgmq.q_hrd_default")
    conn.execute("select pg_stat_force_next_flush()")

    def rows_read() -> int:
        [rows] = conn.execute(
            "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = 'q_hrd_default'"
        ).fetchone() or [0]
        return int(rows)

    before = rows_read()
    conn.execute("select count(*) from headrace.count_dead_letters(500)").fetchall()
    conn.execute(READ, (19_000,)).fetchall()
    conn.execute("select pg_stat_force_next_flush()")
    assert rows_read() - before < 1_000
