"""Archive: closed time partitions of the log as Parquet files, read back with the log as one, and played again.

Owns: the files and their catalog, headrace.archive. Promises: a file is in the catalog only after it was read back and found
equal to the log, row by row; what is in the catalog may leave the log; archive and log together have every position once."""

from headrace.archive._archive import Closed, Progress, archive, closed_partitions, keep_until_archived
from headrace.archive._catalog import Archived, files_of, files_statement, list_archive
from headrace.archive._past import Past, PastRange, past_range, read_past, read_positions
from headrace.archive._read import FileRange, RowFilter, first_at, read_file
from headrace.archive._replay import REPLAY_HEADER, Replayed, replay
from headrace.archive._verify import Verified, verify_archive

__all__ = [
    "REPLAY_HEADER",
    "Archived",
    "Closed",
    "FileRange",
    "Past",
    "PastRange",
    "Progress",
    "Replayed",
    "RowFilter",
    "Verified",
    "archive",
    "closed_partitions",
    "files_of",
    "files_statement",
    "first_at",
    "keep_until_archived",
    "list_archive",
    "past_range",
    "read_file",
    "read_past",
    "read_positions",
    "replay",
    "verify_archive",
]
