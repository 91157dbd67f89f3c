"""Sink: writes batches as a Spark driver does, repeating the last one whenever its end is not known, and at times though it is.

Rows have no event ids of their own, as frames mostly have none: only the ledger keeps a repeated batch from coming twice."""

from __future__ import annotations

import random
import time
from pathlib import Path
from uuid import uuid4

import msgspec
import psycopg

from headrace.core import HeadraceError
from headrace.db import Connection, query
from headrace.prove.actor import AGAIN_S, Ending, Orders, connection
from headrace.prove.history import Ended, History, Invoked, Sent, now
from headrace.prove.producer import next_op
from headrace.prove.workload import SUNK

QUERY = "headrace-prove"
REPEATED = 0.2
"""Share of the batches that are repeated though they were committed."""
PAUSE_S = 0.5


def rows_of(seed: int, batch: int) -> tuple[Sent, ...]:
    draw = random.Random(f"{seed}:sink:{batch}")
    return tuple(
        Sent(id=uuid4(), topic=SUNK, type="row", key=f"b{batch}", n=batch * 100 + place, amount=draw.randrange(1000))
        for place in range(draw.randint(1, 20))
    )


def sink(orders: Orders) -> None:
    ending = Ending()
    history = History(orders.history)
    batch = next_op(Path(orders.folder), orders.name)
    while not ending.wanted:
        draw = random.Random(f"{orders.seed}:sink:{batch}:again")
        rows = rows_of(orders.seed, batch)
        for _ in range(2 if draw.random() < REPEATED else 1):
            _until_written(orders, history, batch, rows)
        batch += 1
        time.sleep(PAUSE_S)


def _until_written(orders: Orders, history: History, batch: int, rows: tuple[Sent, ...]) -> None:
    while True:
        history.write(Invoked(op=batch, at=now(), events=rows))
        try:
            with connection(orders.dsn) as conn:
                conn.autocommit = True
                write(conn, batch, rows)
        except (psycopg.Error, HeadraceError, OSError) as error:
            history.write(Ended(op=batch, at=now(), outcome="unknown", error=str(error)[:300]))
            time.sleep(AGAIN_S)
            continue
        history.write(Ended(op=batch, at=now(), outcome="ok"))
        return


def write(conn: Connection, batch: int, rows: tuple[Sent, ...]) -> None:
    """Stages the rows under a token of this attempt, then commits the batch."""
    token = uuid4()
    told = {"namespace": None, "query": QUERY, "batch": batch}
    given = {
        "token": token,
        "place": list(range(len(rows))),
        "topic": [SUNK] * len(rows),
        "type": [one.type for one in rows],
        "key": [one.key for one in rows],
        "payload": [msgspec.json.encode(one.payload).decode() for one in rows],
        "headers": [None] * len(rows),
        "event_id": [None] * len(rows),
        "emitted_at": [None] * len(rows),
        "producer": ["sink"] * len(rows),
        "priority": [None] * len(rows),
    }
    conn.execute(query("spark/stage"), told | given)
    conn.execute(query("spark/commit_batch"), told | {"tokens": [token], "rows": len(rows)})
