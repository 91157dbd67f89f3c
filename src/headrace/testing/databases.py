"""Throw-away databases: each one a copy of a migrated template, dropped at the end of its test.

Owns: databases named headrace_template_… and headrace_test_…. The server is HEADRACE_TEST_DSN, or else an embedded PostgreSQL that
lives as long as the test session. Promises: the template is migrated once per schema; one that was left half-made is never used."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from headrace.core import Forbidden, HeadraceError
from headrace.db import Connection, Server, Target, connect, fetch_value, migrate, schema_checksum

ENVIRONMENT = "HEADRACE_TEST_DSN"
# The data is thrown away: nothing needs to survive a crash of the machine.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
}
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 2 * 1024**3
PREFIX = "headrace-pytest-"
_LOCK = 0x68656164746D706C  # "headtmpl"


@contextmanager
def open_server() -> Iterator[DatabaseServer]:
    """The server of HEADRACE_TEST_DSN, or an embedded one that is started here and deleted at the end."""
    if dsn := os.environ.get(ENVIRONMENT):
        with DatabaseServer(Target(ENVIRONMENT, dsn).dsn) as server:
            yield server
        return
    with _embedded_server() as embedded, DatabaseServer(embedded.dsn()) as server:
        yield server


class DatabaseServer:
    """Creates and drops databases on one server, over a connection that stays open."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._ended: list[str] = []
        """Databases whose tests have ended. They are dropped when the next one is created, or at the end: a drop right after a test
        waits 100 ms for each session that is just ending."""

    def __enter__(self) -> DatabaseServer:
        self._connection = connect(Target("test server", self._dsn))
        self._admin = self._connection.__enter__()
        # A file copy is a checkpoint and a copy of every file: the faster way where nobody waits for the disk.
        is_volatile = fetch_value(self._admin, "select current_setting('fsync') = 'off'")
        self._strategy = "file_copy" if is_volatile else "wal_log"
        return self

    def __exit__(self, *_error: object) -> None:
        self._drop_ended()
        self._connection.__exit__(None, None, None)

    def template(self) -> str:
        """The database with the schema of this release; migrated by the first who asks, and kept for later test sessions."""
        name = f"headrace_template_{schema_checksum()[:16]}"
        # Several test processes may share a server. Not a transaction's lock: a database is not created in a transaction.
        self._admin.execute("select pg_advisory_lock(%s)", (_LOCK,))
        try:
            if fetch_value(self._admin, "select true from pg_database d where d.datname = %s", (name,)) is None:
                self._create_template(name)
        finally:
            self._admin.execute("select pg_advisory_unlock(%s)", (_LOCK,))
        return name

    def _create_template(self, name: str) -> None:
        with self.database("template1", prefix="headrace_new") as (target, new_name):
            with connect(target) as conn:
                migrate(conn)
            # Renamed only when it is complete; the drop after the block then finds nothing.
            self._execute("alter database {} rename to {}", new_name, name)

    @contextmanager
    def prepared_template(self, setup: Callable[[Connection], None]) -> Iterator[str]:
        """A template with what an application adds: its own tables, topics and rules. Dropped at the end."""
        with self.database(self.template(), prefix="headrace_template") as (target, name):
            with connect(target) as conn:
                setup(conn)
            yield name

    @contextmanager
    def database(self, template: str, *, prefix: str = "headrace_test") -> Iterator[tuple[Target, str]]:
        """A new database and its name; dropped soon after the end, with the connections that are still open."""
        name = f"{prefix}_{uuid4().hex}"
        try:
            self._execute(f"create database {{}} template {{}} strategy {self._strategy}", name, template)
        except errors.InsufficientPrivilege as error:
            raise Forbidden(
                f"the role of {ENVIRONMENT} may not create databases ({error}); give it CREATEDB, or unset {ENVIRONMENT} to use the "
                "embedded PostgreSQL"
            ) from None
        try:
            # Drop ended databases after the creation, not before: the sessions of the last test need a moment to end.
            self._drop_ended()
            yield Target("test", make_conninfo(self._dsn, dbname=name)), name
        finally:
            self._ended.append(name)

    def _drop_ended(self) -> None:
        while self._ended:
            self._execute("drop database if exists {} with (force)", self._ended.pop())

    def _execute(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def _embedded_server() -> Iterator[Server]:
    """An embedded server in a temporary folder, in memory where there is enough."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    parent = MEMORY if is_roomy else Path(tempfile.gettempdir())
    _remove_orphans(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
    # PostgreSQL does not run as root, and its own user must reach the data.
    folder.chmod(0o755)
    try:
        server = Server(folder / "pg18", settings=SETTINGS)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    """Ends and deletes servers whose test session was killed. Only folders of this user, whose process has ended."""
    for folder in parent.glob(f"{PREFIX}*"):
        # Another session may be removing the same folder: whatever is missing or does not work here is left to it, or to the next.
        with suppress(OSError, HeadraceError):
            if _is_orphan(folder):
                Server(folder / "pg18").stop()
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphan(folder: Path) -> bool:
    pid = folder.name.removeprefix(PREFIX).partition("-")[0]
    return pid.isdigit() and not folder.is_symlink() and folder.stat().st_uid == os.getuid() and not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
