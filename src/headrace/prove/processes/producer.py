"""Producer: publishes its transactions one after the other, and repeats each with the same event ids until it is known to be
committed.

Restarted after a kill -9 it finds in its history where it was, and repeats the transaction it had begun."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from headrace.core import Event, HeadraceError
from headrace.db import Connection
from headrace.log.outbox import publish, publish_many
from headrace.prove.history import Completed, History, Invoked, Outcome, SentEvent, now, read_history
from headrace.prove.processes.config import RETRY_S, ProcessConfig, StopSignal, open_connection
from headrace.prove.workload import Transaction, make_transaction

LATE_MAX_S = 1.0
"""A producer that is later than this does not catch up: after an outage the rate is the usual one, not a higher one."""


def publish_by_sql(conn: Connection, events: Sequence[SentEvent], producer: str) -> None:
    for event in events:
        headers = Jsonb(event.headers) if event.headers else None
        conn.execute(
            """select headrace.publish(%s, %s, %s::jsonb, p_key => %s, p_event_id => %s, p_producer => %s,
                   p_headers => %s, p_emitted_at => %s)""",
            (event.topic, event.type, Jsonb(event.payload), event.key, event.id, producer, headers, event.emitted_at),
        )


def publish_by_python(conn: Connection, events: Sequence[SentEvent], producer: str) -> None:
    for event in events:
        publish(
            conn, event.topic, event.type, dict(event.payload), key=event.key, headers=event.headers, id=event.id,
            emitted_at=event.emitted_at, producer=producer,
        )  # fmt: skip


def publish_by_copy(conn: Connection, events: Sequence[SentEvent], producer: str) -> None:
    publish_many(
        conn,
        [
            Event(
                topic=sent.topic,
                type=sent.type,
                payload=dict(sent.payload),
                key=sent.key,
                headers=sent.headers,
                id=sent.id,
                emitted_at=sent.emitted_at,
                producer=producer,
            )
            for sent in events
        ],
    )


METHODS: dict[str, Callable[[Connection, Sequence[SentEvent], str], None]] = {
    "sql": publish_by_sql,
    "python": publish_by_python,
    "copy": publish_by_copy,
}


def run_producer(config: ProcessConfig) -> None:
    """Publishes at the configured rate until SIGTERM."""
    stop = StopSignal()
    history = History(config.history)
    op = next_op(Path(config.folder), config.name)
    conn: Connection | None = None
    due = time.monotonic()
    while not stop.is_set:
        transaction = make_transaction(config.seed, config.name, op)
        conn = _repeat_until_known(config, history, conn, transaction)
        op += 1
        due = max(due, time.monotonic() - LATE_MAX_S) + len(transaction.events) / config.rate
        time.sleep(max(due - time.monotonic(), 0))


def next_op(folder: Path, name: str) -> int:
    """The number of the transaction to go on with: the one after the last that is known to have ended."""
    records = read_history(folder, f"{name}.")
    known = [record.op for record in records if isinstance(record, Completed) and record.outcome in ("ok", "rolled_back")]
    return max(known, default=0) + 1


def _repeat_until_known(
    config: ProcessConfig, history: History, conn: Connection | None, transaction: Transaction
) -> Connection | None:
    while True:
        history.write(Invoked(op=transaction.op, at=now(), events=transaction.events, commits=transaction.commits))
        conn, outcome, error = try_transaction(conn, config, transaction)
        history.write(Completed(op=transaction.op, at=now(), outcome=outcome, error=error))
        if outcome in ("ok", "rolled_back"):
            return conn
        time.sleep(RETRY_S)


def try_transaction(
    conn: Connection | None, config: ProcessConfig, transaction: Transaction
) -> tuple[Connection | None, Outcome, str | None]:
    """One attempt. Returns the connection if it still works, the outcome as far as a producer can know it, and the error."""
    committing = False
    try:
        conn = conn or open_connection(config.dsn)
        METHODS[transaction.method](conn, transaction.events, config.name)
        if transaction.hold_s:
            time.sleep(transaction.hold_s)
        if not transaction.commits:
            conn.rollback()
            return conn, "rolled_back", None
        committing = True
        conn.commit()
    except (psycopg.Error, HeadraceError, OSError) as error:
        if conn is not None:
            conn.close()
        outcome: Outcome = "unknown" if committing else "failed" if transaction.commits else "rolled_back"
        return None, outcome, f"{type(error).__name__}: {error}"[:300]
    return conn, "ok", None
