"""Archive: closed time partitions of the log as Parquet files. Reads archive and log as one, replays them, and erases keys in both.

Owns: the files and their catalog, headrace.archive. Promises: a file enters the catalog only after it was read back and is equal
to the log, row by row; what is in the catalog may be dropped from the log; archive and log together have every position once."""

from headrace.log.archive.catalog import (
    ArchivedFile as ArchivedFile,
    FileVerification as FileVerification,
    find_file_ranges as find_file_ranges,
    find_position_at as find_position_at,
    list_archive as list_archive,
    verify_archive as verify_archive,
)
from headrace.log.archive.erasing import (
    Erasure as Erasure,
    VacuumResult as VacuumResult,
    erase_key as erase_key,
    erase_key_in_transaction as erase_key_in_transaction,
    finish_erasures as finish_erasures,
    list_erasures as list_erasures,
)
from headrace.log.archive.iceberg import open_iceberg_catalog as open_iceberg_catalog
from headrace.log.archive.parquet import file_schema as file_schema, plain_column as plain_column
from headrace.log.archive.reading import (
    FileRange as FileRange,
    RowFilter as RowFilter,
    StoredRange as StoredRange,
    literal_query as literal_query,
    read_archive_file as read_archive_file,
)
from headrace.log.archive.stored_events import (
    REPLAY_HEADER as REPLAY_HEADER,
    ReplayProgress as ReplayProgress,
    find_stored_range as find_stored_range,
    read_stored_events as read_stored_events,
    read_stored_events_at as read_stored_events_at,
    replay as replay,
)
from headrace.log.archive.writing import (
    ArchiveProgress as ArchiveProgress,
    ClosedPartition as ClosedPartition,
    archive_topic as archive_topic,
    keep_until_archived as keep_until_archived,
    list_closed_partitions as list_closed_partitions,
)
