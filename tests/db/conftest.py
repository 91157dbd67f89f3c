"""A real PgBouncer in front of the lane's server."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.db import Server, Target
from headrace.db.server import free_port
from tests.conftest import temporary_folder
from tests.debian import find_program


@dataclass(frozen=True)
class Pooler:
    """A running PgBouncer. Every database of the server has its name here too."""

    port: int

    def target(self, database: Target) -> Target:
        """The database, through the pooler."""
        return Target(database.name, make_conninfo(database.dsn, host="127.0.0.1", port=self.port))


@pytest.fixture(scope="session")
def start_pooler(server: Server) -> Iterator[Callable[[str, int], Pooler]]:
    """Starts a PgBouncer with a mode and a number of server connections per database, once for the whole run."""
    started: dict[tuple[str, int], tuple[Pooler, subprocess.Popen[bytes], Path]] = {}

    def start(mode: str, size: int) -> Pooler:
        if (mode, size) not in started:
            folder = temporary_folder()
            pooler, process = _launch(server, folder, mode, size)
            started[mode, size] = pooler, process, folder
        return started[mode, size][0]

    yield start
    for _, process, folder in started.values():
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


def _launch(server: Server, folder: Path, mode: str, size: int) -> tuple[Pooler, subprocess.Popen[bytes]]:
    program, port = find_program("pgbouncer"), free_port()
    users = folder / "users"
    users.write_text('"postgres" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
        # In turn: a client that expects its last backend meets another one.
        f"pool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 200\nserver_round_robin = 1\n"
    )
    # PgBouncer does not run as root.
    user = "postgres" if os.geteuid() == 0 else None
    process = subprocess.Popen(
        [program, str(config)], user=user, extra_groups=[] if user else None, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(server.dsn(), port=port).close()
            return Pooler(port), process
        except psycopg.OperationalError:
            assert process.poll() is None and time.monotonic() < deadline, "PgBouncer did not start"
            time.sleep(0.02)


@pytest.fixture
def transaction_pooler(start_pooler: Callable[[str, int], Pooler], database: Target) -> Target:
    """The test's database through a pooler in transaction mode with three server connections, in turn."""
    target = start_pooler("transaction", 3).target(database)
    with ExitStack() as stack:
        # Three at once: the pooler opens a server connection only when the others are taken.
        backends = {
            stack.enter_context(psycopg.connect(target.dsn)).execute("select pg_backend_pid()").fetchone() for _ in range(3)
        }
    assert len(backends) == 3
    return target


@pytest.fixture
def shared_backend(start_pooler: Callable[[str, int], Pooler], database: Target) -> Target:
    """The test's database through a pooler in transaction mode whose clients all share one server connection."""
    return start_pooler("transaction", 1).target(database)


@pytest.fixture
def session_pooler(start_pooler: Callable[[str, int], Pooler], database: Target) -> Target:
    """The test's database through a pooler in session mode."""
    return start_pooler("session", 40).target(database)
