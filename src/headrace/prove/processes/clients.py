"""Clients of the workload beside producers and nodes.

The reader follows the logs during the run, and records which event it read at which position. The sink writes batches as a Spark
driver does; it repeats a batch whose outcome is unknown, and some that it knows are committed. Its rows have no event ids, as rows of
data frames usually have none: only the ledger of batches prevents a second copy. The sender sends actions by itself, as an application
does, and pauses and redrives them; what it does not know to be committed is not recorded, and no check judges it. The eraser publishes
the events of one person after the other, and erases each while nodes are at work on it."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Literal
from uuid import uuid4
from zlib import crc32

import msgspec
from psycopg.types.json import Jsonb, set_json_loads

from headrace.core import LoggedEvent, decode
from headrace.db import Connection, Target, query
from headrace.log.archive import erase_key
from headrace.log.topics import read_log
from headrace.prove.evidence import Completed, History, Invoked, Paused, ReadEvent, SentAction, SentEvent, now, read_history
from headrace.prove.processes.config import FAILURES, MAIN, RETRY_S, ProcessConfig, StopSignal, open_connection, retry_until_done
from headrace.prove.processes.producer import next_op
from headrace.prove.workload import COMPLETE_TOPICS, LATER, MEND, PEOPLE, PERSONAL, SINK

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
            for id_ in ids:
                conn.execute(
                    query("prove/send_later"), {"action": LATER, "id": id_, "unique_key": unique_key, "delay_s": DELAY_S}
                )
            ended_at = now()
            conn.execute(query("prove/send_mend"), {"action": MEND, "id": mended})
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
