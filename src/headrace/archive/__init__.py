"""Archive: closed time partitions of the log as Parquet files, read back with the log as one, and played again.

Owns: the files and their catalog, headrace.archive. Promises: a file is in the catalog only after it was read back and found
equal to the log, row by row; what is in the catalog may leave the log; archive and log together have every position once."""

from headrace.archive.catalog import Archived, files_of, files_statement, list_archive
from headrace.archive.reading import FileRange, RowFilter, first_at, read_file
from headrace.archive.replaying import REPLAY_HEADER, Replayed, replay
from headrace.archive.stored_events import StoredEvent, StoredRange, read_positions, read_stored_events, stored_range
from headrace.archive.verification import Verified, verify_archive
from headrace.archive.writing import Closed, Progress, archive, closed_partitions, keep_until_archived

__all__ = [
    "REPLAY_HEADER",
    "Archived",
    "Closed",
    "FileRange",
    "Progress",
    "Replayed",
    "RowFilter",
    "StoredEvent",
    "StoredRange",
    "Verified",
    "archive",
    "closed_partitions",
    "files_of",
    "files_statement",
    "first_at",
    "keep_until_archived",
    "list_archive",
    "read_file",
    "read_positions",
    "read_stored_events",
    "replay",
    "stored_range",
    "verify_archive",
]
