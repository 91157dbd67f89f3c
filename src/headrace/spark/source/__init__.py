"""Source: topics as DataFrames, batch and streaming.

Owns: the options of `spark.read` and `spark.readStream`, offsets, and how a range of positions is read from log and archive.
Promises: a split that is read again gives the same rows; events that retention has dropped are an error, never skipped silently."""

from typing import TYPE_CHECKING

from headrace.lazy_names import lazy_names
from headrace.spark.source.offsets import Range as Range, Split as Split
from headrace.spark.source.options import (
    OPTIONS_METADATA as OPTIONS_METADATA,
    SourceOptions as SourceOptions,
    from_offset as from_offset,
    with_table_options as with_table_options,
    without_table_properties as without_table_properties,
)
from headrace.spark.source.range_reader import (
    SHORT_MAX as SHORT_MAX,
    map_numbers as map_numbers,
    read_split as read_split,
    split_for_cores as split_for_cores,
)

if TYPE_CHECKING:
    from headrace.spark.source.frame_reads import (
        LogRead as LogRead,
        Piece as Piece,
        are_readable as are_readable,
        find_log_read as find_log_read,
        find_pieces as find_pieces,
        has_one_log as has_one_log,
        narrow_stream as narrow_stream,
        plain_batch as plain_batch,
    )
    from headrace.spark.source.readers import (
        EventReader as EventReader,
        EventStreamReader as EventStreamReader,
        plan_splits as plan_splits,
        with_payload_type as with_payload_type,
    )
else:
    # These need pyspark and pyarrow.
    __getattr__ = lazy_names(__name__, "readers", "frame_reads")
