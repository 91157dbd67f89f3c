"""Reader: follows the logs during the run, and records which event it read at which position."""

from __future__ import annotations

import time
from pathlib import Path
from zlib import crc32

import msgspec
import psycopg
from psycopg.types.json import set_json_loads

from headrace.core import HeadraceError, LoggedEvent, decode
from headrace.db import Connection
from headrace.log.topics import read_log
from headrace.prove.history import History, ReadEvent, now, read_history
from headrace.prove.processes.config import RETRY_S, ProcessConfig, StopSignal, open_connection
from headrace.prove.workload import COMPLETE_TOPICS

POLL_S = 0.1


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
        except (psycopg.Error, HeadraceError, OSError):
            conn = None
            time.sleep(RETRY_S)
            continue
        if is_last and not count:
            return
        time.sleep(0 if count >= 1000 else POLL_S)


def _read_topic(conn: Connection, history: History, after: dict[str, int], topic: str) -> int:
    events = read_log(conn, topic, after=after[topic])
    if events:
        at = now()
        history.write(
            *(ReadEvent(at=at, topic=topic, position=event.position, id=event.id, digest=digest(event)) for event in events)
        )
        after[topic] = events[-1].position
    return len(events)
