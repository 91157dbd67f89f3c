"""Faults of network, transactions, load and maintenance; erasure under load; and a hostile tenant, which sends random statements with
identifiers of the workload's namespace."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from headrace.core import ArchiveBusy
from headrace.db import Connection, migrate, query
from headrace.log.archive import Erasure, erase_key
from headrace.prove.attacker import attack, known_identifiers
from headrace.prove.environment import Environment, fault
from headrace.prove.evidence import NoEffect, SentEvent
from headrace.prove.workload import LAGGARD, ORDERS, PEOPLE, PERSONAL, POISON, TROUBLE

PUBLISH = "select headrace.publish(%s, %s, %s::jsonb, p_key => %s, p_event_id => %s, p_producer => 'nemesis', p_emitted_at => %s)"


@fault("cut", "every connection cut, and new ones rejected for a while")
def cut(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Cuts every connection at once, and rejects new ones for a while."""
    environment.proxy.open = False
    environment.proxy.cut()
    try:
        yield "all connections"
        environment.hold(draw.uniform(0.2, 2.5))
    finally:
        environment.proxy.open = True


@fault("blackhole", "connections that stay open and swallow everything for longer than a lease")
def blackhole(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Connections stay open and nothing arrives, for longer than a lease. Then everything arrives late, or is lost with its connection."""
    is_lost = draw.random() < 0.5
    environment.proxy.swallow()
    try:
        yield "all connections, then cut" if is_lost else "all connections"
        time.sleep(environment.options.lease_s)
        environment.hold(draw.uniform(0.5, 3))
    finally:
        if is_lost:
            environment.proxy.cut()
        environment.proxy.forward()


@fault("kill-target", "kill -9 of a server that a relay delivers to, and a start", relays=True)
def kill_target(environment: Environment, draw: random.Random) -> Iterator[str]:
    target = draw.choice(environment.relay_targets)
    target.kill()
    try:
        yield target.kind
        environment.hold(draw.uniform(0.2, 1.5))
    finally:
        target.start()


@fault("cut-target", "connections of a relay cut, and new ones rejected for a while", relays=True)
def cut_target(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Cuts the connections of a relay in the middle of the data, and rejects new ones for a while."""
    target = draw.choice(environment.relay_targets)
    target.cut()
    try:
        yield target.kind
        environment.hold(draw.uniform(0.2, 2.5))
    finally:
        target.mend()


@fault("delay", "connections delayed in both directions")
def delay(environment: Environment, draw: random.Random) -> Iterator[str]:
    environment.proxy.delay_s = draw.uniform(0.02, 0.2)
    try:
        yield f"{environment.proxy.delay_s * 1000:.0f} ms in each direction"
        environment.hold(draw.uniform(2, 4))
    finally:
        environment.proxy.delay_s = 0.0


@fault("open-transaction", "a transaction that has published and stays open")
def open_transaction(environment: Environment, draw: random.Random) -> Iterator[str]:
    """A transaction that has published, holds a snapshot, and stays open for seconds."""
    events = (_event(draw, ORDERS, "placed", "nemesis-held", time.time_ns()),)
    with psycopg.connect(environment.target.dsn) as conn:
        conn.execute("set transaction isolation level repeatable read")
        publish(conn, events)
        yield "repeatable read, one event"
        environment.hold(draw.uniform(3, 6))
        with environment.record_transaction(events):
            conn.commit()


@fault("poison", "events on which every handler fails")
def poison(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Events on which every handler fails, among good ones."""
    events = publish_poison(environment, draw)
    yield f"{sum(event.type == POISON for event in events)} of {len(events)} events"


def publish_poison(environment: Environment, draw: random.Random) -> tuple[SentEvent, ...]:
    """Publishes poison and good events in one transaction."""
    first, base = time.time_ns(), draw.randrange(10**6)
    # Few keys and much poison: events that wait behind poison are then next to the next poison.
    keys, share = draw.choice(((8, 0.2), (4, 0.4), (3, 0.3)))
    events = tuple(
        _event(draw, TROUBLE, POISON if draw.random() < share else "fine", f"trouble-{base}-{draw.randrange(keys)}", first + n)
        for n in range(30)
    )
    with psycopg.connect(environment.target.dsn) as conn, environment.record_transaction(events):
        publish(conn, events)
        conn.commit()
    return events


def _event(draw: random.Random, topic: str, event_type: str, key: str, n: int) -> SentEvent:
    event_id = UUID(int=draw.getrandbits(128), version=4)
    now = datetime.now(UTC)
    return SentEvent(id=event_id, topic=topic, type=event_type, key=key, n=n, amount=draw.randrange(1000), emitted_at=now)


def publish(conn: Connection, events: tuple[SentEvent, ...]) -> None:
    for event in events:
        conn.execute(PUBLISH, (event.topic, event.type, Jsonb(event.payload), event.key, event.id, event.emitted_at))


@fault("slow-consumer", "a slow consumer")
def slow_consumer(environment: Environment, draw: random.Random) -> Iterator[str]:
    pause_s = draw.uniform(0.2, 0.6)
    with environment.connect() as conn:
        conn.execute("insert into headrace_prove.switch (name, pause_s) values ('ledger', %s)", (pause_s,))
    try:
        yield f"{pause_s:.1f} s per batch"
        environment.hold(draw.uniform(3, 5))
    finally:
        with environment.connect() as conn:
            conn.execute("delete from headrace_prove.switch where name = 'ledger'")


@fault("retention", "retention while a consumer is behind")
def retention(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Runs maintenance repeatedly, while a slow consumer has not passed the expired partitions."""
    dropped = kept = 0
    with environment.connect() as conn:
        for _ in range(draw.randint(5, 12)):
            # Maintenance waits at most 2 s for a lock; then a node may be running it.
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                rows = conn.execute("select dropped, kept_for from headrace.maintain_log()").fetchall()
                dropped += sum(row[0] for row in rows)
                kept += sum(row[1] == LAGGARD for row in rows)
            time.sleep(0.2)
    detail = f"{dropped} time partitions dropped, {kept} times one kept for its slow consumer"
    yield detail if kept else NoEffect(detail)


@fault("migrate", "every function applied again under load")
def migrate_again(environment: Environment, _draw: random.Random) -> Iterator[str]:
    """Applies every function again while it is in use, as an upgrade does."""
    with environment.connect() as conn:
        conn.execute("update headrace_internal.migration set checksum = '' where name like '%/functions/%'")
        yield f"{len(migrate(conn))} files"


PERSONS, EVENTS = 3, 7
BUSY_S = 0.05
REACHED_S = 60.0
"""How long to wait at most until a correlator has seen the first person."""


@fault("erase", "the data of keys erased while nodes work on it")
def erase_people(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Publishes events of some people and erases each of them: some events wait in the outbox, others are in the log, and rules and
    the correlator are at work on them."""
    people = [f"{draw.getrandbits(64):016x}{PERSONAL}" for _ in range(PERSONS)]
    with environment.connect() as conn:
        for number in range(EVENTS):
            for person in people:
                payload = Jsonb({"email": person, "n": number})
                conn.execute(PUBLISH, (PEOPLE, "joined", payload, person, None, None))
    rows = 0
    _wait_for_instance(environment, people[0])
    for person in people:
        environment.hold(draw.choice((0.0, 0.2, 2.0)))
        rows += sum(_erase(environment, person).row_counts.values())
    yield f"{rows} rows of {PERSONS} keys"


def _wait_for_instance(environment: Environment, person: str) -> None:
    """At least one person is erased of whom a correlator keeps a state."""
    until = time.monotonic() + REACHED_S
    with environment.connect() as conn:
        while conn.execute(query("prove/has_instance"), {"key": person}).fetchone() == (False,) and time.monotonic() < until:
            time.sleep(BUSY_S)


def _erase(environment: Environment, person: str) -> Erasure:
    """Waits while the eraser of the workload erases somebody else: a topic has one erasure at a time."""
    while True:
        try:
            return erase_key(environment.target, PEOPLE, person, replace_key=True, vacuum=False)
        except ArchiveBusy:
            time.sleep(BUSY_S)


NAMESPACE = "hostile"
CALLS = 300
LEVELS = ("publish", "consume", "work", "admin")


@fault("tenant", "a role of another namespace that sends random statements")
def hostile_tenant(environment: Environment, draw: random.Random) -> Iterator[str]:
    """A role with a random level in its own namespace attacks the workload's."""
    role, password, level = f"hostile_{draw.getrandbits(32):08x}", secrets.token_hex(16), draw.choice(LEVELS)
    with environment.connect() as conn:
        _create(conn, role, password, level)
        other, own = known_identifiers(conn, "default"), known_identifiers(conn, NAMESPACE)
    try:
        dsn = make_conninfo(environment.target.dsn, user=role, password=password)
        report = attack(dsn, other, CALLS, draw.randrange(2**31), own=own)
        yield f"{report.calls} statements with the level {level}, {report.outcomes['ok']} of them accepted"
    finally:
        with environment.connect() as conn:
            conn.execute(sql.SQL("drop owned by {role} cascade; drop role {role}").format(role=sql.Identifier(role)))


def _create(conn: Connection, role: str, password: str, level: str) -> None:
    known = conn.execute("select from headrace.namespace where namespace = %s", (NAMESPACE,)).fetchone()
    if known is None:
        conn.execute("select headrace.create_namespace(%s)", (NAMESPACE,))
        conn.execute("select headrace.create_topic('orders', p_namespace => %s)", (NAMESPACE,))
    conn.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(role), sql.Literal(password)))
    conn.execute("select headrace.grant_namespace(%s, %s, %s)", (role, NAMESPACE, level))
