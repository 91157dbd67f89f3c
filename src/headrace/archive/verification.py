"""Verification: reads every file of the catalog again and compares it with what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.archive.catalog import ArchivedFile, list_archive
from headrace.archive.parquet import Content, read_content
from headrace.core import ArchiveMismatch
from headrace.db import Connection


@dataclass(frozen=True)
class FileVerification:
    """The result for one file; `problem` is None if the file holds what the catalog says."""

    archived: ArchivedFile
    problem: str | None


def verify_archive(
    conn: Connection, topic: str | None = None, *, folder: Path | str | None = None, namespace: str | None = None
) -> Iterator[FileVerification]:
    """Reads the files of one topic, or of all, one by one. `folder` is where they are now, if they were moved."""
    for archived in list_archive(conn, topic, namespace=namespace):
        yield FileVerification(archived, _problem(archived, Path(folder or archived.folder) / archived.file))


def _problem(archived: ArchivedFile, path: Path) -> str | None:
    if not path.exists():
        return f"{path} does not exist"
    try:
        content = read_content(path)
    except ArchiveMismatch as error:
        return str(error)
    expected = Content(archived.first_position, archived.last_position, archived.events, archived.checksum)
    return None if content == expected else f"{path} holds {content}; the catalog says {expected}"
