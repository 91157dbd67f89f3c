"""Publish + sequence + consume, end to end, against the EventSQL scheme and the bare INSERT, with EventSQL's workload:
one topic, 10 partitions, about 216 bytes of JSON, no key, one event per transaction, a consumer that takes 10 to 100 at once.

What counts is the rate of events *handled*, and only where it is sustained: over the window the backlog may grow by no more
than 3 % of what was published. First the 32 clients run free. A side whose consumers fall behind is run again with pgbench
held to lower rates, until one is sustained for the whole window; that rate is its figure. Both sides get the same treatment."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from typing import LiteralString

from bench import eventsql
from bench.child import Child, child
from bench.lab import Lab, settle, surroundings
from bench.pgbench import Protocol, finish, pgbench, script, start
from bench.publish import BARE_TABLE
from bench.result import Figure, Round, Side, ratio, report
from headrace.db import Connection, Target, connect

CLIENTS = 32
WARM_S = 4.0
GROWTH_MAX = 0.03
WAL_MAX = 1.5
# No key: what the topic's partitions are spread by is the scheme's own business.
BARE = "insert into bare (topic_id, type, payload) values (1, 'account.created', {payload})"
PUBLISH = "select headrace.publish('bench', 'account.created', {payload})"
# What the library sends, with an id by the server because pgbench cannot make one.
INSERT = (
    "insert into headrace.event_0 (topic, type, event_id, payload, is_checked, missing_ok) "
    "values ('bench', 'account.created', headrace.uuid_v7(), {payload}, true, true)"
)


@dataclass(frozen=True)
class Scheme:
    name: str
    statement: str
    schema: LiteralString
    published: LiteralString
    """How many events were published so far; a sequence tells it without a scan."""
    loops: Callable[[str], AbstractContextManager[Child]]


OURS = Scheme(
    "headrace",
    PUBLISH,
    "",
    "select last_value from headrace_internal.outbox_id_seq",
    lambda dsn: child("bench.node", dsn, "batch"),
)
LIBRARY = replace(OURS, name="headrace, the library's statement", statement=INSERT)
THEIRS = Scheme(
    "EventSQL scheme",
    eventsql.PUBLISH,
    eventsql.SCHEMA,
    "select last_value from event_buffer_id_seq",
    lambda dsn: child("bench.eventsql", dsn),
)


def run(lab: Lab, *, quick: bool) -> None:
    facts = surroundings(lab)
    window_s, rounds = (6.0, 1) if quick else (15.0, 3)
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    protocols: tuple[Protocol, ...] = ("simple",) if quick else ("prepared",)
    for protocol in protocols:
        ours, library, theirs, bare = (Side(name, []) for name in (OURS.name, LIBRARY.name, THEIRS.name, "bare insert"))
        for _ in range(rounds):
            bare.rounds.append(_bare(lab, protocol, window_s / 2))
            theirs.rounds.append(_sustained(lab, THEIRS, protocol, window_s))
            ours.rounds.append(_sustained(lab, OURS, protocol, window_s))
            library.rounds.append(_sustained(lab, LIBRARY, protocol, window_s))
        figures.append(ratio(f"end to end : EventSQL scheme, {protocol}", ours, theirs, 1.3))
        figures.append(ratio(f"end to end by the library's statement : EventSQL scheme, {protocol}", library, theirs, 1.3))
        figures.append(ratio(f"end to end : bare insert, {protocol}", ours, bare, 0.6))
        figures.append(_wal(f"WAL : EventSQL scheme, {protocol}", ours, theirs))
        raw[protocol] = {"ours": ours, "library": library, "theirs": theirs, "bare": bare}
    report("end_to_end", facts, figures, raw)


def _wal(name: str, ours: Side, theirs: Side) -> Figure:
    """How many bytes of write-ahead log an event costs, from publish to the consumer's commit."""
    mine, other = (median(each.notes["wal_bytes"] for each in side.rounds) for side in (ours, theirs))
    return Figure(name, mine / other, WAL_MAX, at_most=True, detail=f"{mine:.0f} : {other:.0f} bytes an event")


def _bare(lab: Lab, protocol: Protocol, seconds: float) -> Round:
    with lab.database("bare", partitions=1) as target, connect(target) as conn:
        conn.execute(BARE_TABLE)
        settle(conn)
        before = lab.cpu_s()
        done = pgbench(lab, target, BARE, protocol=protocol, clients=CLIENTS, seconds=seconds)
        return Round(done.tps, 1e6 * (lab.cpu_s() - before + done.cpu_s) / done.transactions)


def _sustained(lab: Lab, scheme: Scheme, protocol: Protocol, window_s: float) -> Round:
    """The highest rate that holds for the window: free running, else ever lower rates."""
    tried = _window(lab, scheme, protocol, window_s, None)
    free = tried
    # A consumer that is starved by free publishers does better when they leave it some room, so begin above its free rate.
    rate = (tried.rate + tried.notes["published_rate"]) / 2
    while tried.notes["growth"] > GROWTH_MAX and tried.notes["published_rate"] > 0.2 * free.rate:
        tried = _window(lab, scheme, protocol, window_s, rate)
        rate *= 0.93
    notes = {**tried.notes, "free_handled_rate": free.rate, "free_published_rate": free.notes["published_rate"]}
    return Round(tried.rate, tried.cpu_us, notes)


def _window(lab: Lab, scheme: Scheme, protocol: Protocol, window_s: float, rate: float | None) -> Round:
    with lab.database("end_to_end", partitions=10) as target, connect(target) as conn:
        if scheme.schema:
            conn.execute(scheme.schema)
        with scheme.loops(target.dsn) as loops:
            settle(conn)
            return _measure(lab, target, conn, scheme, loops, protocol, window_s, rate)


def _measure(
    lab: Lab,
    target: Target,
    conn: Connection,
    scheme: Scheme,
    loops: Child,
    protocol: Protocol,
    window_s: float,
    rate: float | None,
) -> Round:
    before, wal = lab.cpu_s([loops.pid]), _wal_bytes(conn)
    with NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script(scheme.statement, protocol))
        file.flush()
        whole_s = WARM_S + window_s
        clients = start(lab, target, Path(file.name), protocol=protocol, clients=CLIENTS, seconds=whole_s, rate=rate)
        time.sleep(WARM_S)
        window_start, first, published = time.monotonic(), loops.ask(), _count(conn, scheme)
        time.sleep(window_s - 0.5)
        last, published = loops.ask(), _count(conn, scheme) - published
        elapsed = time.monotonic() - window_start
        done = finish(clients)
    while loops.ask()["handled"] < done.transactions:
        time.sleep(0.05)
    handled = last["handled"] - first["handled"]
    return Round(
        rate=handled / elapsed,
        # Until the last event is handled: nothing is put off.
        cpu_us=1e6 * (lab.cpu_s([loops.pid]) - before + done.cpu_s) / done.transactions,
        notes={
            "published_rate": published / elapsed,
            "held_to_rate": rate or 0.0,
            "growth": (published - handled) / published,
            "moved_rate": (last["sequenced"] - first["sequenced"]) / elapsed,
            "wal_bytes": (_wal_bytes(conn) - wal) / done.transactions,
        },
    )


def _wal_bytes(conn: Connection) -> int:
    row = conn.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    assert row is not None
    return int(row[0])


def _count(conn: Connection, scheme: Scheme) -> int:
    row = conn.execute(scheme.published).fetchone()
    assert row is not None
    return int(row[0])
