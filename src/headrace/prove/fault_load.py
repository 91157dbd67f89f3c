"""Faults of network, transactions, load and upkeep: each is a block; the fault lasts while the block runs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from headrace.db import Connection, migrate
from headrace.prove.environment import Scene
from headrace.prove.evidence import Missed
from headrace.prove.history import Sent
from headrace.prove.workload import LAGGARD, ORDERS, POISON, TROUBLE

PUBLISH = "select headrace.publish(%s, %s, %s::jsonb, p_key => %s, p_event_id => %s, p_producer => 'nemesis')"


@contextmanager
def cut(scene: Scene, draw: random.Random) -> Iterator[str]:
    """Every connection ends at once, and for a while none can be made."""
    scene.proxy.open = False
    scene.proxy.cut()
    try:
        yield "all connections"
        time.sleep(draw.uniform(0.2, 2.5))
    finally:
        scene.proxy.open = True


@contextmanager
def delay(scene: Scene, draw: random.Random) -> Iterator[str]:
    scene.proxy.delay_s = draw.uniform(0.02, 0.2)
    try:
        yield f"{scene.proxy.delay_s * 1000:.0f} ms each way"
        time.sleep(draw.uniform(2, 4))
    finally:
        scene.proxy.delay_s = 0.0


@contextmanager
def open_transaction(scene: Scene, draw: random.Random) -> Iterator[str]:
    """It has published, holds a snapshot, and does not end for seconds."""
    events = (_event(draw, ORDERS, "placed", "nemesis-held", time.time_ns()),)
    with psycopg.connect(scene.target.dsn) as conn:
        conn.execute("set transaction isolation level repeatable read")
        publish(conn, events)
        yield "repeatable read, one event"
        time.sleep(draw.uniform(3, 6))
        with scene.recorded(events):
            conn.commit()


@contextmanager
def poison(scene: Scene, draw: random.Random) -> Iterator[str]:
    """Events that no handler can digest, among good ones."""
    events = sow_poison(scene, draw)
    yield f"{sum(one.type == POISON for one in events)} of {len(events)} events"


def sow_poison(scene: Scene, draw: random.Random) -> tuple[Sent, ...]:
    """Publishes them."""
    first, base = time.time_ns(), draw.randrange(10**6)
    # Few keys and much poison: what waits behind one and the next one to fail then stand side by side.
    keys, share = draw.choice(((8, 0.2), (4, 0.4), (3, 0.3)))
    events = tuple(
        _event(draw, TROUBLE, POISON if draw.random() < share else "fine", f"trouble-{base}-{draw.randrange(keys)}", first + n)
        for n in range(30)
    )
    with psycopg.connect(scene.target.dsn) as conn, scene.recorded(events):
        publish(conn, events)
        conn.commit()
    return events


def _event(draw: random.Random, topic: str, type_: str, key: str, n: int) -> Sent:
    return Sent(id=UUID(int=draw.getrandbits(128), version=4), topic=topic, type=type_, key=key, n=n, amount=draw.randrange(1000))


def publish(conn: Connection, events: tuple[Sent, ...]) -> None:
    for one in events:
        conn.execute(PUBLISH, (one.topic, one.type, Jsonb(one.payload), one.key, one.id))


@contextmanager
def slow_consumer(scene: Scene, draw: random.Random) -> Iterator[str]:
    pause_s = draw.uniform(0.2, 0.6)
    with scene.connect() as conn:
        conn.execute("insert into headrace_prove.switch (name, pause_s) values ('ledger', %s)", (pause_s,))
    try:
        yield f"{pause_s:.1f} s per batch"
        time.sleep(draw.uniform(3, 5))
    finally:
        with scene.connect() as conn:
            conn.execute("delete from headrace_prove.switch where name = 'ledger'")


@contextmanager
def retention(scene: Scene, draw: random.Random) -> Iterator[str]:
    """Maintenance again and again, while a slow consumer has not passed what has expired."""
    dropped = kept = 0
    with scene.connect() as conn:
        for _ in range(draw.randint(5, 12)):
            # It waits 2 s at most for a lock; then it is another node's turn.
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                expired = conn.execute("select dropped, kept_for from headrace.maintain_log()").fetchall()
                dropped += sum(row[0] for row in expired)
                kept += sum(row[1] == LAGGARD for row in expired)
            time.sleep(0.2)
    told = f"{dropped} time partitions dropped, {kept} times one kept for its slow consumer"
    yield told if kept else Missed(told)


@contextmanager
def remigrate(scene: Scene, _draw: random.Random) -> Iterator[str]:
    """Every function is applied again while it is being used, as an upgrade does."""
    with scene.connect() as conn:
        conn.execute("update headrace_internal.migration set checksum = '' where name like 'functions/%'")
        yield f"{len(migrate(conn))} files"
