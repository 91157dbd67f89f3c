"""The server of the benchmarks, and the facts about machine and server that belong to a result.

Promises: default, durable settings (fsync, synchronous_commit, full_page_writes); it ends every process it starts."""

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

import psutil
import psycopg
import psycopg.sql

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.topics import create_topic

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


@dataclass(frozen=True)
class Lab:
    """A running server."""

    server: Server

    def target(self, database: str) -> Target:
        return Target(database, self.server.dsn(database))

    @contextmanager
    def database(self, name: str, *, partitions: int, keep: bool = False) -> Iterator[Target]:
        """A new database with headrace and the topic `bench`; dropped at the end. With `keep` it stays, and the next run finds it."""
        target = self.target(name)
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            exists = admin.execute("select from pg_catalog.pg_database where datname = %s", (name,)).fetchone() is not None
            if not exists:
                admin.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        if not exists:
            with connect(target) as conn:
                migrate(conn)
                create_topic(conn, "bench", partitions=partitions)
                # Some benchmarks write to the log themselves.
                conn.execute("select headrace_internal.attach_log(topic_id) from headrace_internal.topic where not attached")
        yield target
        if keep:
            return
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(psycopg.sql.SQL("drop database {} with (force)").format(psycopg.sql.Identifier(name)))

    def cpu_s(self, others: Iterable[int] = ()) -> float:
        """CPU seconds used so far by the server, its backends (ended ones too) and other processes."""
        assert self.server.pid is not None
        postmaster = psutil.Process(self.server.pid)
        while True:
            ended = postmaster.cpu_times()
            pids = [self.server.pid, *(child.pid for child in postmaster.children()), *others]
            used = ended.children_user + ended.children_system + sum(map(cpu_s, pids))
            after = postmaster.cpu_times()
            # A backend that ended meanwhile would be in neither of the two, or in both.
            if (after.children_user, after.children_system) == (ended.children_user, ended.children_system):
                return used


def cpu_s(pid: int) -> float:
    """CPU seconds used so far by a process; 0 if it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


@contextmanager
def lab(keep: Path | None = None) -> Iterator[Lab]:
    """Starts a server in a temporary folder and ends it; with `keep`, in that folder, which stays."""
    folder = keep or Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    server = Server(folder)
    server.start()
    try:
        yield Lab(server)
    finally:
        server.stop()
        if keep is None:
            shutil.rmtree(folder)


def surroundings(lab: Lab) -> dict[str, object]:
    """The facts about machine and server."""
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
    """Makes every round start from a checkpoint, so that both sides pay for the same full page writes."""
    conn.execute("checkpoint")
