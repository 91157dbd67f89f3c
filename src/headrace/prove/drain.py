"""Drain: waiting until everything is worked off, on every shard."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from math import inf

from headrace.db import Connection, connect, query
from headrace.prove.environment import Scene
from headrace.prove.workload import SCHEDULE
from headrace.schedules import pause_schedule

LOOK_S = 0.25


@dataclass(frozen=True)
class Drained:
    """What was left on a shard when it was waited for, the database's time then, and when its schedule was paused."""

    left_over: dict[str, int]
    at: datetime
    paused_at: datetime


def drain(stage: Scene, drain_s: float) -> dict[str, Drained]:
    """Producers end, then everything is worked off, then pipeline, nodes and at last the readers end. By shard. It is waited for
    as long as it becomes less: what is slow on purpose may take its time."""
    for role in ("producer", "sink"):
        stage.cast.end(role)
    with ExitStack() as stack:
        conns = {target.name: stack.enter_context(connect(target)) for target in stage.targets}
        deadline = time.monotonic() + drain_s
        paused = {name: _pause(conn, deadline) for name, conn in conns.items()}
        least = inf
        while (left := sum(sum(left_over(conn).values()) for conn in conns.values())) and time.monotonic() < deadline:
            if left < least:
                least, deadline = left, time.monotonic() + drain_s
            time.sleep(LOOK_S)
        drained = {name: Drained(left_over(conn), _clock(conn), paused[name]) for name, conn in conns.items()}
    for role in ("pipeline", "node", "reader"):
        stage.cast.end(role)
    return drained


def _pause(conn: Connection, deadline: float) -> datetime:
    """Ends the schedule when none of its ticks is due, and says when."""
    while conn.execute(query("prove/ticks_due")).fetchone() != (0,) and time.monotonic() < deadline:
        time.sleep(LOOK_S / 5)
    at = _clock(conn)
    pause_schedule(conn, SCHEDULE)
    return at


def left_over(conn: Connection) -> dict[str, int]:
    """What is not worked off yet."""
    return {what: int(count) for what, count in conn.execute(query("prove/left_over")).fetchall()}


def _clock(conn: Connection) -> datetime:
    row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment
