"""Sender: sends actions by itself, as an application does, and operates on them: pauses and redrives.

Each round sends one action with a delay and a unique key, and the same key again while the first is in the queue; and one action that
fails until somebody has redriven it. What it does not know to be committed is not recorded, and no check judges it."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import psycopg

from headrace.db import Connection, query
from headrace.prove.history import History, Paused, SentAction, now
from headrace.prove.processes.config import RETRY_S, ProcessConfig, StopSignal, open_connection
from headrace.prove.workload import LATER, MEND

DELAY_S = 2.0
ROUND_S = 0.4
PAUSE_EVERY, PAUSED_ROUNDS = 25, 12
"""A pause of 12 rounds begins with the first round, and with every 25th after it."""
SETTLED_S = 2.0
"""A node starts nothing new this long after the pause; the promise is a second, and the rest is what a busy machine adds."""
FAILURES = (psycopg.Error, OSError)


def run_sender(config: ProcessConfig) -> None:
    """Sends round after round until SIGTERM."""
    stop = StopSignal()
    history = History(config.history)
    _repeat(config, _resume)
    paused_at: float | None = None
    number = 0
    while not stop.is_set:
        if number % PAUSE_EVERY == 0:
            _repeat(config, _pause)
            paused_at = now()
        elif number % PAUSE_EVERY == PAUSED_ROUNDS and paused_at is not None:
            history.write(Paused(at=paused_at + SETTLED_S, until=now(), action=LATER))
            paused_at = None
            _repeat(config, _resume)
        _send(config, history)
        number += 1
        time.sleep(ROUND_S)
    if paused_at is not None:
        history.write(Paused(at=paused_at + SETTLED_S, until=now(), action=LATER))
    _repeat(config, _resume)


def _pause(conn: Connection) -> None:
    conn.execute("select headrace.pause('action', %s)", (LATER,))


def _resume(conn: Connection) -> None:
    conn.execute("select headrace.resume('action', %s)", (LATER,))


def _repeat(config: ProcessConfig, act: Callable[[Connection], None]) -> None:
    """Repeats an act in a transaction of its own until it is known to be committed."""
    while True:
        try:
            with open_connection(config.dsn) as conn:
                act(conn)
            return
        except FAILURES:
            time.sleep(RETRY_S)


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
