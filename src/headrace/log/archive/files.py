"""Names of archive files, deletion of files that the archiver itself wrote, and search for orphaned files after a failover or restore.

The catalog is data: whoever administers a namespace can write to it. So it only proposes a file; the file is deleted if it lies in
the folder of this archive, bears one of our names, is reached without a symbolic link, and holds what its name says.

After a failover or a restore the catalog goes back with the log, and the files do not. A file says which log it was written from, so
that files of other shards in the same folder are not taken for leftovers."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from headrace.core import ArchiveMismatch, LogWentBack
from headrace.db import Connection, fetch_value
from headrace.log.archive.parquet import Content, read_content

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{12,19})-(\d{12,19})-([0-9a-f]{8})\.parquet")
_MONTH = re.compile(r"month=\d{4}-\d{2}")
_LOG, _EPOCH = b"headrace.log", b"headrace.epoch"


def file_name(namespace: str, topic: str, day: date, content: Content) -> Path:
    """The path of a file within the archive folder."""
    # The name has the checksum: shards that share a folder have other events at the same positions.
    name = f"{content.first_position:012}-{content.last_position:012}-{_digest(content)}.parquet"
    return Path(f"namespace={namespace}", f"topic={topic}", f"month={day:%Y-%m}", name)


def files_of(root: Path, namespace: str, topic: str) -> list[tuple[str, int, int]]:
    """The files in a topic's folder, by their names: path within the archive folder, first and last position."""
    folder = root / f"namespace={namespace}" / f"topic={topic}"
    return [(str(path.relative_to(root)), first, last) for path, first, last in _files_in(folder)]


def _files_in(folder: Path) -> Iterator[tuple[Path, int, int]]:
    """The archive files in a topic's folder, with the first and the last position by their names."""
    for path in sorted(folder.glob("month=*/*.parquet")):
        name = _NAME.fullmatch(path.name)
        if name and _MONTH.fullmatch(path.parent.name):
            yield path, int(name[1]), int(name[2])


def delete_replaced(root: Path, namespace: str, topic: str, folder: str, file: str) -> bool:
    """Deletes a file that the catalog no longer names, if it is provably ours; otherwise logs why it stays."""
    reason = _reason_to_keep(root, namespace, topic, folder, file)
    if reason is not None:
        logger.warning("topic %s: the replaced archive file %r in %r is kept: %s", topic, file, folder, reason)
    return reason is None


def _reason_to_keep(root: Path, namespace: str, topic: str, folder: str, file: str) -> str | None:
    parts = file.split("/")
    name = _NAME.fullmatch(parts[-1])
    if folder != str(root):
        return "it is not in the folder of this archive"
    if len(parts) != 4 or parts[:2] != [f"namespace={namespace}", f"topic={topic}"] or not _MONTH.fullmatch(parts[2]) or not name:
        return "its name is not one of an archive file of this topic"
    handles: list[int] = []
    try:
        handles.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
        for part in parts[:-1]:
            # Relative to the open folder: nobody can put a symbolic link into the path between the check and the deletion.
            handles.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handles[-1]))
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handles[-1])
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return "it is not a regular file"
            content = read_content(opened)
        if (content.first_position, content.last_position, _digest(content)) != (int(name[1]), int(name[2]), name[3]):
            return "it does not hold what its name says"
        os.unlink(parts[-1], dir_fd=handles[-1])
    except FileNotFoundError:
        return None
    except (OSError, ArchiveMismatch) as error:
        return str(error)
    finally:
        for handle in handles:
            os.close(handle)
    return None


def _digest(content: Content) -> str:
    return f"{int(content.checksum) % 16**8:08x}"


@dataclass(frozen=True)
class Origin:
    """Which log a file is written from. A promoted standby has the same logs, in another epoch."""

    log: str
    epoch: str

    @classmethod
    def for_topic(cls, conn: Connection, topic_id: int) -> Origin:
        epoch = str(fetch_value(conn, "select headrace.log_epoch()"))
        database = fetch_value(conn, "select d.oid from pg_database d where d.datname = current_database()")
        return cls(f"{epoch.partition(':')[0]}/{database}/{topic_id}", epoch)

    def metadata(self) -> dict[bytes, bytes]:
        """For the file's own metadata."""
        return {_LOG: self.log.encode(), _EPOCH: self.epoch.encode()}


def reject_leftovers(folder: Path, path: Path, first: int, last: int, origin: Origin, recorded: Collection[Path]) -> None:
    """Raises LogWentBack if a file below a topic's folder has some of these positions from the same log with other events.

    `path` is the file about to be written, whose name holds a checksum of its content; `recorded` are the catalog's files."""
    overlapping = {file for file, first_in, last_in in _files_in(folder) if first_in <= last and last_in >= first}
    leftovers = sorted(overlapping - {path} - set(recorded))
    epochs = {leftover: epoch for leftover in leftovers if (epoch := _epoch_of(leftover, origin)) is not None}
    if epochs:
        names = ", ".join(f"{leftover} (epoch {epoch})" for leftover, epoch in epochs.items())
        raise LogWentBack(
            f"positions {first} to {last} are in files that the catalog does not name and whose events differ from the log: {names}. "
            f"The log went back since they were written (epoch {origin.epoch} now): a failover or a restore lost events, which only "
            "these files have. Nothing was recorded. Move them out of the folder, publish again what you need of them, and archive again"
        )


def _epoch_of(path: Path, origin: Origin) -> str | None:
    """The epoch in which a file was written; None if it is of another log, or of a release that did not say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return metadata.get(_EPOCH, b"").decode() if metadata.get(_LOG) == origin.log.encode() else None
