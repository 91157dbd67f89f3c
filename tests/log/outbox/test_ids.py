"""Event ids that the database makes: version 7, rising with time, and never twice, whatever a session does to random()."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from headrace.db import Connection, Target, connect


def ids(conn: Connection, number: int) -> list[UUID]:
    rows = conn.execute("select headrace.uuid_v7() from generate_series(1, %s)", (number,)).fetchall()
    return [UUID(str(row[0])) for row in rows]


def test_ids_have_version_7_and_the_time(conn: Connection) -> None:
    before = datetime.now(UTC).timestamp()
    event_ids = ids(conn, 5_000)
    assert {one.version for one in event_ids} == {7} and len(set(event_ids)) == 5_000
    assert event_ids[0] < event_ids[-1]
    assert all(before - 1 < (one.int >> 80) / 1000 < datetime.now(UTC).timestamp() + 1 for one in event_ids)


def test_same_seed_gives_no_id_twice(conn: Connection, database: Target) -> None:
    """Neither in two sessions nor twice in one: the sequencer would drop the second event."""
    event_ids: list[UUID] = []
    with connect(database) as second:
        for _ in range(300):
            for session in (conn, second):
                session.execute("select setseed(0.5)")
                event_ids += ids(session, 3)
    assert len(set(event_ids)) == len(event_ids) == 1_800


def test_null_as_event_id_means_a_new_one(conn: Connection) -> None:
    conn.execute("select headrace.create_topic('orders')")
    for event_id in ("", ", p_event_id => null"):
        row = conn.execute(f"select headrace.publish('orders', 'a', '1'{event_id})").fetchone()
        assert row is not None and isinstance(row[0], UUID)
    assert conn.execute("select count(distinct event_id) from headrace.outbox").fetchone() == (2,)
