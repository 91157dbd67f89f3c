"""A range of positions of one log as a frame with only the columns that are needed.

Promises: the same rows whoever reads them. The driver reads a short range itself, which saves a task in a Python worker; tasks
read a long one, in as many splits as the cluster has cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.spark.credentials import Access
from headrace.spark.schema import EVENT_COLUMNS, event_schema
from headrace.spark.source.arrow_reader import read_batches, read_split
from headrace.spark.source.offsets import Range, Split, split_ranges
from headrace.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SHORT_MAX = 20_000
"""Positions that the driver reads itself."""


def read_range(session: SparkSession, access: Access, range_: Range, columns: Sequence[str]) -> DataFrame:
    """The events of a range. The other columns of events exist but are null: nothing may read them."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    options = SourceOptions.of({**access.options(), "subscribe": range_.topic, "columns": ",".join(columns)})
    schema = event_schema(columns)
    if len(range_) <= SHORT_MAX:
        batches = list(read_batches(options, schema, range_))
        frame = session.createDataFrame(pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC")), schema)
    else:
        # The range is known, so nothing has to be planned, for which Spark would start two Python processes in every batch.
        parts = split_for_cores(session, range_)
        frame = map_numbers(session, len(parts), lambda number: read_split(options, schema, parts[number]), schema)
    missing = [column for column in EVENT_COLUMNS if column.usual and column.name not in columns]
    return frame.selectExpr("*", *(f"cast(null as {column.type}) as `{column.name}`" for column in missing))


def split_for_cores(session: SparkSession, range_: Range) -> list[Split]:
    """The parts of a range, one per core of the cluster."""
    # Through Spark Connect there is no context to ask for the number of cores.
    context = getattr(session, "_sc", None)
    return split_ranges([range_], partitions_min=context.defaultParallelism if context is not None else 2)


def map_numbers(
    session: SparkSession, count: int, read: Callable[[int], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """The rows that tasks read by themselves: one task per number below `count`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    return session.range(0, count, 1, count).mapInArrow(run, schema)
