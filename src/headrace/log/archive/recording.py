"""Records files in the catalog: they get their names and are on disk before the catalog refers to them, and what they replace is
deleted after that. A crash in between leaves files that the catalog does not name, and never an entry without its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path

import msgspec

from headrace.core import ArchiveBusy
from headrace.db import Connection
from headrace.log.archive.files import delete_replaced
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.archive.parquet import Content
from headrace.log.topics import Topic

FILE_EVENTS_MIN = 500_000
"""Days of a month share a file until it has this many events: Spark opens a hundred small files in the time it needs to read one
of this size."""


@dataclass(frozen=True)
class ArchivedDays:
    """Consecutive days of one month: `day` is the first. Their positions have no gap."""

    day: date
    first_position: int
    last_position: int
    first_at: datetime
    last_at: datetime
    events: int
    checksum: str

    @property
    def content(self) -> Content:
        return Content(self.first_position, self.last_position, self.events, self.checksum)

    def joins(self, following: ArchivedDays) -> bool:
        """Whether the days after these belong into the same file."""
        is_same_month = (self.day.year, self.day.month) == (following.day.year, following.day.month)
        return is_same_month and following.first_position == self.last_position + 1 and self.events < FILE_EVENTS_MIN

    def joined_with(self, following: ArchivedDays) -> ArchivedDays:
        return replace(
            self,
            last_position=following.last_position,
            last_at=following.last_at,
            events=self.events + following.events,
            # A sum over the rows, so that of both is the sum.
            checksum=str(int(self.checksum) + int(following.checksum)),
        )


@dataclass(frozen=True)
class RecordedFile(ArchivedDays):
    """A file as headrace.record_archive takes it; `file` is its path within the folder of the archive."""

    file: str
    file_bytes: int

    @classmethod
    def from_path(cls, days: ArchivedDays, path: Path, root: Path) -> RecordedFile:
        """The file that has been written under its temporary name."""
        return cls(**asdict(days), file=str(path.relative_to(root)), file_bytes=temporary_path(path).stat().st_size)


def join_days(days: Sequence[ArchivedDays]) -> list[ArchivedDays]:
    """What goes into one file each: the days of a month, or fewer where they have many events."""
    files: list[ArchivedDays] = []
    for day in days:
        if files and files[-1].joins(day):
            files[-1] = files[-1].joined_with(day)
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
