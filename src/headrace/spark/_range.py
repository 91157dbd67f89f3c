"""A range of positions of one log as a frame, with no more columns than are read.

Promises: the same rows however they come. A short range is read by the driver itself, which saves planning and a task in a
Python worker (about 100 ms); a long one by the source, in as many splits as the cluster has cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core import encode
from headrace.spark._correlate_symbols import CorrelatorSpec, classifier
from headrace.spark._credentials import Access
from headrace.spark._match import COLUMN_OF, planned
from headrace.spark._match_plan import RuleSpec
from headrace.spark._schema import EVENT_COLUMNS, event_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
    namespace: str | None = None

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
    from pyspark.sql import functions

    given = {**access.options(), "subscribe": span.topic, "columns": ",".join(columns)}
    if span.namespace is not None:
        given["namespace"] = span.namespace
    if len(span) <= SHORT_MAX:
        frame = session.createDataFrame(_read_here(given, span, columns), event_schema(columns))
    else:
        first, last = ({span.shard: {span.topic: position + 1}} for position in (span.after, span.upto))
        given |= {"startingOffsets": encode(first), "endingOffsets": encode(last)}
        given["minPartitions"] = str(_cores(session))
        frame = session.read.format("headrace").options(**given).load()
    left_out = [column for column in EVENT_COLUMNS if column.usual and column.name not in columns]
    return frame.select("*", *(functions.lit(None).cast(column.type).alias(column.name) for column in left_out))


def _read_here(given: dict[str, str], span: Range, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.spark._offsets import Span
    from headrace.spark._reader_arrow import read_span
    from headrace.spark._source_options import SourceOptions

    schema = event_schema(columns)
    piece = Span(span.shard, span.topic, span.topic_id, span.after + 1, span.upto + 1)
    batches = list(read_span(SourceOptions.of(given), schema, piece))
    return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))


def _cores(session: SparkSession) -> int:
    # Through Spark Connect there is no context to ask.
    context = getattr(session, "_sc", None)
    return context.defaultParallelism if context is not None else 2
