"""Archives closed time partitions: a file per month, or per day where a day has many events, recorded in the catalog once the files
are known to be equal to the log.

A crash at any moment leaves nothing incomplete in the catalog: files are written under a temporary name, read back, compared and
renamed, and then all files of a time partition are recorded in one transaction. The next run writes the same names again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import ArchiveMismatch, NotFound
from headrace.db import (
    Connection,
    Target,
    connect,
    connect_arrow,
    fetch_rows,
    fetch_value,
    map_connection_errors,
    map_database_errors,
    query,
    require_sessions,
)
from headrace.log.archive.catalog import ArchivedDays, list_archive
from headrace.log.archive.compaction import compact_files
from headrace.log.archive.files import Origin, file_name, reject_leftovers
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.archive.parquet import read_content, write_file
from headrace.log.archive.reading import literal_query
from headrace.log.archive.recording import RecordedFile, join_days, lock_archive, record_files, temporary_path
from headrace.log.archive.rewriting import erase_pending
from headrace.log.topics import Topic, get_topic

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
    compacted: int = 0
    """Small files of earlier months that were put together."""


def keep_until_archived(conn: Connection, topic: str, *, archive: bool = True, namespace: str | None = None) -> None:
    """Sets whether retention may drop only what the archive holds."""
    fetch_value(conn, "select headrace.keep_until_archived(%s, %s, %s)", (topic, archive, namespace))


def list_closed_partitions(
    conn: Connection, topic: str, *, before: datetime | None = None, namespace: str | None = None
) -> list[ClosedPartition]:
    """The time partitions that ended before a time (None: now), oldest first."""
    parameters = {"topic": topic, "before": before, "namespace": namespace}
    return fetch_rows(conn, ClosedPartition, query("log/archive/closed_partitions"), parameters)


def archive_topic(
    target: Target,
    topic: str,
    *,
    folder: Path | str,
    before: datetime | None = None,
    iceberg: bool = False,
    namespace: str | None = None,
) -> Iterator[ArchiveProgress]:
    """Writes the closed time partitions that the archive does not hold, oldest first, and yields its progress.

    With `iceberg` the files are an Apache Iceberg table too, from then on in every run. Raises ArchiveBusy while another process
    archives the topic, ArchiveMismatch if a file, read back, differs from the log,
    LogWentBack if the folder has these positions with other events, and TransactionPooler behind such a pooler."""
    root = Path(folder).absolute()
    require_sessions(target, f"the archive of {target}")
    with map_connection_errors(target), connect(target) as conn:
        topic_ = get_topic(conn, topic, namespace=namespace)
        lock_archive(conn, topic_)
        erase_pending(conn, target, topic_)
        writer = CatalogWriter.for_topic(conn, target, topic_, root, iceberg=iceberg)
        with _connect_arrow(target) as arrow:
            closed = list_closed_partitions(conn, topic, before=before, namespace=namespace)
            due = [partition for partition in closed if partition.events and not partition.archived]
            progress = ArchiveProgress(0, sum(partition.events for partition in due), 0, 0)
            for partition in due:
                progress = yield from _archive_partition(writer, arrow, partition, progress)
        if writer.iceberg:
            # Files that were recorded before the topic had a table.
            writer.write(lambda _: None)
        compacted = compact_files(writer)
        if compacted:
            yield replace(progress, compacted=compacted)


def _archive_partition(
    writer: CatalogWriter, arrow: ArrowConnection, partition: ClosedPartition, progress: ArchiveProgress
) -> Generator[ArchiveProgress, None, ArchiveProgress]:
    conn, topic, root = writer.conn, writer.topic, writer.root
    files = []
    origin = Origin.for_topic(conn, topic.topic_id)
    recorded = {Path(file.folder) / file.file for file in list_archive(conn, topic.topic, namespace=topic.namespace)}
    for days in join_days(_days(conn, topic, partition)):
        expected = days.content
        path = root / file_name(topic.namespace, topic.topic, days.day, expected)
        reject_leftovers(path.parents[1], path, days.first_position, days.last_position, origin, recorded)
        temporary = temporary_path(path)
        for count in write_file(temporary, _rows(arrow, topic, days), origin.metadata()):
            progress = replace(progress, written=progress.written + count)
            yield progress
        if (content := read_content(temporary)) != expected:
            raise ArchiveMismatch(f"{temporary} holds {content}; the log has {expected}; nothing was recorded")
        file = RecordedFile.from_path(days, path, root)
        files.append(file)
        progress = replace(progress, files=progress.files + 1, file_bytes=progress.file_bytes + file.file_bytes)
    record_files(writer, files)
    yield replace(progress, partition=partition.name)
    return progress


def _days(conn: Connection, topic: Topic, partition: ClosedPartition) -> list[ArchivedDays]:
    # A sequencer that started before the end of the partition holds the topic's row: wait until it has finished.
    with map_database_errors(), conn.transaction():
        conn.execute("select from headrace.topic t where t.topic_id = %s for no key update", (topic.topic_id,))
    parameters = {"topic_id": topic.topic_id, "from_at": partition.from_at, "to_at": partition.to_at}
    return fetch_rows(conn, ArchivedDays, query("log/archive/days"), parameters)


def _rows(arrow: ArrowConnection, topic: Topic, days: ArchivedDays) -> Iterator[pa.RecordBatch]:
    positions = {"first": days.first_position, "last": days.last_position}
    times = {"first_at": days.first_at.isoformat(), "last_at": days.last_at.isoformat()}
    with map_database_errors(), arrow.cursor() as cursor:
        cursor.execute(literal_query("log/archive/file_rows", topic_id=topic.topic_id, **positions, **times))
        yield from cursor.fetch_record_batch()
    arrow.rollback()


@contextmanager
def _connect_arrow(target: Target) -> Iterator[ArrowConnection]:
    try:
        arrow = connect_arrow(target, application_name="headrace archive")
    except ImportError:
        raise NotFound("the archive needs pyarrow and adbc-driver-postgresql; pip install 'headrace[arrow]'") from None
    with closing(arrow):
        yield arrow
