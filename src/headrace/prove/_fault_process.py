"""Faults of processes and of the server: each is a block; the fault lasts while the block runs, and is healed at its end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg.conninfo import make_conninfo

from headrace.prove._scene import Scene

DOWN_S = (0.2, 1.5)
CLOCK_S = (-3, 3, 5)
DIES_WITHIN_S = 12.0


@contextmanager
def kill_producer(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "producer")


@contextmanager
def kill_node(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "node")


@contextmanager
def kill_sink(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "sink")


def _killed(scene: Scene, draw: random.Random, role: str) -> Iterator[str]:
    name = draw.choice(scene.cast.of(role))
    scene.cast.kill(name)
    yield name
    time.sleep(draw.uniform(*DOWN_S))
    scene.cast.start(name)


@contextmanager
def stop_node(scene: Scene, draw: random.Random) -> Iterator[str]:
    """Stopped for longer than a lease: it wakes up and does not know that others have taken what it held."""
    name = draw.choice(scene.cast.of("node"))
    scene.cast.signal(name, signal.SIGSTOP)
    try:
        yield name
        time.sleep(scene.lease_s + draw.uniform(1, 3))
    finally:
        scene.cast.signal(name, signal.SIGCONT)


@contextmanager
def kill_server(scene: Scene, draw: random.Random) -> Iterator[str]:
    """kill -9 of PostgreSQL with all its backends."""
    assert scene.server is not None
    scene.server.kill()
    try:
        yield "kill -9"
        time.sleep(draw.uniform(*DOWN_S))
    finally:
        scene.server.start()


@contextmanager
def restart_server(scene: Scene, draw: random.Random) -> Iterator[str]:
    assert scene.server is not None
    scene.server.stop()
    try:
        yield "stop, start"
        time.sleep(draw.uniform(*DOWN_S))
    finally:
        scene.server.start()


@contextmanager
def kill_backends(scene: Scene, draw: random.Random) -> Iterator[str]:
    ended = 0
    with scene.connect() as conn:
        for _ in range(3):
            pids = [row[0] for row in conn.execute(
                "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by pid"
            ).fetchall()]  # fmt: skip
            for pid in draw.sample(pids, min(len(pids), draw.randint(1, 6))):
                conn.execute("select pg_terminate_backend(%s)", (pid,))
                ended += 1
            time.sleep(0.2)
    yield f"{ended} sessions"


@contextmanager
def exhaust(scene: Scene, draw: random.Random) -> Iterator[str]:
    """Idle connections take every place; some sessions of the workload end, and cannot come back yet."""
    taken: list[psycopg.Connection[tuple[object, ...]]] = []
    with scene.connect() as conn:
        with suppress(psycopg.OperationalError):
            while len(taken) < 500:
                taken.append(psycopg.connect(scene.target.dsn, connect_timeout=3))
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and application_name like 'headrace%' order by pid limit 4"
        )
        with suppress(psycopg.OperationalError):
            while len(taken) < 500:
                taken.append(psycopg.connect(scene.target.dsn, connect_timeout=3))
    try:
        yield f"{len(taken)} connections"
        time.sleep(draw.uniform(2, 4))
    finally:
        for one in taken:
            one.close()


@contextmanager
def clock(scene: Scene, draw: random.Random) -> Iterator[str]:
    """One node's sessions have another idea of the time."""
    name, shift_s = draw.choice(scene.cast.of("node")), draw.choice(CLOCK_S)
    scene.cast.kill(name)
    options = f"-c headrace.clock_shift={shift_s}s"
    scene.cast.start(name, orders=scene.told(name, dsn=make_conninfo(scene.through, options=options)))
    try:
        yield f"{name} {shift_s:+} s"
        time.sleep(draw.uniform(3, 6))
    finally:
        scene.cast.kill(name)
        scene.cast.start(name)


@contextmanager
def failpoint(scene: Scene, draw: random.Random) -> Iterator[str]:
    """A node dies right before or after a statement of its loops, at the n-th time it comes there."""
    name, point, hit = draw.choice(scene.cast.of("node")), draw.choice(scene.failpoints), draw.randint(1, 8)
    scene.cast.kill(name)
    scene.cast.start(name, orders=scene.told(name, failpoint=point, hit=hit))
    yield f"{name} {point} hit {hit}"
    until = time.monotonic() + DIES_WITHIN_S
    while scene.cast.alive(name) and time.monotonic() < until:
        time.sleep(0.1)
    scene.cast.kill(name)
    scene.cast.start(name)
