"""A closed time partition becomes Parquet, equal to the log, before retention may drop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from psycopg.types.json import Jsonb

from headrace.core import ArchiveBusy, ArchiveMismatch, DatabaseUnavailable, Invalid, PositionOutOfRange, UnknownTopic
from headrace.db import Connection, Target, map_database_errors
from headrace.log.archive import (
    archive_topic,
    find_stored_range,
    keep_until_archived,
    list_archive,
    read_stored_events,
    read_stored_events_at,
    verify_archive,
    writing as archiving,
)
from headrace.log.topics import create_topic, get_topic
from tests.builders import through_proxy, wait_until
from tests.log.archive.builders import archive_orders, drop, events, later, three_days

LOG = """select position, partition, event_id, type, key, payload::text, headers::text, emitted_at, appended_at, producer
    from headrace.log order by position"""
LOCKS = """select count(*) from headrace_internal.lock l join pg_stat_activity a on a.pid = l.pid and a.pid <> pg_backend_pid()"""


@pytest.fixture
def three(conn: Connection) -> Connection:
    """Positions 1 to 40 in three time partitions."""
    three_days(conn)
    return conn


def test_files_hold_the_log_row_by_row(three: Connection, database: Target, tmp_path: Path) -> None:
    before = three.execute(LOG).fetchall()
    last = archive_orders(three, database, tmp_path, days=6)[-1]
    assert (last.written, last.total, last.files) == (30, 30, 2)
    days = list_archive(three, "orders")
    assert [(one.first_position, one.last_position, one.in_log) for one in days] == [(1, 10, True), (11, 30, True)]
    keep_until_archived(three, "orders")
    assert all(dropped for dropped, _ in drop(three, days=6))
    span = find_stored_range(three, "orders")
    assert (span.first, span.until, span.log_first) == (1, 41, 31)
    read = [event for batch in read_stored_events(three, span, batch=7) for event in batch]
    assert [tuple(vars(event).values()) for event in read] == before


def test_file_is_zstd_sorted_by_position_and_lies_under_topic_and_month(
    three: Connection, database: Target, tmp_path: Path
) -> None:
    archive_orders(three, database, tmp_path, days=6)
    (one, _) = list_archive(three, "orders")
    assert one.file.startswith(f"namespace=default/topic=orders/month={one.day:%Y-%m}/000000000001-000000000010-")
    with pq.ParquetFile(tmp_path / one.file) as file:
        group = file.metadata.row_group(0)
        assert group.column(0).compression == "ZSTD"
        assert [column.column_index for column in group.sorting_columns] == [0]
        assert file.read(["position"]).column(0).to_pylist() == list(range(1, 11))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        Path(one.file).name for one in list_archive(three, "orders")
    )


def test_archiver_that_loses_its_connections_leaves_nothing_recorded(three: Connection, database: Target, tmp_path: Path) -> None:
    with through_proxy(later(database, days=6)) as (through, proxy):
        steps = archive_topic(through, "orders", folder=tmp_path)
        assert next(steps).written == 10
        proxy.cut()
        with pytest.raises(DatabaseUnavailable, match="cannot reach database test"):
            next(steps)
        assert list_archive(three, "orders") == []
        wait_until(lambda: three.execute(LOCKS).fetchone() == (0,), "the end of the archiver's session")
        assert list(archive_topic(through, "orders", folder=tmp_path))[-1].written == 30


def test_retention_waits_for_the_archive(three: Connection, database: Target, tmp_path: Path) -> None:
    keep_until_archived(three, "orders")
    assert drop(three, days=6) == [(False, "the archive")]
    assert drop(three, days=6, force=True) == [(False, "the archive")]
    archive_orders(three, database, tmp_path, days=6)
    three.execute("select headrace.create_consumer('orders', 'slow')")
    assert drop(three, days=6) == [(False, "slow")]
    assert get_topic(three, "orders").first_position == 1
    keep_until_archived(three, "orders", archive=False)
    three.execute("select headrace.drop_consumer('orders', 'slow')")
    assert all(dropped for dropped, _ in drop(three, days=6))
    assert get_topic(three, "orders").first_position == 31


def test_partition_with_more_events_than_its_file_is_kept(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    keep_until_archived(three, "orders")
    three.execute("update headrace_internal.archive set last_position = 9, events = 9 where first_position = 1")
    assert drop(three, days=6) == [(False, "the archive")]
    archive_orders(three, database, tmp_path, days=6)
    assert [one.events for one in list_archive(three, "orders")] == [10, 20]
    assert all(dropped for dropped, _ in drop(three, days=6))


def test_archiving_again_writes_nothing(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    before = list_archive(three, "orders")
    assert archive_orders(three, database, tmp_path, days=6) == []
    assert list_archive(three, "orders") == before


def test_file_that_differs_from_the_log_is_not_recorded(
    three: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = archiving._rows

    def change_a_payload(*arguments: object) -> object:
        for batch in original(*arguments):
            row = batch.to_pylist()
            row[3]["payload"] = row[3]["payload"].replace("3.140", "3.14")
            yield type(batch).from_pylist(row, schema=batch.schema)

    monkeypatch.setattr(archiving, "_rows", change_a_payload)
    with pytest.raises(ArchiveMismatch, match=r"10 events, 1 to 10, with checksum .*; nothing was recorded"):
        archive_orders(three, database, tmp_path, days=6)
    assert list_archive(three) == []
    assert list(tmp_path.rglob("*.parquet")) == []
    monkeypatch.undo()
    assert archive_orders(three, database, tmp_path, days=6)[-1].files == 2


def test_second_archiver_of_a_topic_is_rejected(three: Connection, database: Target, tmp_path: Path) -> None:
    steps = archive_topic(later(database, days=6), "orders", folder=tmp_path)
    next(steps)
    with pytest.raises(ArchiveBusy, match="being archived by another process"):
        archive_orders(three, database, tmp_path, days=6)
    assert [step.partition for step in steps if step.partition is not None] != []
    assert [one.events for one in list_archive(three, "orders")] == [10, 20]


@pytest.mark.lane("pg18")
def test_killed_archiver_leaves_nothing_incomplete(three: Connection, database: Target, tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom headrace.log.archive import archive_topic\nfrom headrace.db import Target\n"
        "for step in archive_topic(Target('test', sys.argv[1]), 'orders', folder=sys.argv[2]):\n"
        "    print(step.partition, flush=True)\n    time.sleep(30 if step.partition else 0)\n"
    )
    for last_line in ("None", "headrace_internal."):
        running = subprocess.Popen(
            [sys.executable, "-c", program, later(database, days=6).dsn, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )
        assert running.stdout is not None
        assert any(line.startswith(last_line) for line in running.stdout), "the archiver ended by itself"
        running.send_signal(signal.SIGKILL)
        running.wait()
        recorded = [one.events for one in list_archive(three, "orders")]
        assert recorded in ([], [10])
        assert all(one.problem is None for one in verify_archive(three))
    assert recorded == [10]
    deadline = time.monotonic() + 20
    while True:  # The server notices the end of a killed session only after a moment.
        try:
            archive_orders(three, database, tmp_path, days=6)
            break
        except ArchiveBusy:
            assert time.monotonic() < deadline
    assert [one.events for one in list_archive(three, "orders")] == [10, 20]
    assert [one.problem for one in verify_archive(three)] == [None, None]
    assert list(tmp_path.rglob(".*")) == []


def test_verification_names_missing_and_changed_files(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    first, second = list_archive(three, "orders")
    (tmp_path / first.file).unlink()
    table = pq.read_table(tmp_path / second.file, partitioning=None)
    changed = table.set_column(table.schema.get_field_index("payload"), "payload", [["{}"] * table.num_rows])
    pq.write_table(changed, tmp_path / second.file)
    problems = [one.problem for one in verify_archive(three, "orders")]
    assert "does not exist" in str(problems[0])
    assert "the catalog says 20 events, 11 to 30" in str(problems[1])
    (tmp_path / second.file).write_bytes(b"PAR1 nonsense")
    assert "cannot be read" in str(list(verify_archive(three, "orders"))[1].problem)


def test_moved_folder_is_read_from_its_new_place(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path / "old", days=6)
    drop(three, days=6)
    (tmp_path / "old").rename(tmp_path / "new")
    assert [one.problem for one in verify_archive(three, folder=tmp_path / "new")] == [None, None]
    span = find_stored_range(three, "orders", start="5", end="12")
    batches = read_stored_events(three, span, folder=str(tmp_path / "new"))
    assert [event.position for batch in batches for event in batch] == list(range(5, 12))


def test_log_on_the_event_clock_is_closed_by_later_events_only(conn: Connection, database: Target, tmp_path: Path) -> None:
    create_topic(conn, "orders", time_partition="day", clock="event")
    events(conn, 1, 1440 * 2, days=0)
    assert archive_orders(conn, database, tmp_path, days=0)[-1].partition is not None
    days = [(one.day.isoformat(), one.first_position, one.last_position) for one in list_archive(conn)]
    assert days == [("2026-01-01", 1, 1439), ("2026-01-02", 1440, 2879)]


def test_single_positions_are_found_in_archive_and_log(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    before = {row[0]: row for row in three.execute(LOG).fetchall()}
    drop(three, days=6)
    events = read_stored_events_at(three, find_stored_range(three, "orders"), {2, 17, 30, 31, 40, 99})
    assert {position: tuple(vars(event).values()) for position, event in events.items()} == {
        position: before[position] for position in (2, 17, 30, 31, 40)
    }


def test_position_in_neither_archive_nor_log_is_an_error(three: Connection, database: Target, tmp_path: Path) -> None:
    drop(three, days=6)
    with pytest.raises(PositionOutOfRange, match=r"position 3 .* hold 31 to 40"):
        find_stored_range(three, "orders", start="3")
    with pytest.raises(UnknownTopic):
        list_archive(three, "nowhere")


def test_times_are_resolved_in_the_archive_too(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    times = dict(three.execute("select position, appended_at from headrace.log where position in (1, 11, 31)").fetchall())
    drop(three, days=6)
    for position in (1, 11, 31):
        assert find_stored_range(three, "orders", start=times[position].isoformat()).first == position
    assert find_stored_range(three, "orders", start="2100-01-01").first == 41


def plant(conn: Connection, folder: str, file: str) -> None:
    """A row of the catalog for position 1, as somebody wrote it who can write the table itself."""
    conn.execute(
        """insert into headrace_internal.archive
               (topic_id, day, first_position, last_position, first_at, last_at, events, checksum, folder, file, file_bytes)
           values (headrace.topic_id('orders'), '2026-01-01', 1, 1, now(), now(), 1, 1, %s, %s, 1)""",
        (folder, file),
    )


OURS = "namespace=default/topic=orders/month=2026-01/000000000001-000000000001-00000001.parquet"


@pytest.mark.parametrize("way", ["dots", "absolute", "folder", "name", "link", "folder link", "content"])
def test_archiver_deletes_nothing_that_it_did_not_write(three: Connection, database: Target, tmp_path: Path, way: str) -> None:
    archive, foreign = tmp_path / "archive", tmp_path / "foreign"
    foreign.mkdir()
    victim = foreign / Path(OURS).name
    victim.write_text("precious")
    folder, file = str(archive), OURS
    link = archive / OURS
    match way:
        case "dots":
            file = f"../foreign/{victim.name}"
        case "absolute":
            file = str(victim)
        case "folder":
            folder, file = str(foreign), victim.name
        case "name":
            victim = archive / "notes.parquet"
            file = "notes.parquet"
        case "link":
            link.parent.mkdir(parents=True)
            link.symlink_to(victim)
        case "folder link":
            link.parent.parent.mkdir(parents=True)
            link.parent.symlink_to(foreign)
        case "content":
            link.parent.mkdir(parents=True)
            victim = link
    victim.parent.mkdir(exist_ok=True)
    victim.write_text("precious")
    plant(three, folder, file)
    archive_orders(three, database, archive, days=6)
    assert victim.read_text() == "precious"
    assert way != "link" or link.is_symlink()
    assert [one.last_position for one in list_archive(three, "orders")] == [10, 30]


def test_archiver_deletes_its_own_file_that_a_new_one_replaces(three: Connection, database: Target, tmp_path: Path) -> None:
    archive_orders(three, database, tmp_path, days=6)
    (first, _) = list_archive(three, "orders")
    moved = tmp_path / first.file.replace(f"month={first.day:%Y-%m}", "month=2020-01")
    moved.parent.mkdir()
    (tmp_path / first.file).rename(moved)
    three.execute("delete from headrace_internal.archive where first_position = 1")
    plant(three, str(tmp_path), str(moved.relative_to(tmp_path)))
    archive_orders(three, database, tmp_path, days=6)
    assert not moved.exists() and (tmp_path / first.file).exists()


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("/archive", "../../etc/passwd"),
        ("/archive", "/etc/passwd"),
        ("/archive", "namespace=default/topic=orders/month=2026-01/../../x.parquet"),
        ("/archive", OURS.replace("default", "other")),
        ("/archive", OURS.replace("0001.parquet", "0002.parquet")),
        ("/archive", None),
        ("/archive/../etc", OURS),
        ("archive", OURS),
        (None, OURS),
    ],
)
def test_catalog_takes_only_names_that_follow_from_the_content(three: Connection, folder: str | None, file: str | None) -> None:
    row = {"day": "2026-01-01", "first_position": 1, "last_position": 1, "first_at": "2026-01-01", "last_at": "2026-01-01"}
    record = "select * from headrace.record_archive(headrace.topic_id('orders'), %s, %s)"
    files = [row | {"events": 1, "checksum": 1, "file_bytes": 1, "file": file}]
    with pytest.raises(Invalid), map_database_errors():
        three.execute(record, (folder, Jsonb(files)))
    three.execute(record, ("/archive", Jsonb([files[0] | {"file": OURS}])))
