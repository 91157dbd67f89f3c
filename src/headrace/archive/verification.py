"""Verifying: every file of the catalog is read again and compared with what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.archive.catalog import Archived, list_archive
from headrace.archive.parquet import read_content
from headrace.core import ArchiveDiffers
from headrace.db import Connection


@dataclass(frozen=True)
class Verified:
    """A file that was looked at; `problem` is None for one that holds what the catalog says."""

    archived: Archived
    problem: str | None


def verify_archive(
    conn: Connection, topic: str | None = None, *, folder: Path | str | None = None, namespace: str | None = None
) -> Iterator[Verified]:
    """Reads the files of a topic, or of all, one after the other; `folder` is where they are now, if they were moved."""
    for one in list_archive(conn, topic, namespace=namespace):
        yield Verified(one, _problem(one, Path(folder or one.folder) / one.file))


def _problem(one: Archived, path: Path) -> str | None:
    if not path.exists():
        return f"{path} is not there"
    try:
        held = read_content(path)
    except ArchiveDiffers as error:
        return str(error)
    if (held.first_position, held.events, held.checksum) != (one.first_position, one.events, one.checksum):
        return (
            f"{path} holds {held.events} events from {held.first_position} with checksum {held.checksum}; "
            f"the catalog says {one.events} from {one.first_position} with {one.checksum}"
        )
    return None
