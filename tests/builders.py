"""Builders: what tests need but do not want to show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.db import Connection, Server, Target
from headrace.log.topics import create_topic, read_log, sequence
from headrace.prove.proxy import Proxy

ROOT = Path(__file__).parents[1]


_admins: dict[str, psycopg.Connection[tuple[object, ...]]] = {}
# Databases whose tests have ended, by the server's folder. A drop right after a test waits 100 ms for its sessions to end.
_ended: dict[Path, list[str]] = {}


def _admin(server: Server) -> psycopg.Connection[tuple[object, ...]]:
    """A connection that stays open, since every test creates and drops a database; a new one if the server has ended since."""
    dsn = server.dsn()
    with suppress(KeyError, psycopg.OperationalError):
        _admins[dsn].execute("select 1")
        return _admins[dsn]
    _admins[dsn] = psycopg.connect(dsn, autocommit=True)
    return _admins[dsn]


@contextmanager
def own_database(server: Server, name: str = "test", *, template: str = "template1") -> Iterator[Target]:
    """A database for one test, dropped when the next one is created."""
    database = f"{name}_{uuid4().hex}"
    _admin(server).execute(f"create database {database} template {template} strategy file_copy")
    _drop_ended(server)
    try:
        yield Target(name, server.dsn(database))
    finally:
        _ended.setdefault(server.folder, []).append(database)


def _drop_ended(server: Server) -> None:
    ended = _ended.get(server.folder, [])
    while ended:
        _admin(server).execute(f"drop database {ended.pop()} with (force)")


@contextmanager
def through_proxy(database: Target) -> Iterator[tuple[Target, Proxy]]:
    """The database through a proxy, and the proxy, whose connections can be cut."""
    parts = conninfo_to_dict(database.dsn)
    proxy = Proxy(str(parts["host"]), int(parts["port"] or 5432))
    proxy.start()
    try:
        yield Target(database.name, make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)), proxy
    finally:
        proxy.stop()


def start_python(module: str, *words: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Starts a process that runs one of our modules; the caller ends it."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-m", module, *words]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=environment)


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 60, every_s: float = 0.02) -> None:
    """Waits for what another process does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(every_s)


def notifications(listener: Connection, sender: Connection) -> int:
    """How many notifications of its channels a session has got since it was asked last.

    Asks for one more on a channel of its own: notifications come in the order of their commits, so all others have come before it."""
    listener.execute("listen test_end")
    sender.execute("notify test_end")
    for count, notification in enumerate(listener.notifies(timeout=60)):
        if notification.channel == "test_end":
            return count
    raise AssertionError("no notification came within 60 s")


def topic(conn: Connection, name: str = "orders", *, partitions: int = 1) -> str:
    """Creates a topic and returns its name."""
    create_topic(conn, name, partitions=partitions)
    return name


def publish(
    conn: Connection, n: int, *, key: str | None = None, topic: str = "orders", type: str = "placed", id: object = None
) -> None:
    """Publishes one event whose payload is a number."""
    conn.execute("select headrace.publish(%s, %s, to_jsonb(%s::int), p_key => %s, p_event_id => %s)", (topic, type, n, key, id))


def fill(conn: Connection, count: int, *, keys: int = 0, topic: str = "orders") -> None:
    """Publishes and sequences the events 1 to count in one transaction; with `keys`, event n has the key k<n % keys>."""
    with conn.transaction():
        conn.execute(
            """select headrace.publish(%s, 'placed', to_jsonb(n), p_key => case when %s > 0 then 'k' || n %% %s end)
               from generate_series(1, %s) n""",
            (topic, keys, max(keys, 1), count),
        )
    drain(conn)


def drain(conn: Connection) -> int:
    """Sequences until the outbox is empty; returns the number of events that got a position."""
    total = 0
    while topics := sequence(conn):
        total += sum(topic.events for topic in topics)
    return total


def numbers(conn: Connection, topic: str = "orders") -> list[object]:
    """The payloads of a topic's log in the order of positions."""
    return [event.payload for event in read_log(conn, topic, limit=1_000_000)]


def shift_clock(conn: Connection, by: str) -> None:
    """Moves headrace's clock for this session."""
    conn.execute("select set_config('headrace.clock_shift', %s, false)", (by,))


def trim_outbox(conn: Connection) -> int:
    """Truncates the drained tables of the outbox and returns how many: a look every second for two rounds, because a table is left alone
    during its turn, just before, and until it has rested."""
    # How much was deleted from a table is counted a moment later, and then its rest begins again.
    conn.execute("select pg_stat_force_next_flush()")
    trimmed = 0
    for seconds in range(24):
        shift_clock(conn, f"{seconds} s")
        (slots,) = conn.execute("select headrace_internal.trim_outbox()").fetchone()  # type: ignore[misc]
        trimmed += slots
    return trimmed


def create_outbox_triggers(conn: Connection, function: str) -> None:
    """A trigger of a user before every insert into the outbox."""
    for slot in range(3):
        conn.execute(
            f"create trigger a_refuse before insert on headrace_internal.outbox_{slot} for each row execute function {function}()"
        )


def rows_read(conn: Connection, table: str) -> int:
    """The number of rows of a table that the transaction has read, by PostgreSQL's own counters."""
    (count,) = conn.execute(
        """select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
           from pg_stat_xact_user_tables where relname = %s""",
        (table,),
    ).fetchone()  # type: ignore[misc]
    return int(count)
