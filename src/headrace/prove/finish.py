"""Finishing a run: producers stop, the rest of the work is waited for on every shard, then all processes stop."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from math import inf

from headrace.db import Connection, connect, query
from headrace.prove.environment import Environment
from headrace.prove.workload import MEND, SCHEDULE
from headrace.schedules import pause_schedule

POLL_S = 0.25


@dataclass(frozen=True)
class FinalState:
    """A shard at the end: the work that was still open, the database's time, and when its schedule was paused."""

    unfinished: dict[str, int]
    at: datetime
    schedule_paused_at: datetime


def finish_workload(environment: Environment, stalled_s: float) -> dict[str, FinalState]:
    """Stops the workload and returns the final state of each shard.

    Waits while work is open, until none was done for `stalled_s`: work that is slow on purpose may take its time."""
    for role in ("producer", "sink", "eraser", "sender"):
        environment.processes.stop_role(role)
    with ExitStack() as stack:
        conns = {target.name: stack.enter_context(connect(target)) for target in environment.targets}
        deadline = time.monotonic() + stalled_s
        paused_at = {name: _pause_schedule(conn, deadline) for name, conn in conns.items()}
        least = inf
        while (count := sum(sum(unfinished_work(conn).values()) for conn in conns.values())) and time.monotonic() < deadline:
            if count < least:
                least, deadline = count, time.monotonic() + stalled_s
            for conn in conns.values():
                conn.execute(query("prove/redrive"), {"action": MEND})
            time.sleep(POLL_S)
        states = {name: FinalState(unfinished_work(conn), _clock(conn), paused_at[name]) for name, conn in conns.items()}
    for role in ("pipeline", "node", "reader"):
        environment.processes.stop_role(role)
    return states


def _pause_schedule(conn: Connection, deadline: float) -> datetime:
    """Pauses the schedule when none of its ticks is due; returns the time."""
    while conn.execute(query("prove/ticks_due")).fetchone() != (0,) and time.monotonic() < deadline:
        time.sleep(POLL_S / 5)
    at = _clock(conn)
    pause_schedule(conn, SCHEDULE)
    return at


def unfinished_work(conn: Connection) -> dict[str, int]:
    """How much work of each kind is open."""
    return {kind: int(count) for kind, count in conn.execute(query("prove/unfinished")).fetchall()}


def _clock(conn: Connection) -> datetime:
    row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment
