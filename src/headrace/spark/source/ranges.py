"""A range of positions of one log as a frame, with no more columns than are read.

Promises: the same rows however they come. A short range is read by the driver itself, which saves a task in a Python
worker; a long one by tasks, in as many splits as the cluster has cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.correlate.symbols import CorrelatorSpec, classifier
from headrace.spark.credentials import Access
from headrace.spark.match.matching import COLUMN_OF, planned
from headrace.spark.match.plan import RuleSpec
from headrace.spark.schema import EVENT_COLUMNS, event_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.source.offsets import Span
    from headrace.spark.source.options import SourceOptions

SHORT_MAX = 20_000
"""Positions that the driver reads itself."""
PLACE = ("offset", "appended_at")


@dataclass(frozen=True, kw_only=True)
class Range:
    """The positions after `after`, up to and including `upto`, of one topic on one shard."""

    shard: str
    topic: str
    topic_id: int
    after: int
    upto: int

    def __len__(self) -> int:
        return max(0, self.upto - self.after)


def columns_read(rules: Sequence[RuleSpec], correlators: Sequence[CorrelatorSpec]) -> tuple[str, ...]:
    """The columns that these rules and correlators have to see of an event, with its place and time."""
    roots = set(planned(tuple(rules)).reads) if rules else set()
    for spec in correlators:
        roots |= classifier(spec).roots
    wanted = {"type", *PLACE, *(COLUMN_OF.get(root, root) for root in roots)}
    return tuple(column.name for column in EVENT_COLUMNS if column.name in wanted)


def read_range(session: SparkSession, access: Access, span: Range, columns: Sequence[str]) -> DataFrame:
    """The events of a range. Columns of events that were not asked for are there, and null: nothing may read them."""
    from headrace.spark.source.options import SourceOptions

    given = {**access.options(), "subscribe": span.topic, "columns": ",".join(columns)}
    read = _read_here if len(span) <= SHORT_MAX else _read_there
    frame = read(session, SourceOptions.of(given), span, columns)
    left_out = [column for column in EVENT_COLUMNS if column.usual and column.name not in columns]
    return frame.selectExpr("*", *(f"cast(null as {column.type}) as `{column.name}`" for column in left_out))


def _read_here(session: SparkSession, options: SourceOptions, span: Range, columns: Sequence[str]) -> DataFrame:
    """By the driver."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.spark.source.arrow_reader import read_span

    schema = event_schema(columns)
    batches = list(read_span(options, schema, _span(span)))
    return session.createDataFrame(pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC")), schema)


def _read_there(session: SparkSession, options: SourceOptions, span: Range, columns: Sequence[str]) -> DataFrame:
    """By the source's own readers, one split per core. Here the ranges are known, so nothing has to be planned: Spark would start
    two Python processes for that, batch after batch."""
    from headrace.spark.source.offsets import split

    schema = event_schema(columns)
    pieces = split([_span(span)], partitions_min=_cores(session))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.source.arrow_reader import read_span

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_span(options, schema, pieces[number])

    return session.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, schema)


def _span(span: Range) -> Span:
    from headrace.spark.source.offsets import Span

    return Span(span.shard, span.topic, span.topic_id, span.after + 1, span.upto + 1)


def _cores(session: SparkSession) -> int:
    # Through Spark Connect there is no context to ask.
    context = getattr(session, "_sc", None)
    return context.defaultParallelism if context is not None else 2
