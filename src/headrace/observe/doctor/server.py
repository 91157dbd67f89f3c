"""Checks of the server: version, durability, clock, connections, transactions, extensions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, query
from headrace.observe.doctor.check import Check

VERSIONS = range(15, 19)
SKEW_MAX_S = 2.0
CONNECTIONS_MAX = 0.8
TRANSACTION_MAX_S = 300.0


@dataclass(frozen=True)
class ServerFacts:
    """A row of queries/observe/doctor/server.sql."""

    version_num: int
    version: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    clock_s: float
    clock_shift: str | None
    connections_max: int
    connections: int


def check_server(shard: str, conn: Connection) -> Iterator[Check]:
    """All checks that do not need the schema of headrace."""
    sent_at = time.time()
    with conn.cursor(row_factory=class_row(ServerFacts)) as cursor:
        facts = cursor.execute(query("observe/doctor/server")).fetchone()
    assert facts is not None
    yield _version(shard, facts)
    yield from _durability(shard, facts)
    yield _clock(shard, facts, (sent_at + time.time()) / 2)
    yield _connections(shard, facts)
    yield from _transactions(shard, conn)
    yield from _extensions(shard, conn)


def _version(shard: str, facts: ServerFacts) -> Check:
    major = facts.version_num // 10000
    if major in VERSIONS:
        return Check(shard, "version", "ok", f"PostgreSQL {facts.version}")
    known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
    if major < VERSIONS[0]:
        return Check(
            shard, "version", "problem", f"PostgreSQL {facts.version} is too old", f"upgrade it; headrace runs on {known}"
        )
    return Check(shard, "version", "warning", f"PostgreSQL {facts.version} has not been tested", f"tested versions: {known}")


def _durability(shard: str, facts: ServerFacts) -> Iterator[Check]:
    risk = "a committed event can be lost when the machine fails"
    for name, value in (
        ("fsync", facts.fsync),
        ("full_page_writes", facts.full_page_writes),
        ("synchronous_commit", facts.synchronous_commit),
    ):
        if value == "off":
            yield Check(shard, name, "problem", f"off: {risk}", f"set {name} = on in postgresql.conf and reload")
        else:
            yield Check(shard, name, "ok", value)


def _clock(shard: str, facts: ServerFacts, local_s: float) -> Check:
    skew_s = facts.clock_s - local_s
    if facts.clock_shift:
        advice = "reset headrace.clock_shift of the role or database; it is only for tests"
        return Check(shard, "clock", "problem", f"the clock of headrace is shifted by {facts.clock_shift}", advice)
    if abs(skew_s) > SKEW_MAX_S:
        where = "ahead of" if skew_s > 0 else "behind"
        return Check(
            shard, "clock", "warning", f"the server is {abs(skew_s):.1f} s {where} this machine", "synchronize both with NTP"
        )
    return Check(shard, "clock", "ok", f"{abs(skew_s):.1f} s from this machine")


def _connections(shard: str, facts: ServerFacts) -> Check:
    message = f"{facts.connections} of {facts.connections_max} in use"
    if facts.connections < CONNECTIONS_MAX * facts.connections_max:
        return Check(shard, "connections", "ok", message)
    return Check(shard, "connections", "warning", message, "raise max_connections, or lower the consumers' concurrency")


def _transactions(shard: str, conn: Connection) -> Iterator[Check]:
    rows = conn.execute(query("observe/doctor/transactions"), {"older_s": TRANSACTION_MAX_S}).fetchall()
    for holder, age_s, advice in rows:
        yield Check(shard, "open transactions", "warning", f"{holder} has been open for {age_s:.0f} s and blocks vacuum", advice)
    if not rows:
        yield Check(shard, "open transactions", "ok", f"none older than {TRANSACTION_MAX_S:.0f} s")


def _extensions(shard: str, conn: Connection) -> Iterator[Check]:
    for name, version in conn.execute(query("observe/doctor/extensions")).fetchall():
        message = f"version {version}" if version else "not installed; headrace does its work itself"
        yield Check(shard, name, "info", message)
