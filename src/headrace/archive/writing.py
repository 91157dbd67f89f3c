"""Archives closed time partitions: one file per day, recorded in the catalog once the files are known to be equal to the log.

A crash at any moment leaves nothing incomplete in the catalog: files are written under a temporary name, read back, compared and
renamed, and then all files of a time partition are recorded in one transaction. The next run writes the same names again."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

from headrace.archive.catalog import list_archive
from headrace.archive.files import delete_replaced, file_name
from headrace.archive.leftovers import Origin, reject_leftovers
from headrace.archive.parquet import Content, read_content, write_file
from headrace.archive.reading import literal_query
from headrace.core import ArchiveBusy, ArchiveMismatch, NotFound
from headrace.db import (
    Connection,
    Target,
    connect,
    connect_arrow,
    map_connection_errors,
    map_database_errors,
    query,
    require_sessions,
)
from headrace.log import Topic, get_topic

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection as ArrowConnection


@dataclass(frozen=True)
class ClosedPartition:
    """A time partition to which nothing is written any more, and whether the archive holds it."""

    name: str
    from_at: datetime
    to_at: datetime
    events: int
    archived: bool


@dataclass(frozen=True)
class ArchiveProgress:
    """Events written so far, and the total to write. `partition` is the one just recorded, else None."""

    written: int
    total: int
    files: int
    file_bytes: int
    partition: str | None = None


@dataclass(frozen=True)
class _Day:
    """One day of a time partition, as the log has it."""

    day: date
    first_position: int
    last_position: int
    first_at: datetime
    last_at: datetime
    events: int
    checksum: str


def keep_until_archived(conn: Connection, topic: str, *, archive: bool = True, namespace: str | None = None) -> None:
    """Sets whether retention may drop only what the archive holds."""
    with map_database_errors():
        conn.execute("select headrace.keep_until_archived(%s, %s, %s)", (topic, archive, namespace))


def list_closed_partitions(
    conn: Connection, topic: str, *, before: datetime | None = None, namespace: str | None = None
) -> list[ClosedPartition]:
    """The time partitions that ended before a time (None: now), oldest first."""
    parameters = {"topic": topic, "before": before, "namespace": namespace}
    with map_database_errors(), conn.cursor(row_factory=class_row(ClosedPartition)) as cursor:
        return cursor.execute(query("archive/closed_partitions"), parameters).fetchall()


def archive_topic(
    target: Target, topic: str, *, folder: Path | str, before: datetime | None = None, namespace: str | None = None
) -> Iterator[ArchiveProgress]:
    """Writes the closed time partitions that the archive does not hold, oldest first, and yields its progress.

    Raises ArchiveBusy while another process archives the topic, ArchiveMismatch if a file, read back, differs from the log,
    LogWentBack if the folder has these positions with other events, and TransactionPooler behind such a pooler."""
    root = Path(folder).absolute()
    require_sessions(target, f"the archive of {target}")
    with map_connection_errors(target), connect(target) as conn:
        topic_ = get_topic(conn, topic, namespace=namespace)
        _lock_topic(conn, topic_)
        with _connect_arrow(target) as arrow:
            closed = list_closed_partitions(conn, topic, before=before, namespace=namespace)
            due = [partition for partition in closed if partition.events and not partition.archived]
            progress = ArchiveProgress(0, sum(partition.events for partition in due), 0, 0)
            for partition in due:
                progress = yield from _archive_partition(conn, arrow, topic_, partition, root, progress)


def _lock_topic(conn: Connection, topic: Topic) -> None:
    """One archiver per topic. The lock ends with the session, however that ends."""
    row = conn.execute("select headrace.try_lock_topic(%s, 'archive')", (topic.topic_id,)).fetchone()
    if row != (True,):
        raise ArchiveBusy(f"topic {topic.topic!r} is being archived by another process; wait until it has finished")


def _archive_partition(
    conn: Connection, arrow: ArrowConnection, topic: Topic, partition: ClosedPartition, root: Path, progress: ArchiveProgress
) -> Generator[ArchiveProgress, None, ArchiveProgress]:
    files = []
    origin = Origin.of(conn, topic.topic_id)
    recorded = {Path(file.folder) / file.file for file in list_archive(conn, topic.topic, namespace=topic.namespace)}
    for day in _days(conn, topic, partition):
        expected = Content(day.first_position, day.last_position, day.events, day.checksum)
        path = root / file_name(topic.namespace, topic.topic, day.day, expected)
        reject_leftovers(path.parents[1], path, day.first_position, day.last_position, origin, recorded)
        temporary = _temporary(path)
        for count in write_file(temporary, _rows(arrow, topic, day), origin.metadata()):
            progress = replace(progress, written=progress.written + count)
            yield progress
        if (content := read_content(temporary)) != expected:
            raise ArchiveMismatch(f"{temporary} holds {content}; the log has {expected}; nothing was recorded")
        size = temporary.stat().st_size
        files.append({**asdict(day), "file": str(path.relative_to(root)), "file_bytes": size})
        progress = replace(progress, files=progress.files + 1, file_bytes=progress.file_bytes + size)
    _record(conn, topic, root, files)
    yield replace(progress, partition=partition.name)
    return progress


def _days(conn: Connection, topic: Topic, partition: ClosedPartition) -> list[_Day]:
    with map_database_errors(), conn.cursor(row_factory=class_row(_Day)) as cursor:
        # A sequencer that started before the end of the partition holds the topic's row: wait until it has finished.
        with conn.transaction():
            conn.execute("select from headrace.topic t where t.topic_id = %s for no key update", (topic.topic_id,))
        parameters = {"topic_id": topic.topic_id, "from_at": partition.from_at, "to_at": partition.to_at}
        return cursor.execute(query("archive/days"), parameters).fetchall()


def _temporary(path: Path) -> Path:
    # Readers of a folder of Parquet files skip names that begin with a dot.
    return path.with_name(f".{path.name}.writing")


def _record(conn: Connection, topic: Topic, root: Path, files: Sequence[Mapping[str, object]]) -> None:
    """Gives the files their names and records them. Deletes files that they replace."""
    paths = [root / str(file["file"]) for file in files]
    for path in paths:
        _temporary(path).replace(path)
        _sync_folder(path.parent)
    with map_database_errors():
        replaced = conn.execute(
            "select r.folder, r.file from headrace.record_archive(%s, %s, %s::jsonb) r",
            (topic.topic_id, str(root), msgspec.json.encode(files).decode()),
        ).fetchall()
    # Whoever reads the folder as a whole would find their events twice.
    written = {str(file["file"]) for file in files}
    for folder, file in replaced:
        if (folder, file) not in {(str(root), name) for name in written}:
            delete_replaced(root, topic.namespace, topic.topic, folder, file)


def _sync_folder(folder: Path) -> None:
    """The new name must be on disk, too, before the catalog refers to it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rows(arrow: ArrowConnection, topic: Topic, day: _Day) -> Iterator[pa.RecordBatch]:
    positions = {"first": day.first_position, "last": day.last_position}
    times = {"first_at": day.first_at.isoformat(), "last_at": day.last_at.isoformat()}
    with map_database_errors(), arrow.cursor() as cursor:
        cursor.execute(literal_query("archive/file_rows", topic_id=topic.topic_id, **positions, **times))
        yield from cursor.fetch_record_batch()
    arrow.rollback()


@contextmanager
def _connect_arrow(target: Target) -> Iterator[ArrowConnection]:
    try:
        arrow = connect_arrow(target, application_name="headrace archive")
    except ImportError:
        raise NotFound("the archive needs pyarrow and adbc-driver-postgresql; pip install 'headrace[spark]'") from None
    with closing(arrow):
        yield arrow
