"""Reader: follows the logs while everything happens, and writes down what it saw at which position."""

from __future__ import annotations

import time
from pathlib import Path
from zlib import crc32

import msgspec
import psycopg
from psycopg.types.json import set_json_loads

from headrace.core import HeadraceError, LoggedEvent, decode
from headrace.db import Connection
from headrace.log import read
from headrace.prove.actor import AGAIN_S, Ending, Orders, connection
from headrace.prove.history import History, Seen, now, read_history
from headrace.prove.workload import WHOLE

LOOK_S = 0.1


def digest(event: LoggedEvent) -> int:
    """A checksum of what an event says."""
    said = (str(event.id), event.partition, event.type, event.key, event.payload, event.headers, event.producer)
    return crc32(msgspec.json.encode(said, order="sorted"))


def follow(orders: Orders) -> None:
    ending = Ending()
    history = History(orders.history)
    after = dict.fromkeys(WHOLE, 0)
    for one in read_history(Path(orders.folder), f"{orders.name}."):
        if isinstance(one, Seen):
            after[one.topic] = max(after[one.topic], one.position)
    conn: Connection | None = None
    while True:
        last_look = ending.wanted
        try:
            if conn is None:
                conn = connection(orders.dsn)
                conn.autocommit = True
                set_json_loads(decode, conn)
            found = sum([_look(conn, history, after, topic) for topic in WHOLE])
        except (psycopg.Error, HeadraceError, OSError):
            conn, found = None, 0
            time.sleep(AGAIN_S)
            continue
        if last_look and not found:
            return
        time.sleep(0 if found >= 1000 else LOOK_S)


def _look(conn: Connection, history: History, after: dict[str, int], topic: str) -> int:
    events = read(conn, topic, after=after[topic])
    if events:
        at = now()
        history.write(*(Seen(at=at, topic=topic, position=one.position, id=one.id, digest=digest(one)) for one in events))
        after[topic] = events[-1].position
    return len(events)
