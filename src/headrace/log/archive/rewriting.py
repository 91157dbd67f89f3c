"""Rewriting: erases events in files of the archive, file by file.

A new file is written beside the old one, compared by checksum, recorded in its place, and only then is the old one deleted. A crash
leaves the erasure pending; the next run finds the same files, and the old ones that the catalog does not name any more."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.core import ERASED_HEADER, ArchiveBusy, ArchiveMismatch, NotFound
from headrace.db import Connection, Target, fetch_rows, fetch_value
from headrace.log.archive.catalog import ArchivedFile, list_archive
from headrace.log.archive.files import delete_replaced, file_name, files_of
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.archive.parquet import file_rows, file_schema, read_content, row_hash, write_file
from headrace.log.archive.reading import FileRange, RowFilter, read_archive_file
from headrace.log.archive.recording import RecordedFile, record_files, temporary_path
from headrace.log.topics import Topic

if TYPE_CHECKING:
    import pyarrow as pa

ABANDONED_S = 3600.0
"""A temporary file that nobody has written to for this long was left by a crash."""
_TEXTS = "select t.key, t.payload, t.headers from headrace.erased_texts(%s, %s, %s::text[], %s::text[], %s::text[]) t"


@dataclass(frozen=True)
class PendingErasure:
    """An erasure that is done in the database, and not yet in the files of a topic."""

    erasure_id: int
    event_ids: list[UUID]


@dataclass
class _Checksums:
    """The checksums of the changed rows, before and after."""

    before: int = 0
    after: int = 0
    changed: int = 0


def erase_pending(conn: Connection, target: Target, topic: Topic) -> None:
    """Finishes the pending erasures of a topic. The caller holds the lock of the archive.

    Raises NotFound if a file is missing here, and ArchiveBusy or ArchiveMismatch if a file is left that may hold the events."""
    statement = "select p.erasure_id, p.event_ids from headrace.pending_erasures(%s) p"
    for erasure in fetch_rows(conn, PendingErasure, statement, (topic.topic_id,)):
        event_ids = frozenset(map(str, erasure.event_ids))
        files = list_archive(conn, topic.topic, namespace=topic.namespace)
        events = sum(_erase_in_file(conn, target, topic, erasure, file, event_ids) for file in files)
        for folder in sorted({file.folder for file in files}):
            _delete_leftovers(conn, topic, erasure, Path(folder), event_ids)
        fetch_value(conn, "select headrace.end_erasure(%s, %s, %s)", (erasure.erasure_id, topic.topic_id, events))


def find_archived_key(conn: Connection, topic: Topic, key: str) -> list[dict[str, object]]:
    """Reads id, position and time of a key's events from a topic's files."""
    rows: list[dict[str, object]] = []
    for file in list_archive(conn, topic.topic, namespace=topic.namespace):
        for batch in read_archive_file(_whole(file), ["event_id", "position", "appended_at"], RowFilter(keys=(key,))):
            rows += batch.to_pylist()
    return rows


def count_archived(conn: Connection, topic: Topic, event_ids: Collection[str]) -> int:
    """How many of these events are in files of a topic."""
    files = list_archive(conn, topic.topic, namespace=topic.namespace)
    return sum(_count(Path(file.folder) / file.file, event_ids) for file in files)


def _whole(file: ArchivedFile) -> FileRange:
    return FileRange(str(Path(file.folder) / file.file), file.first_position, file.last_position + 1)


def _count(path: Path, event_ids: Collection[str]) -> int:
    import pyarrow.parquet as pq

    try:
        column = pq.ParquetFile(path).read(columns=["event_id"]).column("event_id")
    except FileNotFoundError:
        raise NotFound(f"the archive file {path} does not exist here; run this where the folder of the archive is") from None
    return sum(event_id in event_ids for event_id in column.to_pylist())


def _erase_in_file(
    conn: Connection, target: Target, topic: Topic, erasure: PendingErasure, file: ArchivedFile, event_ids: Collection[str]
) -> int:
    """Writes a file again without the events' data, unless it has none; returns how many of the events it has."""
    import pyarrow.parquet as pq

    root = Path(file.folder)
    path = root / file.file
    count = _count(path, event_ids)
    if not count:
        return 0
    sums, temporary = _Checksums(), temporary_path(path)
    metadata = pq.read_schema(path).metadata or {}
    for _ in write_file(temporary, _erased_rows(conn, topic, erasure, file, event_ids, sums), metadata):
        pass
    if not sums.changed:
        temporary.unlink()
        return count
    content, checksum = read_content(temporary), str(int(file.checksum) - sums.before + sums.after)
    days = replace(file, checksum=checksum)
    if content != days.content:
        temporary.unlink()
        raise ArchiveMismatch(f"{path}, written again, holds {content}; expected {days.content}; see headrace archive verify")
    new = root / file_name(topic.namespace, topic.topic, file.day, content)
    temporary.replace(temporary_path(new))
    writer = CatalogWriter.for_topic(conn, target, topic, root, iceberg=False)
    record_files(writer, [RecordedFile.from_path(days, new, root)])
    return count


def _erased_rows(
    conn: Connection,
    topic: Topic,
    erasure: PendingErasure,
    file: ArchivedFile,
    event_ids: Collection[str],
    sums: _Checksums,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = file_schema()
    for batch in read_archive_file(_whole(file), schema.names):
        rows = batch.to_pylist()
        matches = [row for row in rows if row["event_id"] in event_ids]
        if not matches:
            yield batch
            continue
        texts = [[row[name] for row in matches] for name in ("key", "payload", "headers")]
        erased = conn.execute(_TEXTS, (erasure.erasure_id, topic.topic_id, *texts)).fetchall()
        for row, (key, payload, headers) in zip(matches, erased, strict=True):
            row |= {"payload": payload, "headers": headers, "key": key}
        after = pa.RecordBatch.from_pylist(rows, schema=schema)
        for old, new in zip(file_rows(batch), file_rows(after), strict=True):
            if old != new:
                sums.before += row_hash(old)
                sums.after += row_hash(new)
                sums.changed += 1
        yield after


def _delete_leftovers(conn: Connection, topic: Topic, erasure: PendingErasure, root: Path, event_ids: Collection[str]) -> None:
    """Deletes what a crash left: files that were replaced and not deleted, and temporary files."""
    recorded = {file.file for file in list_archive(conn, topic.topic, namespace=topic.namespace)}
    for name, first, last in files_of(root, topic.namespace, topic.topic):
        path = root / name
        if name in recorded or not _has_unerased(FileRange(str(path), first, last + 1), erasure, event_ids):
            continue
        if not delete_replaced(root, topic.namespace, topic.topic, str(root), name):
            raise ArchiveMismatch(f"{path} is not in the catalog and still holds erased events; move it away or delete it")
    folder = root / f"namespace={topic.namespace}" / f"topic={topic.topic}"
    young: Sequence[Path] = [path for path in folder.glob("month=*/.*.parquet.writing") if not _delete_abandoned(path)]
    if young:
        raise ArchiveBusy(f"{young[0]} is being written, or was left by a crash within the last hour; run this again later")


def _has_unerased(whole: FileRange, erasure: PendingErasure, event_ids: Collection[str]) -> bool:
    marks = (f'"{ERASED_HEADER}"', f'"headrace-redacted": "{erasure.erasure_id}"')
    rows = (row for batch in read_archive_file(whole, ["event_id", "headers"]) for row in batch.to_pylist())
    return any(row["event_id"] in event_ids and not any(mark in row["headers"] for mark in marks) for row in rows)


def _delete_abandoned(path: Path) -> bool:
    try:
        if time.time() - path.stat().st_mtime < ABANDONED_S:
            return False
        path.unlink()
    except FileNotFoundError:
        pass
    return True
