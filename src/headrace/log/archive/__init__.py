"""Archive: closed time partitions of the log as Parquet files. Reads archive and log as one, replays them, and erases keys in both.

Owns: the files and their catalog, headrace.archive. Promises: a file enters the catalog only after it was read back and is equal
to the log, row by row; what is in the catalog may be dropped from the log; archive and log together have every position once."""

from headrace.log.archive.catalog import (
    ArchivedFile,
    FileVerification,
    find_file_ranges,
    find_position_at,
    list_archive,
    verify_archive,
)
from headrace.log.archive.erasing import (
    Erasure,
    VacuumResult,
    erase_key,
    erase_key_in_transaction,
    finish_erasures,
    list_erasures,
)
from headrace.log.archive.iceberg import open_iceberg_catalog
from headrace.log.archive.parquet import file_schema, plain_column
from headrace.log.archive.reading import FileRange, RowFilter, StoredRange, literal_query, read_archive_file
from headrace.log.archive.stored_events import (
    REPLAY_HEADER,
    ReplayProgress,
    find_stored_range,
    read_stored_events,
    read_stored_events_at,
    replay,
)
from headrace.log.archive.writing import (
    ArchiveProgress,
    ClosedPartition,
    archive_topic,
    keep_until_archived,
    list_closed_partitions,
)

__all__ = [
    "REPLAY_HEADER",
    "ArchiveProgress",
    "ArchivedFile",
    "ClosedPartition",
    "Erasure",
    "FileRange",
    "FileVerification",
    "ReplayProgress",
    "RowFilter",
    "StoredRange",
    "VacuumResult",
    "archive_topic",
    "erase_key",
    "erase_key_in_transaction",
    "file_schema",
    "find_file_ranges",
    "find_position_at",
    "find_stored_range",
    "finish_erasures",
    "keep_until_archived",
    "list_archive",
    "list_closed_partitions",
    "list_erasures",
    "literal_query",
    "open_iceberg_catalog",
    "plain_column",
    "read_archive_file",
    "read_stored_events",
    "read_stored_events_at",
    "replay",
    "verify_archive",
]
