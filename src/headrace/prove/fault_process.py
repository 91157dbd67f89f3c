"""Faults of processes and of the server: each is a block; the fault lasts while the block runs, and is healed at its end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg.conninfo import make_conninfo

from headrace.db import Server, query
from headrace.prove.environment import Scene
from headrace.prove.evidence import Missed
from headrace.prove.fault_load import sow_poison
from headrace.prove.step import FUNCTIONS, armed, steps_of, struck

DOWN_S = (0.2, 1.5)
SHARD_DOWN_S = (3, 5)
CLOCK_S = (-3, 3, 5)
DIES_WITHIN_S = 20.0
STRIKES_WITHIN_S = 5.0
SOW_S = 2.0
POISONED = frozenset({"fail", "headrace.fail", "headrace.bury_actions"})
"""Where one comes only after a failure for good."""
RARE = {
    "trim-outbox": 3,
    "run-schedule": 4,
    "fail": 3,
    "headrace.run_schedule": 2,
    "headrace.fail": 2,
    "headrace.bury_actions": 1,
}
"""How often one can come there in the time; elsewhere often enough."""
WORKS_WITHIN_S = 60.0


@contextmanager
def kill_producer(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "producer")


@contextmanager
def kill_node(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "node")


@contextmanager
def kill_sink(scene: Scene, draw: random.Random) -> Iterator[str]:
    yield from _killed(scene, draw, "sink")


@contextmanager
def kill_spark(scene: Scene, draw: random.Random) -> Iterator[str]:
    """The driver, its JVM and their workers at once: none is left to finish a batch. It comes a moment after a cursor has moved,
    so that it meets a pipeline at work, not one that starts."""
    given = {"pid": str(scene.cast.pid(draw.choice(scene.cast.of("pipeline"))))}
    with scene.connect() as conn:
        until = time.monotonic() + WORKS_WITHIN_S
        first = None
        while time.monotonic() < until:
            here = conn.execute(query("prove/piped"), given).fetchone()
            first = first or here
            if here != first:
                break
            time.sleep(0.05)
    time.sleep(draw.uniform(0, 0.6))
    yield from _killed(scene, draw, "pipeline")


def _killed(scene: Scene, draw: random.Random, role: str) -> Iterator[str]:
    name = draw.choice(scene.cast.of(role))
    count = scene.cast.kill(name)
    yield name if count == 1 else f"{name}, {count} processes"
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
    yield from _down(scene.server, scene.server.kill, draw.uniform(*DOWN_S), "kill -9")


@contextmanager
def shard_down(scene: Scene, draw: random.Random) -> Iterator[str]:
    """kill -9 of the second shard's PostgreSQL, and a start after seconds."""
    assert scene.shard is not None
    yield from _down(scene.shard, scene.shard.kill, draw.uniform(*SHARD_DOWN_S), "kill -9 of the second shard")


@contextmanager
def restart_server(scene: Scene, draw: random.Random) -> Iterator[str]:
    assert scene.server is not None
    yield from _down(scene.server, scene.server.stop, draw.uniform(*DOWN_S), "stop, start")


def _down(server: Server, end: Callable[[], None], down_s: float, told: str) -> Iterator[str]:
    end()
    try:
        yield told
        time.sleep(down_s)
    finally:
        server.start()


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
    name, point = draw.choice(scene.cast.of("node")), scene.next_failpoint(draw)
    statement = point.partition(":")[2]
    hit = draw.randint(1, RARE.get(statement, 8))
    scene.cast.kill(name)
    scene.cast.start(name, orders=scene.told(name, failpoint=point, hit=hit))
    try:
        _wait(scene, draw, lambda: not scene.cast.alive(name), DIES_WITHIN_S, poisoned=statement in POISONED)
        died = scene.cast.exit_code(name) == -signal.SIGKILL
    finally:
        scene.cast.kill(name)
        scene.cast.start(name)
    told = f"{name} {point} hit {hit}"
    yield f"{told}, died there" if died else Missed(f"{told}, did not come there in {DIES_WITHIN_S:.0f} s")


def _wait(scene: Scene, draw: random.Random, over: Callable[[], bool], within_s: float, *, poisoned: bool) -> None:
    """Until it is over, or the time is; what only poison leads to is given some now and then."""
    until = sow_at = time.monotonic()
    until += within_s
    while not over() and time.monotonic() < until:
        if poisoned and time.monotonic() >= sow_at:
            sow_poison(scene, draw)
            sow_at += SOW_S
        time.sleep(0.1)


@contextmanager
def step(scene: Scene, draw: random.Random) -> Iterator[str]:
    """A session dies inside one of the database's functions, before a statement of it, at the n-th time one comes there."""
    function = draw.choice(FUNCTIONS)
    name = function.partition("(")[0]
    hit = draw.randint(1, RARE.get(name, 5))
    with scene.connect() as conn:
        number = draw.randint(1, steps_of(conn, function))
        with armed(conn, function, number, hit=hit):
            _wait(scene, draw, lambda: struck(conn), STRIKES_WITHIN_S, poisoned=name in POISONED)
            died = struck(conn)
    told = f"{name} step {number} hit {hit}"
    yield f"{told}, died there" if died else Missed(f"{told}, nobody came there so often in {STRIKES_WITHIN_S:.0f} s")


@contextmanager
def disk_full(scene: Scene, draw: random.Random) -> Iterator[str]:
    """The server's disk has no byte left; PostgreSQL may end over it, and is started again when there is room."""
    assert scene.small_disk is not None and scene.server is not None
    ballast = scene.small_disk / "ballast"
    written = 0
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            written += file.write(b"\0" * 1_000_000)
            file.flush()
    try:
        yield f"{written // 1_000_000} MB of ballast"
        time.sleep(draw.uniform(2, 4))
    finally:
        ballast.unlink()
        scene.server.start()
