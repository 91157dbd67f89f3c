"""The lab: a PostgreSQL server of our own, and what has to be known about it to read a figure.

Promises: default, durable settings (fsync, synchronous_commit, full_page_writes); every process it starts it ends."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import psycopg.sql

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log import create_topic

SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "max_connections",
    "autovacuum",
    "jit",
)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Lab:
    """A running server."""

    server: Server

    def target(self, database: str) -> Target:
        return Target(database, self.server.dsn(database))

    @contextmanager
    def database(self, name: str, *, partitions: int) -> Iterator[Target]:
        """A fresh database with headrace and the topic `bench`; dropped at the end, so that the next starts clean."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        target = self.target(name)
        with connect(target) as conn:
            migrate(conn)
            create_topic(conn, "bench", partitions=partitions)
        yield target
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(psycopg.sql.SQL("drop database {} with (force)").format(psycopg.sql.Identifier(name)))

    def cpu_s(self, others: Iterable[int] = ()) -> float:
        """CPU seconds used so far by the server, its backends (also those that ended) and the processes given."""
        postmaster = self.server.pid
        assert postmaster is not None
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return _cpu_s(postmaster, ended=True) + sum(_cpu_s(int(child)) for child in children) + sum(map(_cpu_s, others))


def _cpu_s(pid: int, *, ended: bool = False) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    # utime and stime, and with `ended` those of children that were waited for.
    return sum(map(int, fields[11 : 15 if ended else 13])) / TICKS_PER_S


@contextmanager
def lab() -> Iterator[Lab]:
    """Starts a server in a temporary folder and ends it."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    folder.chmod(0o755)
    server = Server(folder)
    server.start()
    try:
        yield Lab(server)
    finally:
        server.stop()
        shutil.rmtree(folder)


def surroundings(lab: Lab) -> dict[str, object]:
    """What a reader has to know about the machine and the server."""
    with psycopg.connect(lab.server.dsn()) as conn:
        settings = dict(
            conn.execute("select name, current_setting(name) from unnest(%s::text[]) name", (list(SETTINGS),)).fetchall()
        )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg(),
        "settings": settings,
    }


def settle(conn: Connection) -> None:
    """Brings the server to the same state before every round: nothing dirty, so both sides pay the same full page writes."""
    conn.execute("checkpoint")
