"""Doctor: checks a database and says what is wrong and what to do.

Promises: it only reads; a check that cannot be made is itself a finding, never a crash.

The checks of the server do not need the schema of headrace: version, durability, clock, connections, notification queue, lock table. The
others look at outbox, sequencer, consumers, queues and dead letters, or are queries of observe/doctor that list findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from psycopg.rows import namedtuple_row

from headrace.core import DatabaseUnavailable, HeadraceError
from headrace.db import Connection, Target, connect, map_database_errors, pending_steps, query

__all__ = [
    "Check",
    "Level",
    "compare_shards",
    "examine",
]

Level: TypeAlias = Literal["ok", "info", "warning", "problem"]
"""`problem`: events do not move, or a promise is broken. `warning`: that will happen, or somebody should take a look."""
Finding: TypeAlias = tuple[str, Level, str] | tuple[str, Level, str, str]
"""Check, level, message and, for a warning or a problem, advice."""


@dataclass(frozen=True)
class Check:
    """The result of one check on one shard. A warning or a problem comes with advice."""

    shard: str
    check: str
    level: Level
    message: str
    advice: str | None = None


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
    fill, in_use = facts.connections / facts.connections_max, f"{facts.connections} of {facts.connections_max} in use"
    advice = "raise max_connections, or lower the consumers' concurrency"
    yield _fill("connections", fill < CONNECTIONS_MAX, in_use, advice)
    message = f"{facts.notifications:.0%} of the notification queue in use"
    advice = "end the session that listens in an open transaction (pg_stat_activity, oldest xact_start); until then nodes poll"
    yield _fill("notifications", facts.notifications < NOTIFICATIONS_MAX, message, advice)
    message = f"{facts.locks} of {facts.locks_max} places in the lock table in use"
    advice = "end the session that holds most of pg_locks, or raise max_locks_per_transaction: publishing fails in a full table"
    yield _fill("locks", facts.locks < LOCKS_MAX * facts.locks_max, message, advice)


def _fill(check: str, is_low: bool, message: str, advice: str) -> Finding:
    return (check, "ok", message) if is_low else (check, "warning", message, advice)


def _version(major: int, version: str) -> Finding:
    if major in VERSIONS:
        return "version", "ok", f"PostgreSQL {version}"
    known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
    if major < VERSIONS[0]:
        return "version", "problem", f"PostgreSQL {version} is too old", f"upgrade it; headrace runs on {known}"
    return "version", "warning", f"PostgreSQL {version} has not been tested", f"tested versions: {known}"


def _clock(skew_s: float, shift: str | None) -> Finding:
    if shift:
        advice = "reset headrace.clock_shift of the role or database; it is only for tests"
        return "clock", "problem", f"the clock of headrace is shifted by {shift}", advice
    if abs(skew_s) > SKEW_MAX_S:
        where = "ahead of" if skew_s > 0 else "behind"
        return "clock", "warning", f"the server is {abs(skew_s):.1f} s {where} this machine", "synchronize both with NTP"
    return "clock", "ok", f"{abs(skew_s):.1f} s from this machine"


OUTBOX_LIMIT = 100_000
WAITING_MAX_S = 10.0
"""With a running sequencer events wait for milliseconds; longer means that none runs, or that it is too slow."""
DUE_MAX_S = 60.0
"""With enough nodes, actions wait for much less."""


def check_outbox(conn: Connection) -> Iterator[Finding]:
    waiting, oldest_s = conn.execute(query("observe/doctor/outbox"), {"limit": OUTBOX_LIMIT}).fetchone() or (0, 0.0)
    sequencers = [name for (name,) in conn.execute(query("observe/doctor/sequencers")).fetchall()]
    count = (
        "1 event is waiting" if waiting == 1 else f"{waiting}{' or more' if waiting == OUTBOX_LIMIT else ''} events are waiting"
    )
    late = f"{count}, the oldest for {oldest_s:.0f} s"
    if waiting == 0 or oldest_s < WAITING_MAX_S:
        yield "outbox", "ok", count
    elif sequencers:
        advice = "look for a session that locks headrace.topic, or give the server more CPU"
        yield "outbox", "warning", f"{late}, although a sequencer runs", advice
    else:
        yield "outbox", "problem", late, "run: headrace node run"
    if sequencers:
        yield "sequencer", "ok", f"runs on {', '.join(sequencers)}"
    else:
        yield "sequencer", "warning", "no sequencer runs", "run: headrace node run"


def check_consumers(conn: Connection) -> Iterator[Finding]:
    healthy = 0
    rows = conn.execute(query("observe/doctor/consumers")).fetchall()
    for namespace, topic, consumer, stopped, failing, dead_letters, error, kept in rows:
        name = f"{namespace}/{topic}/{consumer}"
        where = f"{topic} {consumer} --namespace {namespace}"
        see_lag = f"see: headrace consumer lag {where}"
        if stopped:
            advice = f"{see_lag}; correct the error, then run: headrace consumer resume {where}"
            yield (
                "consumers",
                "problem",
                f"{name}: {stopped} {'partition has' if stopped == 1 else 'partitions have'} stopped",
                advice,
            )
        if kept:
            events = "1 event behind it stays" if kept == 1 else f"{kept} events behind it stay"
            advice = f"run a node with it; if it was renamed or is not needed any more: headrace consumer drop {where}"
            yield "consumers", "warning", f"{name}: no node runs it, and {events} in the log whatever its retention", advice
        if failing:
            yield "consumers", "warning", f"{name}: {failing} partitions keep failing: {error}", see_lag
        if dead_letters:
            which = f"--consumer {topic}/{consumer} --namespace {namespace}"
            advice = f"redrive or discard them; see: headrace dead-letter list {which}"
            yield "dead letters", "warning", f"{name}: {_count(dead_letters, 'event')} moved to the dead letters", advice
        healthy += not (stopped or failing or dead_letters or kept)
    yield "consumers", "ok" if healthy else "info", f"{healthy} without problems"


def check_actions(conn: Connection) -> Iterator[Finding]:
    healthy = True
    for namespace, due, dead, oldest_due_s in conn.execute(query("observe/doctor/queues")).fetchall():
        if oldest_due_s > DUE_MAX_S:
            message = f"{namespace}: {due} actions are due; the oldest has waited {oldest_due_s:.0f} s"
            advice = f"run more nodes with handlers for them; see: headrace node list --namespace {namespace}"
            yield "actions", "warning", message, advice
        if dead:
            advice = f"redrive or discard them; see: headrace dead-letter groups --namespace {namespace}"
            yield "dead letters", "warning", f"{namespace}: {_count(dead, 'action')} moved to the dead letters", advice
        healthy = healthy and not dead and oldest_due_s <= DUE_MAX_S
    if healthy:
        yield "actions", "ok", "no action is late, and there are no dead letters"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"


LIMITS = {"transaction_max_s": 300.0, "pending_max_s": 10.0, "ahead_max_s": 2.0}
"""Parameters of the queries. A running node compiles a pending rule within a second. NTP turns a clock back by less than a second."""

Checks: TypeAlias = Mapping[str, Callable[[Connection], Iterator[Finding]] | str | None]
"""Checks by their names: a function; or, for a query of observe/doctor that lists findings, what no finding means."""
SERVER_CHECKS: Checks = {
    "server": check_server,
    "open transactions": f"none older than {LIMITS['transaction_max_s']:.0f} s",
    "extensions": None,
}
STATE_CHECKS: Checks = {
    "time partitions": "created ahead",
    "log time": "not ahead of the clock",
    "outbox": check_outbox,
    "consumers": check_consumers,
    "rules": "all are compiled",
    "correlators": "all are compiled",
    "actions": check_actions,
    "schedules": "no schedule fails",
    "relays": "all are run by a node",
    "nodes": None,
    "indexes": "all are valid",
    "replica identity": "publications stop nothing",
    "jit": "no function of headrace is compiled when it is called",
    "failures": "nothing fails in the loops of the nodes",
    "erasures": "all are finished",
    "grants": "as headrace sets them",
    "search path": "nobody else may create in its schemas",
    "owner": "no superuser",
}


def examine(target: Target) -> list[Check]:
    """Runs all checks on one database. A check that fails to run becomes a problem, and the others still run."""
    try:
        with connect(target) as conn:
            findings: list[Finding] = [("reachable", "ok", str(target)), *_run(conn, SERVER_CHECKS), _check_migrated(conn)]
            if findings[-1][1] == "ok":
                findings += _run(conn, STATE_CHECKS)
    except DatabaseUnavailable as error:
        advice = "start PostgreSQL, or correct HEADRACE_DSN; see: headrace server status"
        findings = [("reachable", "problem", str(error), advice)]
    return [Check(target.name, *finding) for finding in findings]


def _run(conn: Connection, checks: Checks) -> Iterator[Finding]:
    for name, check in checks.items():
        try:
            with map_database_errors(), conn.transaction():
                # An operator's session: it must not call what somebody has created under the name of a function of PostgreSQL.
                conn.execute("set local search_path = pg_catalog, pg_temp")
                if callable(check):
                    yield from check(conn)
                    continue
                statement = "definitions" if name in ("rules", "correlators") else name.replace(" ", "_")
                rows = conn.execute(query(f"observe/doctor/{statement}"), LIMITS | {"check": name}).fetchall()
                yield from rows
                if not rows and check:
                    yield name, "ok", check
        except HeadraceError as error:
            yield name, "problem", f"the check failed: {error}", "make sure that your role may read this database"


def _check_migrated(conn: Connection) -> Finding:
    try:
        with map_database_errors():
            missing = pending_steps(conn)
    except HeadraceError as error:
        return "migrated", "problem", str(error), "install the version of headrace that this database was migrated with"
    if missing:
        return "migrated", "problem", f"{len(missing)} steps of the schema are missing", "run: headrace migrate"
    return "migrated", "ok", "the schema is up to date"


def compare_shards(targets: Sequence[Target]) -> list[Check]:
    """Checks that all shards have the same topics and numbers of partitions. Unreachable shards are skipped."""
    shapes: dict[str, dict[str, int]] = {}
    for target in targets:
        try:
            with connect(target) as conn, map_database_errors():
                shapes[target.name] = dict(conn.execute(query("observe/doctor/topic_shapes")).fetchall())
        except HeadraceError:
            continue  # The checks of this shard report the error.
    if len(shapes) < 2:
        return []
    all_topics = {topic: partitions for shape in shapes.values() for topic, partitions in shape.items()}
    return [Check(shard, "same topics", *_compare(shape, all_topics)) for shard, shape in shapes.items()]


def _compare(shape: dict[str, int], all_topics: dict[str, int]) -> tuple[Level, str, str | None]:
    missing = sorted(all_topics.keys() - shape.keys())
    different = sorted(topic for topic, partitions in shape.items() if all_topics[topic] != partitions)
    if missing:
        advice = "run on this shard: headrace topic create … --if-not-exists"
        return "problem", f"topics are missing: {', '.join(missing)}", advice
    if different:
        advice = "raise the lower number: headrace topic alter … --partitions"
        return "warning", f"other shards have another number of partitions: {', '.join(different)}", advice
    return "ok", f"{len(shape)} topics", None
