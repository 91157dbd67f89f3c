"""Faults of the server and of its sessions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from headrace.db import Server
from headrace.prove.environment import Environment
from headrace.prove.evidence import NoEffect
from headrace.prove.faults.process import DOWN_S, wait_for
from headrace.prove.faults.sql_failpoint import FUNCTIONS, armed_failpoint, count_statements, was_reached

SHARD_DOWN_S = (3, 5)
FAILPOINT_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 500
HITS_MAX = {"run_schedule": 2, "fail": 2, "bury_actions": 1}
"""Functions that are called only this often in the time; other ones 5 times and more."""
NEEDS_POISON = frozenset({"fail", "bury_actions"})
"""Functions that are called only after a final failure."""


@contextmanager
def kill_server(environment: Environment, draw: random.Random) -> Iterator[str]:
    """kill -9 of PostgreSQL with all its backends."""
    assert environment.server is not None
    yield from _take_down(environment.server, environment.server.kill, draw.uniform(*DOWN_S), "kill -9")


@contextmanager
def shard_down(environment: Environment, draw: random.Random) -> Iterator[str]:
    """kill -9 of the second shard's PostgreSQL, and a start after seconds."""
    server = environment.second_server
    assert server is not None
    yield from _take_down(server, server.kill, draw.uniform(*SHARD_DOWN_S), "kill -9 of the second shard")


@contextmanager
def restart_server(environment: Environment, draw: random.Random) -> Iterator[str]:
    assert environment.server is not None
    yield from _take_down(environment.server, environment.server.stop, draw.uniform(*DOWN_S), "stop, start")


def _take_down(server: Server, stop: Callable[[], None], down_s: float, detail: str) -> Iterator[str]:
    stop()
    try:
        yield detail
        time.sleep(down_s)
    finally:
        server.start()


@contextmanager
def kill_backends(environment: Environment, draw: random.Random) -> Iterator[str]:
    count = 0
    with environment.connect() as conn:
        for _ in range(3):
            rows = conn.execute(
                "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by pid"
            ).fetchall()
            for (pid,) in draw.sample(rows, min(len(rows), draw.randint(1, 6))):
                conn.execute("select pg_terminate_backend(%s)", (pid,))
                count += 1
            time.sleep(0.2)
    yield f"{count} sessions"


@contextmanager
def exhaust_connections(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Opens idle connections until none is left, ends some sessions of the workload, and takes their connections too."""
    idle: list[psycopg.Connection[tuple[object, ...]]] = []

    def take_all() -> None:
        with suppress(psycopg.OperationalError):
            while len(idle) < CONNECTIONS_MAX:
                idle.append(psycopg.connect(environment.target.dsn, connect_timeout=3))

    with environment.connect() as conn:
        take_all()
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and application_name like 'headrace%' order by pid limit 4"
        )
        take_all()
    try:
        yield f"{len(idle)} connections"
        environment.hold(draw.uniform(2, 4))
    finally:
        for connection in idle:
            connection.close()


@contextmanager
def sql_failpoint(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Lets a session die inside one of the database's functions, before a statement, at its n-th execution."""
    function = draw.choice(FUNCTIONS)
    hit = draw.randint(1, HITS_MAX.get(function, 5))
    with environment.connect() as conn:
        number = draw.randint(1, count_statements(conn, function))
        with armed_failpoint(conn, function, number, hit=hit):
            wait_for(environment, draw, lambda: was_reached(conn), FAILPOINT_TIMEOUT_S, needs_poison=function in NEEDS_POISON)
            died = was_reached(conn)
    detail = f"{function} statement {number} hit {hit}"
    yield f"{detail}, died there" if died else NoEffect(f"{detail}, not reached in {FAILPOINT_TIMEOUT_S:.0f} s")


@contextmanager
def disk_full(environment: Environment, draw: random.Random) -> Iterator[str]:
    """Fills the server's disk to the last byte. PostgreSQL may end; it is started again when there is space."""
    assert environment.small_disk is not None and environment.server is not None
    ballast = environment.small_disk / "ballast"
    written = 0
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            written += file.write(b"\0" * 1_000_000)
            file.flush()
    try:
        yield f"{written // 1_000_000} MB of ballast"
        environment.hold(draw.uniform(2, 4))
    finally:
        ballast.unlink()
        environment.server.start()
