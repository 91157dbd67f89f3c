"""Ids of consumers never run out."""

from __future__ import annotations

from headrace.consume import Consumer, create_consumer
from headrace.db import Connection
from tests.builders import drain, fill, topic


async def ignore(_event: object, _tx: object) -> None: ...


def test_consumer_works_beyond_the_ids_of_an_integer(conn: Connection) -> None:
    """Whoever may create consumers uses up ids, also by creations that he rolls back."""
    topic(conn)
    conn.execute("alter table headrace_internal.consumer alter consumer_id restart with 3000000000")
    assert create_consumer(conn, Consumer(topic="orders", name="late", handler=ignore)) == 3_000_000_000
    fill(conn, 2)
    drain(conn)
    [(position, upto)] = conn.execute(
        "select min(position), max(position) from headrace.claim_events(3000000000, 10) where event_id is not null"
    ).fetchall()
    assert (position, upto) == (1, 2)
    conn.execute("select headrace.advance(3000000000, 0, 2)")
    assert conn.execute("select position from headrace.cursor where consumer_id = 3000000000").fetchone() == (2,)
