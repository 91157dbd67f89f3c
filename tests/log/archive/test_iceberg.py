"""The archive as an Iceberg table: any reader of Iceberg finds the archived events once, whatever was killed in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import headrace
from headrace.core import ArchiveBusy, Forbidden, NotFound
from headrace.db import Connection, Target, grant_namespace
from headrace.log.archive import archive_topic, erase_key, list_archive, open_iceberg_catalog
from headrace.log.topics import create_topic
from tests.builders import wait_until
from tests.cli.conftest import call
from tests.log.archive.builders import archive_orders, drop, events, later, three_days

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def three(conn: Connection) -> Connection:
    three_days(conn)
    return conn


def archive_as_table(database: Target, folder: Path, *, days: int = 6, iceberg: bool = True) -> None:
    list(archive_topic(later(database, days=days), "orders", folder=folder, iceberg=iceberg))


def table_positions(database: Target) -> list[int]:
    """The positions that pyiceberg finds in the table."""
    table = open_iceberg_catalog(database).load_table(("default", "orders"))
    return sorted(table.scan(selected_fields=("position",)).to_arrow().column("position").to_pylist())


def recorded_files(conn: Connection) -> set[str]:
    return {f"file://{Path(file.folder) / file.file}" for file in list_archive(conn, "orders")}


def table_files(database: Target) -> set[str]:
    table = open_iceberg_catalog(database).load_table(("default", "orders"))
    return {task.file.file_path for task in table.scan().plan_files()}


def test_readers_of_iceberg_find_the_archived_events(three: Connection, database: Target, tmp_path: Path) -> None:
    stored = three.execute("select position, type, key, payload::text, emitted_at from headrace.log order by position").fetchall()
    archive_as_table(database, tmp_path)
    drop(three, days=6)
    table = open_iceberg_catalog(database).load_table(("default", "orders"))
    columns = ("position", "type", "key", "payload", "emitted_at")
    rows = table.scan(selected_fields=columns).to_arrow().sort_by("position").select(list(columns)).to_pylist()
    assert [tuple(row.values()) for row in rows] == stored[:30]
    frame = polars.scan_iceberg(table).filter(polars.col("type") == "paid").select("position").collect()
    assert sorted(frame["position"].to_list()) == list(range(3, 31, 3))
    within = table.scan("position > 25", selected_fields=("position",)).to_arrow().column("position").to_pylist()
    assert sorted(within) == [26, 27, 28, 29, 30]
    with table.scan().to_duckdb("orders") as duck:
        assert duck.sql("select count(*), min(position), max(position) from orders where key is null").fetchall() == [(6, 5, 30)]


def test_folder_is_still_plain_parquet(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_as_table(database, tmp_path)
    assert duckdb.sql(f"select count(*) from '{tmp_path}/namespace=*/topic=*/month=*/*.parquet'").fetchall() == [(30,)]
    assert polars.scan_parquet(tmp_path / "namespace=default").select(polars.len()).collect().item() == 30


def test_table_follows_later_runs_that_do_not_ask_for_it(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_as_table(database, tmp_path)
    events(three, 41, 10, days=9)
    archive_as_table(database, tmp_path, days=9, iceberg=False)
    assert table_positions(database) == list(range(1, 41))


def test_files_archived_before_are_in_the_table(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    with pytest.raises(NotFound, match="has no Iceberg tables; make one: headrace archive TOPIC --iceberg"):
        open_iceberg_catalog(database)
    result = call("archive", "orders", "--iceberg", "--dsn", later(database, days=6).dsn)
    assert result.code == 0, result.err
    assert table_positions(database) == list(range(1, 31))


def test_compaction_replaces_the_files_in_one_snapshot(conn: Connection, database: Target, tmp_path: Path) -> None:
    create_topic(conn, "orders", time_partition="day")
    for number in range(5):
        events(conn, 1 + 5 * number, 5, days=2 * number)
        archive_as_table(database, tmp_path, days=2 * number)
    before = len(table_files(database))
    events(conn, 26, 5, days=70)
    events(conn, 31, 5, days=72)
    archive_as_table(database, tmp_path, days=72)
    files = table_files(database)
    assert before == 4 and len(files) < before and files == recorded_files(conn)
    assert table_positions(database) == list(range(1, 31))
    assert all(Path(file.removeprefix("file://")).exists() for file in files)


KILLED = """
import os, signal, sys
from headrace.log.archive import archive_topic, iceberg
from headrace.db import Target

moment, update = sys.argv[3], iceberg._update_table

def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

def update_and_die(*arguments):
    if moment == "before":
        die()
    update(*arguments)
    if moment == "between":
        die()

iceberg._update_table = update_and_die
for step in archive_topic(Target("test", sys.argv[1]), "orders", folder=sys.argv[2], iceberg=True):
    if step.partition and moment == "after":
        die()
"""


@pytest.mark.parametrize(("moment", "recorded"), [("before", 0), ("between", 0), ("after", 10)])
def test_killed_archiver_leaves_both_catalogs_equal(
    three: Connection, database: Target, tmp_path: Path, moment: str, recorded: int
) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", KILLED, later(database, days=6).dsn, str(tmp_path), moment]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert sum(file.events for file in list_archive(three, "orders")) == recorded
    if recorded:
        assert table_files(database) == recorded_files(three)
    wait_until(lambda: _archives(database, tmp_path), "the end of the killed session")
    assert table_files(database) == recorded_files(three)
    assert table_positions(database) == list(range(1, 31))


def _archives(database: Target, folder: Path) -> bool:
    """False while the server has not noticed the end of the killed session."""
    try:
        archive_as_table(database, folder)
    except ArchiveBusy:
        return False
    return True


def test_role_that_may_not_create_the_schema_is_told_what_to_run(three: Connection, database: Target, tmp_path: Path) -> None:
    role = f"archiver_{os.getpid()}"
    three.execute(f"create role {role} login")
    grant_namespace(three, role, "default", "admin")
    own = Target("test", make_conninfo(later(database, days=6).dsn, user=role))
    try:
        with pytest.raises(Forbidden, match=f'create schema headrace_iceberg authorization "{role}"'):
            list(archive_topic(own, "orders", folder=tmp_path, iceberg=True))
    finally:
        with psycopg.connect(database.dsn, autocommit=True) as owner:
            owner.execute(f"drop owned by {role} cascade")
            owner.execute(f"drop role {role}")


def test_erased_data_is_neither_in_the_table_nor_in_its_metadata(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_as_table(database, tmp_path)
    drop(three, days=6)
    assert b"odd" in b"".join(path.read_bytes() for path in tmp_path.rglob("*.parquet"))
    erased = erase_key(database, "orders", "k1", replace_key=True)
    assert erased.row_counts["archive"] == 6
    assert table_files(database) == recorded_files(three)
    table = open_iceberg_catalog(database).load_table(("default", "orders"))
    rows = {row["position"]: row for row in table.scan().to_arrow().to_pylist()}
    events = {row["position"]: row for row in headrace.read("orders", end=31, dsn=database).to_arrow().to_pylist()}
    assert rows == {position: {name: row[name] for name in rows[position]} for position, row in events.items()}
    assert [(rows[position]["key"], rows[position]["payload"]) for position in (1, 2)] == [
        (erased.new_key, "{}"),
        ("k2", rows[2]["payload"]),
    ]
    allowed = {table.schema().find_field(name).field_id for name in ("position", "appended_at", "emitted_at")}
    manifests = [manifest for snapshot in table.snapshots() for manifest in snapshot.manifests(table.io)]
    entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)]
    assert len(entries) > 2 and all(set(entry.data_file.lower_bounds or {}) <= allowed for entry in entries)
