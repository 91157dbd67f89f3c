"""Old results and failed attempts are deleted, at a cost that does not grow with those that are kept."""

from __future__ import annotations

import pytest

from headrace.db import Connection
from tests.builders import rows_read

KEPT = 20_000


def end(conn: Connection, count: int, *, days_ago: str) -> None:
    """Actions that ended, each after one failed attempt; the age in days may depend on the number n."""
    conn.execute(
        f"""with ended as (
                insert into headrace_internal.action_result (ended_at, action_id, attempts, namespace, action, outcome)
                select now() - ({days_ago}) * interval '1 day', gen_random_uuid(), 2, 'default', 'work', 'done'
                from generate_series(1, {count}) n
                returning ended_at, action_id
            )
            insert into headrace_internal.attempt (failed_at, action_id, attempt, namespace, action, error, follows)
            select ended_at, action_id, 1, 'default', 'work', 'no', 'retry' from ended"""
    )


def trim(conn: Connection, **parameters: object) -> int:
    named = ", ".join(f"{name} => %({name})s" for name in parameters)
    (trimmed,) = conn.execute(f"select headrace_internal.trim_results({named})", parameters).fetchone()  # type: ignore[misc]
    return int(trimmed)


def count_rows(conn: Connection) -> tuple[int, ...] | None:
    return conn.execute(
        "select (select count(*) from headrace.action_result), (select count(*) from headrace.attempt)"
    ).fetchone()


@pytest.mark.parametrize("table", ["action_result", "attempt"])
@pytest.mark.parametrize("analyzed", [False, True])
def test_trimming_reads_only_what_it_deletes_even_if_old_and_new_share_pages(
    conn: Connection, table: str, analyzed: bool
) -> None:
    end(conn, KEPT, days_ago="case when n % 10 = 0 then 31 else 1 end")
    conn.execute("vacuum headrace_internal.action_result, headrace.attempt")
    assert trim(conn) == 2 * KEPT // 10
    conn.execute("vacuum headrace_internal.action_result, headrace.attempt")
    end(conn, 100, days_ago="31")
    if analyzed:
        conn.execute("analyze headrace_internal.action_result, headrace.attempt")
    with conn.transaction():
        before = rows_read(conn, table)
        assert trim(conn) == 200
        # Once to find them, once to delete them.
        assert rows_read(conn, table) - before <= 2 * 100 + 20
    assert count_rows(conn) == (KEPT * 9 // 10, KEPT * 9 // 10)


def test_trimming_works_in_steps_oldest_first_and_ends_in_time(conn: Connection) -> None:
    end(conn, 60, days_ago="100 - n")
    assert trim(conn, p_piece=10, p_time_max="0 s") == 20
    assert conn.execute(
        "select round(extract(epoch from now() - min(ended_at)) / 86400) from headrace.action_result"
    ).fetchone() == (89,)
    assert trim(conn, p_piece=10) == 100
    assert count_rows(conn) == (0, 0)


def test_two_nodes_trim_without_waiting_for_each_other(conn: Connection, second: Connection) -> None:
    end(conn, 30, days_ago="31")
    second.execute("set lock_timeout = '1 s'")
    with conn.transaction():
        assert trim(conn, p_piece=10, p_time_max="0 s") == 20
        assert trim(second) == 40
    assert count_rows(conn) == (0, 0)
