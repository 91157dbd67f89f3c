"""Producer: publishes its transactions one after the other, and repeats each with the same event ids until it is known to be
committed. With several shards it splits each transaction by the shards of its keys.

A shard that is down delays its own parts, in their order, and no other shard's. Restarted after a kill -9, a producer finds in its
history where it was, and repeats the transaction it had begun."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from psycopg.types.json import Jsonb

from headrace.core import Event
from headrace.db import Connection, Shards, Target
from headrace.log.outbox import publish, publish_many
from headrace.prove.evidence import Completed, History, Invoked, Outcome, SentEvent, now, read_history
from headrace.prove.processes.config import FAILURES, MAIN, RETRY_S, ProcessConfig, StopSignal, open_connection
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
    """Publishes at the configured rate until SIGTERM, in a thread per shard."""
    stop = StopSignal()
    shards = Shards(config.targets())
    with ThreadPoolExecutor(len(shards.targets)) as executor:
        threads = [executor.submit(_publish_on, config, shards, target, stop) for target in shards.targets]
        for thread in as_completed(threads):
            # A thread that failed ends the others, and then the process with its error.
            stop.is_set = True
            thread.result()


def part_on_shard(transaction: Transaction, shards: Shards, name: str) -> Transaction:
    """The events of a transaction whose keys belong to a shard."""
    return replace(transaction, events=tuple(event for event in transaction.events if shards.shard_of(event.key).name == name))


def _publish_on(config: ProcessConfig, shards: Shards, target: Target, stop: StopSignal) -> None:
    name = config.name if target.name == MAIN else f"{target.name}-{config.name}"
    history = History(config.history_of(name))
    op = next_op(Path(config.folder), name)
    conn: Connection | None = None
    due = time.monotonic()
    while not stop.is_set:
        transaction = make_transaction(config.seed, config.name, op)
        part = part_on_shard(transaction, shards, target.name)
        if part.events:
            conn = _repeat_until_known(target, config.name, history, conn, part)
        op += 1
        due = max(due, time.monotonic() - LATE_MAX_S) + len(transaction.events) / config.rate
        time.sleep(max(due - time.monotonic(), 0))


def next_op(folder: Path, name: str) -> int:
    """The number of the transaction to go on with: the one after the last that is known to have ended."""
    records = read_history(folder, f"{name}.")
    known = [record.op for record in records if isinstance(record, Completed) and record.outcome in ("ok", "rolled_back")]
    return max(known, default=0) + 1


def _repeat_until_known(
    target: Target, producer: str, history: History, conn: Connection | None, part: Transaction
) -> Connection | None:
    """Returns the connection if it still works."""
    while True:
        history.write(Invoked(op=part.op, at=now(), events=part.events, commits=part.commits))
        conn, outcome, error = _try_transaction(target, producer, conn, part)
        history.write(Completed(op=part.op, at=now(), outcome=outcome, error=error))
        if outcome in ("ok", "rolled_back"):
            return conn
        time.sleep(RETRY_S)


def _try_transaction(
    target: Target, producer: str, conn: Connection | None, part: Transaction
) -> tuple[Connection | None, Outcome, str | None]:
    """One attempt. Returns the connection if it still works, the outcome as far as a producer can know it, and the error."""
    committing = False
    try:
        conn = conn or open_connection(target.dsn)
        METHODS[part.method](conn, part.events, producer)
        if part.hold_s:
            time.sleep(part.hold_s)
        if not part.commits:
            conn.rollback()
            return conn, "rolled_back", None
        committing = True
        conn.commit()
    except FAILURES as error:
        if conn is not None:
            conn.close()
        outcome: Outcome = "unknown" if committing else "failed" if part.commits else "rolled_back"
        return None, outcome, f"{type(error).__name__}: {error}"[:300]
    return conn, "ok", None
