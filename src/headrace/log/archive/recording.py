"""Records files in the catalog: they get their names and are on disk before the catalog refers to them, and what they replace is
deleted after that. A crash in between leaves files that the catalog does not name, and never an entry without its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import msgspec

from headrace.core import ArchiveBusy
from headrace.db import Connection
from headrace.log.archive.catalog import ArchivedDays
from headrace.log.archive.files import delete_replaced
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.topics import Topic

FILE_EVENTS_MIN = 500_000
"""Days of a month share a file until it has this many events: Spark opens a hundred small files in the time it needs to read one
of this size."""


def share_file(days: ArchivedDays, following: ArchivedDays) -> bool:
    """True if the days after others belong into the same file."""
    is_same_month = (days.day.year, days.day.month) == (following.day.year, following.day.month)
    return is_same_month and following.first_position == days.last_position + 1 and days.events < FILE_EVENTS_MIN


def join(days: ArchivedDays, following: ArchivedDays) -> ArchivedDays:
    # The checksum is a sum over rows, so checksums of two files add up.
    checksum = str(int(days.checksum) + int(following.checksum))
    positions, times = (days.first_position, following.last_position), (days.first_at, following.last_at)
    return ArchivedDays(days.day, *positions, *times, days.events + following.events, checksum)


@dataclass(frozen=True)
class RecordedFile(ArchivedDays):
    """A file as headrace.record_archive takes it; `file` is its path within the folder of the archive."""

    file: str
    file_bytes: int

    @classmethod
    def from_path(cls, days: ArchivedDays, path: Path, root: Path) -> RecordedFile:
        """The file that has been written under its temporary name."""
        values = {field.name: getattr(days, field.name) for field in fields(ArchivedDays)}
        return cls(**values, file=str(path.relative_to(root)), file_bytes=temporary_path(path).stat().st_size)


def join_days(days: Sequence[ArchivedDays]) -> list[ArchivedDays]:
    """What goes into one file each: the days of a month, or fewer where they have many events."""
    files: list[ArchivedDays] = []
    for day in days:
        if files and share_file(files[-1], day):
            files[-1] = join(files[-1], day)
        else:
            files.append(day)
    return files


def temporary_path(path: Path) -> Path:
    # Readers of a folder of Parquet files skip names that begin with a dot.
    return path.with_name(f".{path.name}.writing")


def lock_archive(conn: Connection, topic: Topic) -> None:
    """One archiver per topic. The lock ends with the session, however that ends."""
    row = conn.execute("select headrace.try_lock_topic(%s, 'archive')", (topic.topic_id,)).fetchone()
    if row != (True,):
        raise ArchiveBusy(f"topic {topic.topic!r} is being archived by another process; wait until it has finished")


def record_files(writer: CatalogWriter, files: Sequence[RecordedFile]) -> None:
    """Gives the files their names and records them. Deletes files that they replace."""
    topic, root = writer.topic, writer.root
    for file in files:
        path = root / file.file
        temporary_path(path).replace(path)
        _sync_folder(path.parent)
    parameters = (topic.topic_id, str(root), msgspec.json.encode([asdict(file) for file in files]).decode())
    statement = "select r.folder, r.file from headrace.record_archive(%s, %s, %s::jsonb) r"
    replaced = writer.write(lambda conn: conn.execute(statement, parameters).fetchall())
    # Whoever reads the folder as a whole would find their events twice.
    for folder, name in replaced:
        if (folder, name) not in {(str(root), file.file) for file in files}:
            delete_replaced(root, topic.namespace, topic.topic, folder, name)


def _sync_folder(folder: Path) -> None:
    """The new name must be on disk, too, before the catalog refers to it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
