"""Archiving: closed time partitions become files, one per day, and are recorded when the files were found equal to the log.

Killed at any moment, nothing half is recorded: files are written under another name, read back, compared, named, and only then
recorded, a time partition's files in one transaction. The next run writes the same names again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import class_row

from headrace.archive.parquet import read_content, write_file
from headrace.core import ArchiveBusy, ArchiveDiffers, NotFound
from headrace.db import Connection, Target, connect, connect_arrow, map_connection_errors, map_database_errors, query
from headrace.log import Topic, get_topic

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

_LOCK = 0x61726368  # "arch"


@dataclass(frozen=True)
class Closed:
    """A time partition to which nothing is written any more, and whether the archive holds it."""

    name: str
    from_at: datetime
    to_at: datetime
    events: int
    archived: bool


@dataclass(frozen=True)
class Progress:
    """How far archiving has come: events written of those to write; `partition` is the one just recorded, else None."""

    written: int
    total: int
    files: int
    file_bytes: int
    partition: str | None = None


@dataclass(frozen=True)
class _Day:
    """What PostgreSQL says about one day of a time partition."""

    day: date
    first_position: int
    last_position: int
    first_at: datetime
    last_at: datetime
    events: int
    checksum: str


@dataclass(frozen=True)
class _File(_Day):
    """A day with its file, as the catalog records it."""

    file: str
    file_bytes: int


def keep_until_archived(conn: Connection, topic: str, *, archive: bool = True, namespace: str | None = None) -> None:
    """Says whether retention may drop only what the archive holds."""
    with map_database_errors():
        conn.execute("select headrace.keep_until_archived(%s, %s, %s)", (topic, archive, namespace))


def closed_partitions(
    conn: Connection, topic: str, *, before: datetime | None = None, namespace: str | None = None
) -> list[Closed]:
    """The time partitions that ended before a moment (None: now), oldest first."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Closed)) as cursor:
        return cursor.execute(query("archive/closed"), {"topic": topic, "before": before, "namespace": namespace}).fetchall()


def archive(
    target: Target, topic: str, *, folder: Path | str, before: datetime | None = None, namespace: str | None = None
) -> Iterator[Progress]:
    """Writes closed time partitions that the archive does not hold, oldest first, and yields how far it has come.

    Raises ArchiveBusy while another process does the same, ArchiveDiffers when a file, read again, is not equal to the log."""
    root = Path(folder).absolute()
    with map_connection_errors(target), connect(target) as conn:
        found = get_topic(conn, topic, namespace=namespace)
        with _alone(conn, found), _arrow(target) as arrow:
            due = [
                one
                for one in closed_partitions(conn, topic, before=before, namespace=namespace)
                if one.events and not one.archived
            ]
            progress = Progress(0, sum(one.events for one in due), 0, 0)
            for part in due:
                for step in _archive_partition(conn, arrow, found, part, root, progress):
                    yield step
                    progress = step


@contextmanager
def _alone(conn: Connection, topic: Topic) -> Iterator[None]:
    """One archiver per topic; the lock goes with the session, however it ends."""
    row = conn.execute("select pg_try_advisory_lock(%s, %s)", (_LOCK, topic.topic_id)).fetchone()
    if row != (True,):
        raise ArchiveBusy(f"topic {topic.topic!r} is being archived by another process; wait until it is done")
    try:
        yield
    finally:
        with suppress(psycopg.OperationalError):
            conn.execute("select pg_advisory_unlock(%s, %s)", (_LOCK, topic.topic_id))


def _archive_partition(
    conn: Connection, arrow: ArrowConnection, topic: Topic, part: Closed, root: Path, progress: Progress
) -> Iterator[Progress]:
    # A sequencer that began before the end of the partition holds the topic's row: wait until it is done.
    with map_database_errors(), conn.transaction():
        conn.execute("select from headrace.topic t where t.topic_id = %s for no key update", (topic.topic_id,))
    with map_database_errors(), conn.cursor(row_factory=class_row(_Day)) as cursor:
        given = {"topic_id": topic.topic_id, "from_at": part.from_at, "to_at": part.to_at}
        days = cursor.execute(query("archive/days"), given).fetchall()
    files = []
    for day in days:
        path = root / _file_name(topic, day)
        for count in write_file(_unnamed(path), _rows(arrow, topic, day)):
            progress = Progress(progress.written + count, progress.total, progress.files, progress.file_bytes)
            yield progress
        _check(_unnamed(path), day)
        size = _unnamed(path).stat().st_size
        files.append(_File(**asdict(day), file=str(path.relative_to(root)), file_bytes=size))
        progress = Progress(progress.written, progress.total, progress.files + 1, progress.file_bytes + size)
    _name_and_record(conn, topic, root, files)
    yield Progress(progress.written, progress.total, progress.files, progress.file_bytes, part.name)


def _file_name(topic: Topic, day: _Day) -> Path:
    # With the checksum: shards that share a folder have the same positions with other events.
    name = f"{day.first_position:012}-{day.last_position:012}-{int(day.checksum) % 16**8:08x}.parquet"
    return Path(f"namespace={topic.namespace}", f"topic={topic.topic}", f"date={day.day}", name)


def _unnamed(path: Path) -> Path:
    # Readers of a folder of Parquet files pass over names that begin with a dot.
    return path.with_name(f".{path.name}.writing")


def _check(path: Path, day: _Day) -> None:
    """What was written is read back from the file and compared with what PostgreSQL said."""
    held = read_content(path)
    wanted = (day.first_position, day.last_position, day.events, day.checksum)
    if (held.first_position, held.last_position, held.events, held.checksum) != wanted:
        raise ArchiveDiffers(
            f"{path} holds {held.events} events, {held.first_position} to {held.last_position}, with checksum {held.checksum}; "
            f"the log has {day.events}, {day.first_position} to {day.last_position}, with {day.checksum}; nothing was recorded"
        )


def _name_and_record(conn: Connection, topic: Topic, root: Path, files: Sequence[_File]) -> None:
    for one in files:
        path = root / one.file
        _unnamed(path).replace(path)
        _sync_folder(path.parent)
    rows = msgspec.json.encode(files).decode()
    with map_database_errors():
        given = {"topic_id": topic.topic_id, "folder": str(root), "files": rows}
        replaced = conn.execute(query("archive/record"), given).fetchall()
    # Whoever reads the folder as a whole would find their events twice.
    for path in {Path(folder) / file for folder, file in replaced} - {root / one.file for one in files}:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The new name, too, is on the disk before the catalog tells of it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rows(arrow: ArrowConnection, topic: Topic, day: _Day) -> Iterator[pa.RecordBatch]:
    statement = sql.SQL(query("archive/read")).format(
        topic_id=sql.Literal(topic.topic_id),
        first_at=sql.Literal(day.first_at.isoformat()),
        last_at=sql.Literal(day.last_at.isoformat()),
        first=sql.Literal(day.first_position),
        last=sql.Literal(day.last_position),
    )
    with map_database_errors(), arrow.cursor() as cursor:
        cursor.execute(statement.as_string(None))
        yield from cursor.fetch_record_batch()
    arrow.rollback()


@contextmanager
def _arrow(target: Target) -> Iterator[ArrowConnection]:
    try:
        opened = connect_arrow(target, application_name="headrace archive")
    except ImportError:
        raise NotFound("the archive needs pyarrow and adbc-driver-postgresql; pip install 'headrace[spark]'") from None
    with closing(opened) as conn:
        yield conn
