"""Source: topics as DataFrames, batch and streaming.

Owns: the options of `spark.read` and `spark.readStream`, offsets, and how a range of positions is read from log and archive.
Promises: a split that is read again gives the same rows; events that retention has dropped are an error, never skipped silently."""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.spark.source.offsets import Range, Split
from headrace.spark.source.options import (
    OPTIONS_METADATA,
    SourceOptions,
    from_offset,
    with_table_options,
    without_table_properties,
)
from headrace.spark.source.range_reader import SHORT_MAX, map_numbers, read_split, split_for_cores

if TYPE_CHECKING:
    from headrace.spark.source.frame_reads import (
        LogRead,
        Piece,
        are_readable,
        find_log_read,
        find_pieces,
        has_one_log,
        narrow_stream,
        plain_batch,
    )
    from headrace.spark.source.readers import EventReader, EventStreamReader, plan_splits, with_payload_type

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
    "are_readable",
    "find_log_read",
    "find_pieces",
    "from_offset",
    "has_one_log",
    "map_numbers",
    "narrow_stream",
    "plain_batch",
    "plan_splits",
    "read_split",
    "split_for_cores",
    "with_payload_type",
    "with_table_options",
    "without_table_properties",
]

_MODULES = {
    "readers": ("EventReader", "EventStreamReader", "plan_splits", "with_payload_type"),
    "frame_reads": (
        *("LogRead", "Piece", "are_readable", "find_log_read", "find_pieces", "has_one_log", "narrow_stream", "plain_batch"),
    ),
}
"""They need pyspark and pyarrow, and are imported when one of their names is used."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
