"""Clients of the workload.

The producer publishes its transactions one after the other, and repeats each with the same event ids until it is known to be committed.
With several shards it splits each transaction by the shards of its keys: a shard that is down delays its own parts, in their order, and
no other shard's. Restarted after a kill -9, a producer finds in its history where it was, and repeats the transaction it had begun.

The reader follows the logs during the run, and records which event it read at which position. The sink writes batches as a Spark
driver does; it repeats a batch whose outcome is unknown, and some that it knows are committed. Its rows have no event ids, as rows of
data frames usually have none: only the ledger of batches prevents a second copy. The sender sends actions by itself, as an application
does, and pauses and redrives them; what it does not know to be committed is not recorded, and no check judges it. The eraser publishes
the events of one person after the other, and erases each while nodes are at work on it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Literal
from uuid import uuid4
from zlib import crc32

import msgspec
from psycopg.types.json import Jsonb, set_json_loads

from headrace.core import Event, LoggedEvent, decode
from headrace.db import Connection, Shards, Target, query
from headrace.log.archive import erase_key
from headrace.log.outbox import publish, publish_many
from headrace.log.topics import read_log
from headrace.prove.evidence import (
    Completed,
    History,
    Invoked,
    Outcome,
    Paused,
    ReadEvent,
    SentAction,
    SentEvent,
    now,
    read_history,
)
from headrace.prove.processes import (
    FAILURES,
    MAIN,
    RETRY_S,
    ProcessConfig,
    StopSignal,
    open_connection,
    retry_until_done,
    run_role,
)
from headrace.prove.workload import COMPLETE_TOPICS, LATER, MEND, PEOPLE, PERSONAL, SINK, Transaction, make_transaction

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


READ_POLL_S = 0.1


def digest(event: LoggedEvent) -> int:
    """A checksum of an event's content."""
    times = (event.emitted_at, event.appended_at)
    content = (str(event.id), event.partition, event.type, event.key, event.payload, event.headers, event.producer, times)
    return crc32(msgspec.json.encode(content, order="sorted"))


def run_reader(config: ProcessConfig) -> None:
    """Reads until SIGTERM, and then to the end of the logs."""
    stop = StopSignal()
    history = History(config.history)
    after = dict.fromkeys(COMPLETE_TOPICS, 0)
    for record in read_history(Path(config.folder), f"{config.name}."):
        if isinstance(record, ReadEvent):
            after[record.topic] = max(after[record.topic], record.position)
    conn: Connection | None = None
    while True:
        is_last = stop.is_set
        try:
            if conn is None:
                conn = open_connection(config.dsn)
                conn.autocommit = True
                set_json_loads(decode, conn)
            count = sum([_read_topic(conn, history, after, topic) for topic in COMPLETE_TOPICS])
        except FAILURES:
            conn = None
            time.sleep(RETRY_S)
            continue
        if is_last and not count:
            return
        time.sleep(0 if count >= 1000 else READ_POLL_S)


def _read_topic(conn: Connection, history: History, after: dict[str, int], topic: str) -> int:
    events = read_log(conn, topic, after=after[topic])
    if events:
        at = now()
        history.write(
            *(ReadEvent(at=at, topic=topic, position=event.position, id=event.id, digest=digest(event)) for event in events)
        )
        after[topic] = events[-1].position
    return len(events)


QUERY = "headrace-prove"
REPEATED_SHARE = 0.2
"""Share of the batches that are repeated though they are committed."""
BATCH_PAUSE_S = 0.5
COMMIT = "select headrace.commit_spark_batch(%s, %s, %s::uuid[], %s)"


def make_rows(seed: int, batch: int) -> tuple[SentEvent, ...]:
    draw = random.Random(f"{seed}:sink:{batch}")
    return tuple(
        SentEvent(id=uuid4(), topic=SINK, type="row", key=f"b{batch}", n=batch * 100 + index, amount=draw.randrange(1000))
        for index in range(draw.randint(1, 20))
    )


def run_sink(config: ProcessConfig) -> None:
    """Writes batch after batch until SIGTERM."""
    stop = StopSignal()
    history = History(config.history)
    batch = next_op(Path(config.folder), config.name)
    while not stop.is_set:
        draw = random.Random(f"{config.seed}:sink:{batch}:again")
        rows = make_rows(config.seed, batch)
        for _ in range(2 if draw.random() < REPEATED_SHARE else 1):
            _repeat_until_written(config, history, batch, rows)
        batch += 1
        time.sleep(BATCH_PAUSE_S)


def _repeat_until_written(config: ProcessConfig, history: History, batch: int, rows: tuple[SentEvent, ...]) -> None:
    while True:
        history.write(Invoked(op=batch, at=now(), events=rows))
        try:
            with open_connection(config.dsn) as conn:
                conn.autocommit = True
                write_batch(conn, batch, rows)
        except FAILURES as error:
            history.write(Completed(op=batch, at=now(), outcome="unknown", error=str(error)[:300]))
            time.sleep(RETRY_S)
            continue
        history.write(Completed(op=batch, at=now(), outcome="ok"))
        return


def write_batch(conn: Connection, batch: int, rows: tuple[SentEvent, ...]) -> None:
    """Stages the rows under a token of this attempt, then commits the batch."""
    token = uuid4()
    parameters = {
        "query": QUERY,
        "batch": batch,
        "token": token,
        "topic": SINK,
        "types": [row.type for row in rows],
        "keys": [row.key for row in rows],
        "payloads": [msgspec.json.encode(row.payload).decode() for row in rows],
    }
    conn.execute(query("prove/stage_batch"), parameters)
    conn.execute(COMMIT, (QUERY, batch, [token], len(rows)))


DELAY_S = 2.0
ROUND_S = 0.4
PAUSE_EVERY, PAUSED_ROUNDS = 25, 12
"""A pause of 12 rounds begins with the first round, and with every 25th after it."""
SETTLED_S = 2.0
"""A node starts nothing new this long after the pause; the promise is a second, and the rest is what a busy machine adds."""


def run_sender(config: ProcessConfig) -> None:
    """Sends round after round until SIGTERM.

    Each round sends one action with a delay and a unique key, and the same key again while the first is in the queue; and one action
    that fails until somebody has redriven it."""
    stop = StopSignal()
    history = History(config.history)
    _call(config, "resume")
    paused_at: float | None = None
    number = 0
    while not stop.is_set:
        if number % PAUSE_EVERY == 0:
            _call(config, "pause")
            paused_at = now()
        elif number % PAUSE_EVERY == PAUSED_ROUNDS and paused_at is not None:
            history.write(Paused(at=paused_at + SETTLED_S, until=now(), action=LATER))
            paused_at = None
            _call(config, "resume")
        _send(config, history)
        number += 1
        time.sleep(ROUND_S)
    if paused_at is not None:
        history.write(Paused(at=paused_at + SETTLED_S, until=now(), action=LATER))
    _call(config, "resume")


def _call(config: ProcessConfig, function: Literal["pause", "resume"]) -> None:
    """Pauses or resumes the delayed action, in a transaction of its own."""

    def call() -> None:
        with open_connection(config.dsn) as conn:
            conn.execute(f"select headrace.{function}('action', %s)", (LATER,))

    retry_until_done(call)


def _send(config: ProcessConfig, history: History) -> None:
    """One round. Both sends of a unique key are recorded together: the second counts only if it ended before the first was due."""
    unique_key, ids, mended = uuid4().hex, (uuid4(), uuid4()), uuid4()
    try:
        with open_connection(config.dsn) as conn:
            conn.autocommit = True
            row = conn.execute("select extract(epoch from headrace.clock())::float8").fetchone()
            assert row is not None
            statement = "select headrace.send_action(%s, p_id => %s, p_unique_key => %s, p_delay => make_interval(secs => %s))"
            for id_ in ids:
                conn.execute(statement, (LATER, id_, unique_key, DELAY_S))
            ended_at = now()
            conn.execute(statement, (MEND, mended, None, 0.0))
            history.write(SentAction(at=ended_at, action=MEND, ids=(mended,)))
            if ended_at < row[0] + DELAY_S / 2:
                history.write(SentAction(at=ended_at, action=LATER, ids=ids, not_before=row[0] + DELAY_S))
            conn.execute(query("prove/redrive"), {"action": MEND})
    except FAILURES:
        time.sleep(RETRY_S)


PERSON_EVENTS_MAX = 6
ERASE_PAUSES_S = (0.0, 0.0, 0.02, 0.1, 0.4)
"""From the last event of a person to the erasure: events are in the outbox, just sequenced, or with rules and correlators."""
ERASE_EVERY_S = 1.0
PUBLISH = "select headrace.publish(%s, 'joined', %s::jsonb, p_key => %s, p_producer => 'eraser')"


def run_eraser(config: ProcessConfig) -> None:
    """Erases person after person until SIGTERM.

    It connects to the server itself, as readers do. Where it does not know whether a transaction was committed, it erases the person
    once more at its end, when nothing of that transaction can be on its way any more."""
    stop = StopSignal()
    draw = random.Random(f"{config.seed}:{config.name}:{config.number}")
    target = Target(MAIN, config.dsn)
    uncertain: list[str] = []
    while not stop.is_set:
        person = f"{draw.getrandbits(64):016x}{PERSONAL}"
        try:
            _publish_person(config.dsn, person, draw.randint(1, PERSON_EVENTS_MAX))
        except FAILURES:
            uncertain.append(person)
        time.sleep(draw.choice(ERASE_PAUSES_S))
        _erase(target, person)
        time.sleep(ERASE_EVERY_S * draw.uniform(0.5, 1.5))
    for person in uncertain:
        _erase(target, person)


def _publish_person(dsn: str, person: str, events: int) -> None:
    """One transaction per event, so that some are sequenced and others not."""
    with open_connection(dsn) as conn:
        conn.autocommit = True
        for number in range(events):
            conn.execute(PUBLISH, (PEOPLE, Jsonb({"email": person, "n": number}), person))


def _erase(target: Target, person: str) -> None:
    retry_until_done(lambda: erase_key(target, PEOPLE, person, replace_key=True, vacuum=False))


if __name__ == "__main__":
    run_role({"producer": run_producer, "reader": run_reader, "sink": run_sink, "sender": run_sender, "eraser": run_eraser})
