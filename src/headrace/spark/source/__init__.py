"""Source: topics as DataFrames, batch and streaming.

Owns: the options of `spark.read` and `spark.readStream`, offsets, and how a range of positions is read from log and archive.
Promises: a split that is read again gives the same rows; events that retention has dropped are an error, never skipped silently."""

from typing import TYPE_CHECKING

from headrace.spark.source.arrow_reader import read_split
from headrace.spark.source.bounds import from_offset
from headrace.spark.source.frames import SHORT_MAX, map_numbers, read_range, split_for_cores
from headrace.spark.source.offsets import Range, Split
from headrace.spark.source.options import OPTIONS_METADATA, SourceOptions, with_table_options, without_table_properties
from headrace.spark.source.reads import LogRead, find_log_read, narrow_stream
from headrace.spark.source.typed_payloads import with_payload_type

if TYPE_CHECKING:
    from headrace.spark.source.pieces import Piece, Unfit, are_readable, find_pieces, has_one_log, plain_batch
    from headrace.spark.source.readers import EventReader, EventStreamReader

__all__ = [
    "OPTIONS_METADATA",
    "SHORT_MAX",
    "EventReader",
    "EventStreamReader",
    "LogRead",
    "Piece",
    "Range",
    "SourceOptions",
    "Split",
    "Unfit",
    "are_readable",
    "check_read",
    "find_log_read",
    "find_pieces",
    "from_offset",
    "has_one_log",
    "map_numbers",
    "narrow_stream",
    "plain_batch",
    "plan_splits",
    "read_range",
    "read_split",
    "split_for_cores",
    "with_payload_type",
    "with_table_options",
    "without_table_properties",
]


def check_read(options: SourceOptions) -> None:
    """Raises what planning a batch with these options would raise: of topics, addresses, rights, positions and columns."""
    plan_splits(options)


def plan_splits(options: SourceOptions) -> list[Split]:
    """The tasks of a batch with these options. Raises what is wrong with topics, addresses, rights, positions and columns."""
    from headrace.spark.schema import event_schema
    from headrace.spark.source.readers import EventReader

    schema = event_schema(options.columns, extracted=[extract.name for extract in options.extracts])
    return [part.value for part in EventReader(options, schema).partitions() if part.value is not None]


def __getattr__(name: str) -> object:
    # These need pyspark and pyarrow, which are imported only when Spark is used.
    if name in ("EventReader", "EventStreamReader"):
        from headrace.spark.source import readers

        return getattr(readers, name)
    if name in ("Piece", "Unfit", "are_readable", "find_pieces", "has_one_log", "plain_batch"):
        from headrace.spark.source import pieces

        return getattr(pieces, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
