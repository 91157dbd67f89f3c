"""Sink: writes batches as a Spark driver does. It repeats a batch whose outcome is unknown, and some that it knows are committed.

Its rows have no event ids, as rows of data frames usually have none: only the ledger of batches prevents a second copy."""

from __future__ import annotations

import random
import time
from pathlib import Path
from uuid import uuid4

import msgspec
import psycopg

from headrace.core import HeadraceError
from headrace.db import Connection, query
from headrace.prove.history import Completed, History, Invoked, SentEvent, now
from headrace.prove.processes.config import RETRY_S, ProcessConfig, StopSignal, open_connection
from headrace.prove.processes.producer import next_op
from headrace.prove.workload import SINK

QUERY = "headrace-prove"
REPEATED_SHARE = 0.2
"""Share of the batches that are repeated though they are committed."""
PAUSE_S = 0.5
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
        time.sleep(PAUSE_S)


def _repeat_until_written(config: ProcessConfig, history: History, batch: int, rows: tuple[SentEvent, ...]) -> None:
    while True:
        history.write(Invoked(op=batch, at=now(), events=rows))
        try:
            with open_connection(config.dsn) as conn:
                conn.autocommit = True
                write_batch(conn, batch, rows)
        except (psycopg.Error, HeadraceError, OSError) as error:
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
