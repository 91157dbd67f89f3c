"""A failure is counted, backed off and forgotten with the first success."""

from __future__ import annotations

from headrace.db import Connection
from tests.builders import shift_clock


def record(conn: Connection, name: str = "orders") -> float:
    """Records a failure; returns the seconds until the next attempt."""
    row = conn.execute(
        """select extract(epoch from headrace_internal.record_failure('sequence', 'shop', %s, 'no branch') - headrace.clock())
           ::double precision""",
        (name,),
    ).fetchone()
    assert row is not None
    return float(row[0])


def test_each_failure_in_a_row_waits_longer_up_to_the_maximum(conn: Connection) -> None:
    waits = [record(conn) for _ in range(12)]
    for number, wait_s in enumerate(waits):
        expected = min(300.0, 2.0**number)
        assert expected / 2 - 0.1 <= wait_s <= expected + 0.1
    row = conn.execute("select kind, namespace, name, error, failures from headrace_internal.failure").fetchone()
    assert row == ("sequence", "shop", "orders", "no branch", 12)


def test_failure_keeps_its_first_time_and_its_own_row(conn: Connection) -> None:
    record(conn)
    record(conn, "payments")
    shift_clock(conn, "1 hour")
    record(conn)
    rows = conn.execute(
        "select name, failures, last_at - first_at > '59 minutes' from headrace_internal.failure order by name"
    ).fetchall()
    assert rows == [("orders", 2, True), ("payments", 1, False)]


def test_success_clears_the_failure_once(conn: Connection) -> None:
    record(conn)
    cleared = [conn.execute("select headrace_internal.clear_failure('sequence', 'shop', 'orders')").fetchone() for _ in range(2)]
    assert cleared == [(True,), (False,)]
    assert record(conn) <= 1.1


def test_failure_without_a_namespace_is_one_row(conn: Connection) -> None:
    for _ in range(2):
        conn.execute("select headrace_internal.record_failure('heartbeat', null, 'node', 'gone')")
    assert conn.execute("select namespace, failures from headrace_internal.failure").fetchall() == [("", 2)]
    assert conn.execute("select headrace_internal.clear_failure('heartbeat', null, 'node')").fetchone() == (True,)
