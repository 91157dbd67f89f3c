"""Compaction: small files of a month become one, once the month is over.

A topic whose time partitions are days is archived day by day, and a year of it would be hundreds of small files. Promises: the new
file has every row of the old ones, by count and checksum, before the catalog names it; what a crash left behind is deleted next time,
if it is a copy of what the catalog names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import ArchiveMismatch, NotFound
from headrace.log.archive.catalog import ArchivedDays, ArchivedFile, list_archive
from headrace.log.archive.files import Origin, delete_replaced, file_name, files_of
from headrace.log.archive.iceberg import CatalogWriter
from headrace.log.archive.parquet import file_schema, read_content, write_file
from headrace.log.archive.reading import FileRange, read_archive_file
from headrace.log.archive.recording import RecordedFile, join, record_files, share_file, temporary_path
from headrace.log.topics import Topic

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

COMPACTED_MIN = 4
"""Fewer small files than this are not worth writing again."""


def compact_files(writer: CatalogWriter) -> int:
    """Puts the small files of months before the newest one together; returns how many there were. The caller holds the lock of
    the archive. A file that cannot be read stays as it is: `headrace archive verify` says what is wrong with it."""
    topic, root = writer.topic, writer.root
    catalog = list_archive(writer.conn, topic.topic, namespace=topic.namespace)
    # The catalog is data: only files that bear the name of their content are read or replaced.
    files = [file for file in catalog if (file.folder, file.file) == (str(root), _name(topic, file))]
    _delete_copies(root, topic, files)
    count = 0
    for members in _small_files(files):
        try:
            count += _compact(writer, members)
        except (ArchiveMismatch, NotFound) as error:
            logger.warning("topic %s: %d archive files are not put together: %s", topic.topic, len(members), error)
    return count


def _small_files(files: Sequence[ArchivedFile]) -> list[list[ArchivedFile]]:
    """Files that belong together, of months that are over: nothing is added to those any more."""
    groups: list[tuple[ArchivedDays, list[ArchivedFile]]] = []
    newest = files[-1].day.replace(day=1) if files else None
    for file in files:
        if newest is None or file.day >= newest:
            break
        if groups and share_file(groups[-1][0], file):
            groups[-1] = (join(groups[-1][0], file), [*groups[-1][1], file])
        else:
            groups.append((file, [file]))
    return [members for _, members in groups if len(members) >= COMPACTED_MIN]


def _name(topic: Topic, days: ArchivedDays) -> str:
    return str(file_name(topic.namespace, topic.topic, days.day, days.content))


def _compact(writer: CatalogWriter, members: Sequence[ArchivedFile]) -> int:
    topic, root = writer.topic, writer.root
    days: ArchivedDays = members[0]
    for member in members[1:]:
        days = join(days, member)
    path = root / _name(topic, days)
    temporary = temporary_path(path)
    try:
        for _ in write_file(temporary, _rows(root, members), Origin.for_topic(writer.conn, topic.topic_id).metadata()):
            pass
        if (content := read_content(temporary)) != days.content:
            raise ArchiveMismatch(f"together they hold {content}; the catalog says {days.content}")
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    record_files(writer, [RecordedFile.from_path(days, path, root)])
    return len(members)


def _rows(root: Path, members: Sequence[ArchivedFile]) -> Iterator[pa.RecordBatch]:
    for member in members:
        range_ = FileRange(str(root / member.file), member.first_position, member.last_position + 1)
        yield from read_archive_file(range_, file_schema().names)


def _delete_copies(root: Path, topic: Topic, files: Sequence[ArchivedFile]) -> None:
    """Deletes what a crash between the record and the deletion left: a file whose rows are all in a file of the catalog."""
    recorded = {file.file for file in files}
    for name, first, last in files_of(root, topic.namespace, topic.topic):
        holder = next((file for file in files if file.first_position <= first and last <= file.last_position), None)
        if (
            name not in recorded
            and holder is not None
            and _is_copy(root / name, FileRange(str(root / holder.file), first, last + 1))
        ):
            delete_replaced(root, topic.namespace, topic.topic, str(root), name)


def _is_copy(path: Path, held: FileRange) -> bool:
    """False for other events at the same positions, which a failover or restore may have orphaned: nobody else has them."""
    import pyarrow as pa

    try:
        content = read_content(path)
        rows = list(read_archive_file(held, file_schema().names))
        copy = list(
            read_archive_file(FileRange(str(path), content.first_position, content.last_position + 1), file_schema().names)
        )
    except (ArchiveMismatch, NotFound):
        return False
    schema = file_schema()
    return bool(pa.Table.from_batches(rows, schema).equals(pa.Table.from_batches(copy, schema)))
