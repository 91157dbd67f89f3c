"""Checks of the server that do not need the schema of headrace: version, durability, clock, connections,
notification queue, lock table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from psycopg.rows import namedtuple_row

from headrace.db import Connection, query
from headrace.observe.doctor.checks import Finding

VERSIONS = range(15, 19)
SKEW_MAX_S = 2.0
CONNECTIONS_MAX = 0.8
NOTIFICATIONS_MAX = 0.5
"""Of the notification queue; from here on headrace does not notify, see headrace_internal.notify."""
LOCKS_MAX = 0.5


def check_server(conn: Connection) -> Iterator[Finding]:
    sent_at = time.time()
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        facts: Any = cursor.execute(query("observe/doctor/server")).fetchone()
    local_s = (sent_at + time.time()) / 2
    yield _version(facts.version_num // 10000, facts.version)
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if getattr(facts, name) == "off":
            risk = "off: a committed event can be lost when the machine fails"
            yield name, "problem", risk, f"set {name} = on in postgresql.conf and reload"
        else:
            yield name, "ok", getattr(facts, name)
    yield _clock(facts.clock_s - local_s, facts.clock_shift)
    in_use = f"{facts.connections} of {facts.connections_max} in use"
    if facts.connections < CONNECTIONS_MAX * facts.connections_max:
        yield "connections", "ok", in_use
    else:
        yield "connections", "warning", in_use, "raise max_connections, or lower the consumers' concurrency"
    yield _notifications(facts.notifications)
    yield _locks(facts.locks, facts.locks_max)


def _version(major: int, version: str) -> Finding:
    if major in VERSIONS:
        return "version", "ok", f"PostgreSQL {version}"
    known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
    if major < VERSIONS[0]:
        return "version", "problem", f"PostgreSQL {version} is too old", f"upgrade it; headrace runs on {known}"
    return "version", "warning", f"PostgreSQL {version} has not been tested", f"tested versions: {known}"


def _notifications(fill: float) -> Finding:
    message = f"{fill:.0%} of the notification queue in use"
    if fill < NOTIFICATIONS_MAX:
        return "notifications", "ok", message
    advice = "end the session that listens in an open transaction (pg_stat_activity, oldest xact_start); until then nodes poll"
    return "notifications", "warning", message, advice


def _locks(locks: int, locks_max: int) -> Finding:
    message = f"{locks} of {locks_max} places in the lock table in use"
    if locks < LOCKS_MAX * locks_max:
        return "locks", "ok", message
    advice = "end the session that holds most of pg_locks, or raise max_locks_per_transaction: publishing fails in a full table"
    return "locks", "warning", message, advice


def _clock(skew_s: float, shift: str | None) -> Finding:
    if shift:
        advice = "reset headrace.clock_shift of the role or database; it is only for tests"
        return "clock", "problem", f"the clock of headrace is shifted by {shift}", advice
    if abs(skew_s) > SKEW_MAX_S:
        where = "ahead of" if skew_s > 0 else "behind"
        return "clock", "warning", f"the server is {abs(skew_s):.1f} s {where} this machine", "synchronize both with NTP"
    return "clock", "ok", f"{abs(skew_s):.1f} s from this machine"
