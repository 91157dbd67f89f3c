"""`python -m bench.steady publish|sequence DSN SECONDS`: 1 000 events a second, ten at a time, or a sequencer at work."""

from __future__ import annotations

import random
import sys
import time

from headrace.db import Connection, Target, connect
from headrace.log.topics import sequence

TYPES = ("login.failed", "login.failed", "login.failed", "login.ok", "login.ok", "login.ok", "transfer", "page.view")
AT_ONCE = 10
PAUSE_S = 0.01


def main(kind: str, dsn: str, seconds: str) -> None:
    with connect(Target("bench", dsn)) as conn:
        (_publish if kind == "publish" else _sequence)(conn, float(seconds))


def _publish(conn: Connection, seconds: float) -> None:
    chance = random.Random(1)
    started_at = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < started_at + seconds:
        if (due := int((now - started_at) / PAUSE_S) * AT_ONCE) <= sent:
            time.sleep(PAUSE_S / 4)
            continue
        while sent < due:
            with conn.transaction():
                for _ in range(AT_ONCE):
                    parameters = (chance.choice(TYPES), f"account-{chance.randrange(10_000)}")
                    conn.execute("""select headrace.publish('bench', %s, '{"amount": 1}', p_key => %s)""", parameters)
            sent += AT_ONCE


def _sequence(conn: Connection, seconds: float) -> None:
    started_at = time.monotonic()
    while time.monotonic() < started_at + seconds + 2:
        if not sum(result.events for result in sequence(conn)):
            time.sleep(0.005)


if __name__ == "__main__":
    main(*sys.argv[1:])
