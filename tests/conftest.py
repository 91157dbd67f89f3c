"""Servers and databases for the tests.

Two lanes: `pg18`, the embedded PostgreSQL, and `pg15`, Debian's 15 with the real pg_cron and pg_partman, or the version that the
variable HEADRACE_TEST_POSTGRES names, where the distribution has another one. Every test worker
starts its own servers on free ports and ends them; every test gets a database of its own, copied from a migrated template.
A test that asks for `database` runs on both lanes, or on `pg18` alone in the rooms of ONE_LANE; `@pytest.mark.lane("pg18", "pg15")`
chooses for one test."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import settings as hypothesis_settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.spark import session
from tests.builders import own_database
from tests.debian import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
OLDEST = os.environ.get("HEADRACE_TEST_POSTGRES", "15")
PG15 = Path(f"/usr/lib/postgresql/{OLDEST}")
PG15_PACKAGES = [f"postgresql-{OLDEST}", f"postgresql-{OLDEST}-cron", f"postgresql-{OLDEST}-partman"]
# A kill -9 of a process loses nothing without fsync; only a crash of the machine would, and no test makes one.
# Without the compiler of PostgreSQL 15, which takes longer than any query of a test; the embedded server has none.
FAST = {"fsync": "off", "max_connections": "200", "shared_buffers": "64MB", "jit": "off"}
OF_LANE = {
    # A test reads from memory: a process that reads for another only makes it wait.
    "pg18": {"io_method": "sync"},
    "pg15": {"shared_preload_libraries": "pg_cron", "cron.database_name": "postgres", "cron.use_background_workers": "on"},
}

# What passed once passes again: the same examples every time. `--hypothesis-profile explore` looks for new ones.
hypothesis_settings.register_profile("repeatable", derandomize=True)
hypothesis_settings.register_profile("explore")
hypothesis_settings.load_profile("repeatable")


_logging_errors: list[str] = []


def _keep_logging_error(handler: logging.Handler, record: logging.LogRecord) -> None:
    """In place of logging's own way, which prints "Logging error" and goes on."""
    _logging_errors.append(f"{record.name}: {record.msg!r} {record.args!r} in {handler!r}\n{traceback.format_exc()}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lane(names): run on these lanes")
    own, logging.Handler.handleError = logging.Handler.handleError, _keep_logging_error  # type: ignore[method-assign]
    config.add_cleanup(lambda: setattr(logging.Handler, "handleError", own))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """A record that could not be logged fails the test during which it was written."""
    yield
    errors = _logging_errors.copy()
    _logging_errors.clear()
    assert not errors, "a record could not be logged: " + "\n".join(errors)


class OneSpark(LoadScopeScheduling):
    """Files with Spark tests go to one worker, so that Spark starts once per run; those of the console to one, which fills its
    database and starts chromium once; the tests of a file that share something costly, such as a broker, to one as well, by lane;
    all other tests to whoever is free.

    By the text of the file: the process that schedules does not collect, and xdist's own groups are lost with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        if _uses_spark(file):
            return "spark"
        if file.startswith("tests/web/console/"):
            return "console"
        if "/relays/targets/" in file or _shares(file):
            return f"{file} {'pg15' if '[pg15' in nodeid else ''}"
        return nodeid

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        # xdist keeps what is done, and counts it again after every test.
        for scope in [scope for scope, tests in work.items() if all(tests.values())]:
            del work[scope]

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        # A worker begins a test only once it knows the one after it, or that there is none.
        if self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test a worker died in, which is not run again. xdist hands out what was done as well, and waits for ever."""
        left = [(scope, tests) for scope, tests in self.assigned_work.pop(node).items() if not all(tests.values())]
        if not left:
            return None
        crashed = next(test for test, done in left[0][1].items() if not done)
        left[0][1][crashed] = True
        self.workqueue.update((scope, tests) for scope, tests in left if not all(tests.values()))
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


@cache
def _uses_spark(file: str) -> bool:
    """The file's tests, or a fixture of its folder, ask for the session."""
    return any(re.search(r"def \w+\([^)]*\bspark\b", text) for text in _texts(file))


@cache
def _shares(file: str) -> bool:
    """The file's tests share a fixture or a result that each worker would make again."""
    return any(re.search(r'scope="module"|^@cache', text, re.MULTILINE) for text in _texts(file))


def _texts(file: str) -> list[str]:
    own = ROOT / file
    return [path.read_text(encoding="utf-8") for path in (own, own.with_name("conftest.py")) if path.exists()]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark:
    return OneSpark(config, log)


# Rooms whose tests ask nothing of PostgreSQL that could differ between versions run on one of them.
ONE_LANE = ("cli", "core", "docs", "evaluate", "log/archive", "node", "prove", "relays", "spark", "web")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lane" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("lane")
        file = metafunc.definition.path.relative_to(ROOT / "tests").as_posix()
        default = ["pg18"] if file.startswith(tuple(f"{room}/" for room in ONE_LANE)) else ["pg18", "pg15"]
        metafunc.parametrize("lane", list(marker.args) if marker else default, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The short tests of PostgreSQL 15 come last, so that at the end no worker waits long for another."""
    items.sort(key=_comes_last)


def _comes_last(item: pytest.Item) -> bool:
    """Tests with a time limit of their own are the long ones."""
    return item.name.partition("[")[2].startswith("pg15") and item.get_closest_marker("timeout") is None


MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 * 1024**3


def temporary_folder(*, in_memory: bool = False) -> Path:
    """A folder that the server's own user can reach, also when the tests run as root; in memory where there is enough."""
    # A database per test is 700 files: 20 ms in memory, up to 800 ms on a busy disk.
    roomy = in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    folder = Path(tempfile.mkdtemp(prefix="headrace-", dir=MEMORY if roomy else None))
    folder.chmod(0o755)
    return folder


def install_pg15() -> None:
    """Installs Debian's PostgreSQL 15 with its extensions, or skips with one clear line; in CI it may not be skipped."""
    wanted = [
        PG15 / "bin/postgres",
        *(Path(f"/usr/share/postgresql/{OLDEST}/extension") / f"{name}.control" for name in ("pg_cron", "pg_partman")),
    ]
    install(PG15_PACKAGES, wanted)


@pytest.fixture(scope="session")
def lane(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    """The servers by lane. They outlive a change of the lane, so that tests may come in any order."""
    running: dict[str, Server] = {}
    yield running
    for server in running.values():
        remove_server(server)


@pytest.fixture(scope="session")
def server(lane: str, servers: dict[str, Server]) -> Server:
    """The lane's server, with a migrated template database."""
    if lane not in servers:
        if lane == "pg15":
            install_pg15()
        servers[lane] = start_server(lane)
    return servers[lane]


def start_server(lane: str) -> Server:
    folder = temporary_folder(in_memory=True)
    running = Server(folder, bin_dir=PG15 / "bin" if lane == "pg15" else None, settings=FAST | OF_LANE[lane])
    running.start()
    try:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute("create database headrace_template")
        with connect(Target("template", running.dsn("headrace_template"))) as conn:
            if lane == "pg15":
                conn.execute("create schema partman; create extension pg_partman schema partman")
            migrate(conn)
            shrink_catalog(conn)
    except BaseException:
        remove_server(running)
        raise
    return running


def shrink_catalog(conn: Connection) -> None:
    """Writes the tables of PostgreSQL's catalog anew: every test copies and deletes them, and what initdb left has more files."""
    catalog = "select string_agg(oid::regclass::text, ', ') from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r'"
    conn.execute(f"vacuum full {conn.execute(catalog).fetchone()[0]}")  # type: ignore[index]


def remove_server(server: Server) -> None:
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run. Its time zone is not UTC, so that nothing may lean on that."""
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.python.daemon.module": "tests.spark.warm_daemon",
    }
    with pytest.MonkeyPatch.context() as patch:
        # The JVM gives it to the daemon.
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        running = session(settings=settings, brief=True)
    yield running
    running.stop()


@pytest.fixture
def database(server: Server) -> Iterator[Target]:
    """A fresh, migrated database."""
    with own_database(server, template="headrace_template") as target:
        yield target


@pytest.fixture
def empty(server: Server) -> Iterator[Target]:
    """A database without headrace."""
    with own_database(server, "empty") as target:
        yield target


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    """A connection to the test's database, in autocommit mode."""
    with connect(database) as connection:
        yield connection


@pytest.fixture
def second(database: Target) -> Iterator[Connection]:
    """Another session on the same database."""
    with connect(database) as connection:
        yield connection


@pytest.fixture
def uncollected() -> Iterator[None]:
    """What a test leaves open stays open: nothing is closed by the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
