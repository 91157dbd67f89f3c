"""The stage: a server, a fresh database and a node in a process of its own; all are ended with the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace.core import Conflict, HeadraceError
from headrace.db import Connection, Server, Target, connect, data_folder, migrate, query
from headrace.demo.application import DELAYS, OPERATIONS
from headrace.demo.correlators import make_correlators
from headrace.demo.flights import TOPIC
from headrace.demo.rules import apply_rules
from headrace.log import create_topic

DATABASE = "headrace_demo"
PARTITIONS = 4
MARK = "made by headrace demo; the next run drops it"
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB"}
"""Of the demo's own server; durability stays as PostgreSQL has it by default."""
NODE_END_S = 40.0
LEASE_S = 5
"""Short, since the node is killed: what it held waits so long."""


@dataclass(frozen=True)
class Stage:
    """Where the demo plays."""

    target: Target
    folder: Path | None = None
    """The data folder of the demo's own server; None on a server that was given."""
    server: Server | None = None
    """The demo's own server; None where one was given, and is not the demo's to kill."""


class NodeProcess:
    """`headrace node run` with the demo's application, in a process of its own."""

    def __init__(self, stage: Stage, log: Path) -> None:
        self._stage, self._log = stage, log
        self.start()

    def start(self) -> None:
        run = [sys.executable, "-m", "headrace", "node", "run", "headrace.demo:app"]
        command = [*run, "--lease-s", str(LEASE_S), "--log-json", "--dsn", self._stage.target.dsn]
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)

    def kill(self) -> None:
        """kill -9: it can neither finish nor say anything."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(NODE_END_S)

    def refuse_ended(self) -> None:
        """Raises when it is not there any more, with what it said last."""
        if self._process.poll() is not None:
            told = self._log.read_text(errors="replace")[-2000:].strip()
            raise HeadraceError(f"the demo's node ended with exit code {self._process.returncode}: {told}")


@contextmanager
def own_stage(environ: Mapping[str, str] = os.environ) -> Iterator[Stage]:
    """A server of the demo's own, with a fresh database; stopped at the end, its data stays to be looked at."""
    folder = _folder(environ)
    server = Server(folder / "pg18", settings=SETTINGS)
    try:
        server.start()
        # The database a command finds there by itself: HEADRACE_DATA=<folder> headrace topic list.
        _make_fresh(server.dsn("template1"), "postgres", owned=True)
        yield Stage(_furnish(server.dsn()), folder, server)
    finally:
        server.stop()


@contextmanager
def stage_on(dsn: str) -> Iterator[Stage]:
    """A fresh database on a server that runs; other databases there are not touched."""
    _make_fresh(dsn, DATABASE, owned=False)
    yield Stage(_furnish(make_conninfo(dsn, dbname=DATABASE)))


@contextmanager
def node(stage: Stage, log: Path) -> Iterator[NodeProcess]:
    """A node, told to end at the end."""
    process = NodeProcess(stage, log)
    try:
        yield process
    finally:
        process.end()


def _folder(environ: Mapping[str, str]) -> Path:
    if given := environ.get("HEADRACE_DATA"):
        return Path(given).absolute() / "demo"
    here = Path.cwd() / ".headrace" / "demo"
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in Path.cwd().parents):
        # The user the server runs as cannot get into a closed home folder.
        return data_folder(environ) / "demo"
    return here


def _make_fresh(dsn: str, database: str, *, owned: bool) -> None:
    name = sql.Identifier(database)
    with psycopg.connect(dsn, autocommit=True) as admin:
        row = admin.execute(
            "select shobj_description(d.oid, 'pg_database') from pg_database d where d.datname = %s", (database,)
        ).fetchone()
        if row is not None and row[0] != MARK and not owned:
            raise Conflict(f"database {database!r} is there and was not made by the demo; rename or drop it")
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        admin.execute(sql.SQL("create database {}").format(name))
        admin.execute(sql.SQL("comment on database {} is {}").format(name, sql.Literal(MARK)))


def _furnish(dsn: str) -> Target:
    target = Target("demo", dsn)
    with connect(target) as conn:
        migrate(conn)
        _make_tables(conn)
    return target


def _make_tables(conn: Connection) -> None:
    conn.execute(query("demo/tables"))
    # A year is played in a minute: "within 12 hours" has to mean the time of the flights.
    create_topic(conn, TOPIC, partitions=PARTITIONS, clock="event")
    create_topic(conn, DELAYS)
    create_topic(conn, OPERATIONS)
    apply_rules(conn)
    make_correlators(conn)
