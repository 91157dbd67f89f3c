"""Small files of a month become one once the month is over, with the same rows, whatever crashes or reads meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.db import Connection, Target
from headrace.log.archive import (
    archive_topic,
    find_stored_range,
    list_archive,
    read_stored_events,
    recording,
    stored_events,
    verify_archive,
)
from headrace.log.archive.compaction import compact_files
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.topics import create_topic, get_topic
from tests.builders import drain
from tests.spark.reading import read_rows, secret_file

DAYS = 9
"""From 27 January: five days, and four of February, of which the last is open."""


@pytest.fixture
def archived(conn: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A topic with nine time partitions of a day, archived as a file per day, and the folder."""
    create_topic(conn, "orders", clock="event", time_partition="day")
    with conn.transaction():
        conn.execute(
            """select headrace.publish('orders', 'placed', to_jsonb(n), p_key => 'k' || n %% 7,
                   p_emitted_at => '2026-01-27T06:00:00Z'::timestamptz + n / 3 * interval '1 day')
               from generate_series(0, %s) n""",
            (3 * DAYS - 1,),
        )
    drain(conn)
    folder = tmp_path / "archive"
    with monkeypatch.context() as patch:
        patch.setattr("headrace.log.archive.writing.compact_files", lambda *_: 0)
        list(archive_topic(database, "orders", folder=folder))
    assert len(list_archive(conn, "orders")) == DAYS - 1
    conn.execute("select headrace.drop_expired(headrace.topic_id('orders'), '2026-02-04')")
    return folder


def compact(database: Target, folder: Path) -> int:
    return sum(step.compacted for step in archive_topic(database, "orders", folder=folder))


def numbers(conn: Connection) -> list[int]:
    span = find_stored_range(conn, "orders")
    return [int(event.payload) for batch in read_stored_events(conn, span) for event in batch]


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_days_of_a_month_become_one_file_with_the_same_rows(conn: Connection, database: Target, archived: Path) -> None:
    before = numbers(conn)
    assert compact(database, archived) == 5
    files = list_archive(conn, "orders")
    assert (files[0].events, f"{files[0].day}") == (15, "2026-01-27")
    assert len(files) == 1 + 3, "the newest month goes on"
    assert files_in(archived) == sorted(file.file for file in files), "the small files are gone"
    assert [check.problem for check in verify_archive(conn, "orders")] == [None] * len(files)
    assert numbers(conn) == before == list(range(3 * DAYS))
    assert compact(database, archived) == 0


def test_what_a_crash_left_is_deleted_if_it_is_a_copy(conn: Connection, database: Target, archived: Path, tmp_path: Path) -> None:
    shutil.copytree(archived, tmp_path / "before")
    first, second, *_ = files_in(archived)
    compact(database, archived)
    compacted = files_in(archived)
    shutil.copy(tmp_path / "before" / first, archived / first)
    # Other events at the positions of the second file, as a log leaves them that went back: nobody else has those.
    shutil.copy(tmp_path / "before" / first, archived / second)
    compact(database, archived)
    assert files_in(archived) == sorted([*compacted, second])


def test_file_that_cannot_be_read_stays(conn: Connection, database: Target, archived: Path) -> None:
    files = files_in(archived)
    (archived / files[3]).write_bytes(b"broken")
    assert compact(database, archived) == 0
    assert files_in(archived) == files


def test_readers_find_the_events_of_a_file_that_was_compacted_meanwhile(
    conn: Connection, database: Target, archived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_ranges = stored_events._archived_ranges
    compactions = iter([lambda: compact(database, archived)])

    def find_then_compact(*arguments: object) -> object:
        ranges = find_ranges(*arguments)
        next(compactions, lambda: 0)()
        return ranges

    monkeypatch.setattr(stored_events, "_archived_ranges", find_then_compact)
    assert numbers(conn) == list(range(3 * DAYS))
    assert len(list_archive(conn, "orders")) == 4


def test_task_finds_the_events_of_a_file_that_was_compacted_after_planning(
    conn: Connection, database: Target, archived: Path, tmp_path: Path
) -> None:
    from headrace.spark.data_source import HeadraceSource

    source = HeadraceSource({"secret": secret_file(tmp_path, database), "subscribe": "orders"})
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    assert len(split.value.ranges) == DAYS, "one task for all small files, and the log"
    assert compact(database, archived) == 5
    rows = [row for batch in reader.read(split) for row in batch.to_pylist()]
    assert [int(row["payload"]) for row in rows] == list(range(3 * DAYS))
    assert len(read_rows(secret_file(tmp_path, database), columns="offset")) == 3 * DAYS


def test_large_days_keep_files_of_their_own(
    conn: Connection, database: Target, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is complete once it has enough events: here twelve, which are four days."""
    monkeypatch.setattr(recording, "FILE_EVENTS_MIN", 12)
    assert compact(database, archived) == 4
    assert [file.events for file in list_archive(conn, "orders")] == [12, 3, 3, 3, 3]


def test_compaction_leaves_other_folders_alone(conn: Connection, database: Target, archived: Path, tmp_path: Path) -> None:
    before = files_in(archived)
    writer = CatalogWriter.for_topic(conn, database, get_topic(conn, "orders"), tmp_path / "elsewhere", iceberg=False)
    assert compact_files(writer) == 0
    assert files_in(archived) == before
