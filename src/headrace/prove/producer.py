"""Producer: publishes its transactions one after the other, each tried again by its event ids until it is known to be committed.

Started again after a kill -9 it finds in its history where it was, and tries what it had begun once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from headrace.core import Event, HeadraceError
from headrace.db import Connection
from headrace.outbox import publish, publish_many
from headrace.prove.actor import AGAIN_S, Ending, Orders, connection
from headrace.prove.history import Ended, History, Invoked, Outcome, Sent, now, read_history
from headrace.prove.workload import Transaction, transaction

LATE_S = 1.0
"""A producer that is this late gives up catching up: after an outage the rate is the one before, not more."""


def by_sql(conn: Connection, events: Sequence[Sent], producer: str) -> None:
    for one in events:
        conn.execute(
            "select headrace.publish(%s, %s, %s::jsonb, p_key => %s, p_event_id => %s, p_producer => %s)",
            (one.topic, one.type, Jsonb(one.payload), one.key, one.id, producer),
        )


def by_python(conn: Connection, events: Sequence[Sent], producer: str) -> None:
    for one in events:
        publish(conn, one.topic, one.type, dict(one.payload), key=one.key, id=one.id, producer=producer)


def by_copy(conn: Connection, events: Sequence[Sent], producer: str) -> None:
    publish_many(
        conn,
        [
            Event(topic=one.topic, type=one.type, payload=dict(one.payload), key=one.key, id=one.id, producer=producer)
            for one in events
        ],
    )


WAYS: dict[str, Callable[[Connection, Sequence[Sent], str], None]] = {"sql": by_sql, "python": by_python, "copy": by_copy}


def produce(orders: Orders) -> None:
    ending = Ending()
    history = History(orders.history)
    op = next_op(Path(orders.folder), orders.name)
    conn: Connection | None = None
    due = time.monotonic()
    while not ending.wanted:
        wanted = transaction(orders.seed, orders.name, op)
        conn = _until_ended(orders, history, conn, wanted)
        op += 1
        due = max(due, time.monotonic() - LATE_S) + len(wanted.events) / orders.rate
        time.sleep(max(due - time.monotonic(), 0))


def next_op(folder: Path, name: str) -> int:
    """The transaction to go on with: the one after the last that is known to have ended well."""
    done = [one.op for one in read_history(folder, f"{name}.") if isinstance(one, Ended) and one.outcome in ("ok", "rolled_back")]
    return max(done, default=0) + 1


def _until_ended(orders: Orders, history: History, conn: Connection | None, wanted: Transaction) -> Connection | None:
    while True:
        history.write(Invoked(op=wanted.op, at=now(), events=wanted.events, commits=wanted.commits))
        conn, outcome, error = attempt(conn, orders, wanted)
        history.write(Ended(op=wanted.op, at=now(), outcome=outcome, error=error))
        if outcome in ("ok", "rolled_back"):
            return conn
        time.sleep(AGAIN_S)


def attempt(conn: Connection | None, orders: Orders, wanted: Transaction) -> tuple[Connection | None, Outcome, str | None]:
    """One try: how it ended, as far as the producer can know, and the connection where it is still of use."""
    committing = False
    try:
        conn = conn or connection(orders.dsn)
        WAYS[wanted.way](conn, wanted.events, orders.name)
        if wanted.hold_s:
            time.sleep(wanted.hold_s)
        if not wanted.commits:
            conn.rollback()
            return conn, "rolled_back", None
        committing = True
        conn.commit()
    except (psycopg.Error, HeadraceError, OSError) as error:
        if conn is not None:
            conn.close()
        outcome: Outcome = "unknown" if committing else "failed" if wanted.commits else "rolled_back"
        return None, outcome, f"{type(error).__name__}: {error}"[:300]
    return conn, "ok", None
