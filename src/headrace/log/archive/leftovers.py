"""Files of the archive that a log left behind which went back, by a failover or a restore.

The catalog goes back with the log, the files do not. A file says which log it was written from, so that files of other shards in
the same folder are not taken for leftovers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core import LogWentBack
from headrace.db import Connection, fetch_value

_LOG, _EPOCH = b"headrace.log", b"headrace.epoch"
_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]{8}\.parquet")


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
    leftovers = sorted(set(_files_with(folder, first, last)) - {path} - set(recorded))
    epochs = {leftover: epoch for leftover in leftovers if (epoch := _epoch_of(leftover, origin)) is not None}
    if epochs:
        names = ", ".join(f"{leftover} (epoch {epoch})" for leftover, epoch in epochs.items())
        raise LogWentBack(
            f"positions {first} to {last} are in files that the catalog does not name and whose events differ from the log: {names}. "
            f"The log went back since they were written (epoch {origin.epoch} now): a failover or a restore lost events, which only "
            "these files have. Nothing was recorded. Move them out of the folder, publish again what you need of them, and archive again"
        )


def _files_with(folder: Path, first: int, last: int) -> Iterator[Path]:
    for path in folder.glob("month=*/*.parquet"):
        name = _NAME.fullmatch(path.name)
        if name and int(name[1]) <= last and int(name[2]) >= first:
            yield path


def _epoch_of(path: Path, origin: Origin) -> str | None:
    """The epoch in which a file was written; None if it is of another log, or of a release that did not say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return metadata.get(_EPOCH, b"").decode() if metadata.get(_LOG) == origin.log.encode() else None
