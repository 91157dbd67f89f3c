"""Two releases of headrace and one database: an older migrator refuses, nodes of both releases run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.core import LoggedEvent, NotMigrated, SchemaTooNew
from headrace.db import AsyncConnection, Connection, Target, migrate, migration_script, pending_steps
from headrace.db.requirements import RELEASE, check_node_release
from headrace.node import Headrace, Node
from tests.builders import publish, topic
from tests.db.test_migrate import catalog, copy_sql_files, next_version

__all__ = ["next_version"]

pytestmark = pytest.mark.lane("pg18")

NEXT = "99.0.0"
READING = "log/sql/functions/reading.sql"


@pytest.fixture
def next_release(next_version: Path) -> Path:
    """The next release: besides a new column, functions that nodes call have another text."""
    change_functions(next_version)
    return next_version


def change_functions(root: Path) -> None:
    file = root / READING
    file.write_text(file.read_text().replace("begin\n", "begin\n    -- As in the next release.\n"))


def test_older_migrator_changes_nothing(conn: Connection, next_release: Path) -> None:
    migrate(conn, root=next_release, release=NEXT)
    before = catalog(conn)
    for attempt in (migrate, migration_script, pending_steps):
        with pytest.raises(SchemaTooNew, match=f"migrated by headrace {NEXT}, and this is {RELEASE}"):
            attempt(conn)
    assert catalog(conn) == before
    assert migrate(conn, root=next_release, release=NEXT) == []


def test_release_without_new_tables_is_not_replaced_by_an_older_one(conn: Connection, tmp_path: Path) -> None:
    """Functions alone have changed: no migration tells which text is newer."""
    root = copy_sql_files(tmp_path)
    change_functions(root)
    assert [step.name for step in migrate(conn, root=root, release=NEXT)] == ["log/functions/reading"]
    with pytest.raises(SchemaTooNew):
        migrate(conn)


def test_unknown_migration_is_refused_within_one_release(conn: Connection, next_release: Path) -> None:
    migrate(conn, root=next_release)
    before = catalog(conn)
    with pytest.raises(SchemaTooNew, match=r"1 migrations that this version \(.*\) does not know: migrations/0002_note"):
        migrate(conn)
    assert catalog(conn) == before


def test_database_of_before_releases_were_recorded_is_migrated(conn: Connection) -> None:
    conn.execute("drop table headrace_internal.release")
    assert migrate(conn) == []
    assert conn.execute("select release from headrace.schema_release()").fetchall() == [(RELEASE,)]


@pytest.mark.parametrize(
    ("recorded", "release", "error"),
    [
        (("1.2.0", "1.1.0"), "1.2.0", None),
        (("1.2.0", "1.1.0"), "1.2.0rc1", None),
        (("1.10.0", "1.9.0"), "1.9.3", None),
        (("1.2.0", "1.1.0"), "1.0.9", SchemaTooNew),
        (("1.2.0", "1.1.0"), "1.10.0", NotMigrated),
        (None, "1.0.0", NotMigrated),
    ],
)
def test_node_runs_on_its_own_schema_and_on_newer_ones_that_say_so(
    recorded: tuple[str, str] | None, release: str, error: type[Exception] | None
) -> None:
    if error is None:
        check_node_release(recorded, database="main", release=release)
    else:
        with pytest.raises(error, match=release):
            check_node_release(recorded, database="main", release=release)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_nodes_of_two_releases_run_side_by_side(conn: Connection, database: Target, next_release: Path) -> None:
    """A node runs on while the next release migrates; another one of this release starts afterwards. Nothing is lost or twice."""
    topic(conn, partitions=4)
    payloads: list[object] = []
    app = Headrace()

    @app.consumer("orders", name="effects")
    async def collect(event: LoggedEvent, tx: AsyncConnection) -> None:
        payloads.append(event.payload)

    running = Node(app, [database])
    tasks = [asyncio.create_task(running.run())]
    await asyncio.to_thread(publish, conn, 1)
    await until(lambda: payloads == [1])
    await asyncio.to_thread(lambda: migrate(conn, root=next_release, release=NEXT))
    late = Node(app, [database])
    tasks.append(asyncio.create_task(late.run()))
    for n in range(2, 12):
        await asyncio.to_thread(publish, conn, n, key=f"k{n}")
    await until(lambda: len(payloads) == 11)
    running.stop()
    await tasks[0]
    await asyncio.to_thread(publish, conn, 12)
    await until(lambda: len(payloads) == 12)
    late.stop()
    await tasks[1]
    assert sorted(payloads) == list(range(1, 13))  # type: ignore[type-var]


async def test_node_that_is_too_old_refuses_at_once(conn: Connection, database: Target) -> None:
    conn.execute("insert into headrace_internal.release (release, oldest_node) values (%s, '98.0.0')", (NEXT,))
    with pytest.raises(
        SchemaTooNew, match=f"works with nodes from 98.0.0 on, and this node is {RELEASE}; install headrace {NEXT}"
    ):
        async with asyncio.timeout(60):
            await Node(Headrace(), [database]).run()


async def test_node_on_an_empty_database_says_what_to_do(empty: Target) -> None:
    with pytest.raises(NotMigrated, match="run: headrace migrate"):
        async with asyncio.timeout(60):
            await Node(Headrace(), [empty]).run()
