"""Names of archive files, and the deletion of files that the archiver itself wrote.

The catalog is data: whoever administers a namespace can write to it. So it only proposes a file; the file is deleted if it lies in
the folder of this archive, bears one of our names, is reached without a symbolic link, and holds what its name says."""

from __future__ import annotations

import logging
import os
import re
import stat
from datetime import date
from pathlib import Path

from headrace.core import ArchiveMismatch
from headrace.log.archive.parquet import Content, read_content

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{12,19})-(\d{12,19})-([0-9a-f]{8})\.parquet")
_MONTH = re.compile(r"month=\d{4}-\d{2}")


def file_name(namespace: str, topic: str, day: date, content: Content) -> Path:
    """The path of a file within the archive folder."""
    # With the checksum: shards that share a folder have other events at the same positions.
    name = f"{content.first_position:012}-{content.last_position:012}-{_digest(content)}.parquet"
    return Path(f"namespace={namespace}", f"topic={topic}", f"month={day:%Y-%m}", name)


def files_of(root: Path, namespace: str, topic: str) -> list[tuple[str, int, int]]:
    """The files in a topic's folder, by their names: path within the archive folder, first and last position."""
    files = []
    for path in sorted((root / f"namespace={namespace}" / f"topic={topic}").glob("month=*/*.parquet")):
        name = _NAME.fullmatch(path.name)
        if name and _MONTH.fullmatch(path.parent.name):
            files.append((str(path.relative_to(root)), int(name[1]), int(name[2])))
    return files


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
