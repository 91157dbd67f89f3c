"""Spark's jobs: their names in its UI, the progress that it reports of streams, and the errors that come back through it.

Spark's report of a micro-batch has the rows, their rate, the offset after them and the newest offset. A Python source cannot add
figures of its own in PySpark 4.3, so the lag is computed from both offsets. What fails in one of Spark's own processes reaches the caller
as an exception of Spark: its text is a traceback, and our message is somewhere in it. Promises: the caller of our own functions gets our
error, with our message as its first line; any other error passes as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import headrace.core
from headrace.core import HeadraceError, Invalid
from headrace.observe.reports import table_html
from headrace.spark.source import from_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class LogProgress:
    """How far a stream is in one log: the last position that it has read, and the last one of the log."""

    shard: str
    topic: str
    position: int
    last_position: int

    @property
    def lag(self) -> int:
        """Events that the stream has not read yet."""
        return max(0, self.last_position - self.position)


@dataclass(frozen=True)
class StreamProgress:
    """A micro-batch of a stream: rows and rows per second over all its topics, and how far it is in each log."""

    query: str
    batch: int
    at: datetime
    rows: int
    rows_per_s: float
    logs: tuple[LogProgress, ...]

    @property
    def lag(self) -> int:
        """Events of all logs that the stream has not read yet."""
        return sum(log.lag for log in self.logs)

    def _repr_html_(self) -> str:
        rows = [(log.topic, log.shard, log.position, log.last_position, log.lag) for log in self.logs]
        caption = f"{self.query}, batch {self.batch}: {self.rows:,} rows, {self.rows_per_s:,.0f} per second"
        return table_html(("topic", "shard", "position", "last position", "lag"), rows, caption=caption)


def stream_progress(query: StreamingQuery | StreamingQueryProgress) -> StreamProgress | None:
    """How far a stream is that reads topics: a running query, or one of its reports, for example in a listener. None before its first
    micro-batch, and for a stream that reads no topic."""
    report = query if isinstance(query, Mapping) else query.lastProgress
    if report is None:
        return None
    sources = [source for source in report.sources if _is_ours(source)]
    if not sources:
        return None
    return StreamProgress(
        query=report.name or str(report.id),
        batch=report.batchId,
        at=datetime.fromisoformat(report.timestamp),
        rows=sum(source.numInputRows for source in sources),
        rows_per_s=sum(source.processedRowsPerSecond or 0.0 for source in sources),
        logs=tuple(log for source in sources for log in _logs(source)),
    )


def _is_ours(source: SourceProgress) -> bool:
    end = _offset(source.endOffset)
    # The name is that of any source in Python; ours has offsets of this form.
    return "headrace" in source.description or ("next" in end and "epoch" in end)


def _offset(text: object) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    value = json.loads(text) if isinstance(text, str) and text.startswith("{") else text
    return value if isinstance(value, Mapping) else {}


def _logs(source: SourceProgress) -> Iterator[LogProgress]:
    read = from_offset(_offset(source.endOffset).get("next", {}))
    newest = from_offset(_offset(source.latestOffset).get("next", {}))
    for (shard, topic), following in sorted(read.items()):
        yield LogProgress(shard, topic, following - 1, max(newest.get((shard, topic), following), following) - 1)


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Names the jobs of the block in Spark's UI, unless the caller has named them."""
    # Through Spark Connect there is no context.
    context = getattr(spark, "_sc", None)
    if context is None or context.getLocalProperty("spark.job.description") is not None:
        yield
        return
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", None)


_ERROR = re.compile(r"^\s*(?:\S*: )?headrace(?:\.\w+)+\.(?P<name>\w+): (?P<message>.+)$", re.MULTILINE)
_INVALID = ("ConditionError", "PatternError", "TimerFlood")
"""Errors of the languages, which know more than their message."""


def find_headrace_error(error: BaseException) -> HeadraceError | None:
    """Our error in the text of an exception of Spark; None if there is none."""
    found = list(_ERROR.finditer(str(error)))
    if not found:
        return None
    # The last one: before it there may be those that it was raised from.
    name, message = found[-1]["name"], found[-1]["message"].strip()
    class_ = getattr(headrace.core, name, Invalid if name in _INVALID else HeadraceError)
    return class_(message) if isinstance(class_, type) and issubclass(class_, HeadraceError) else HeadraceError(message)


@contextmanager
def map_spark_errors() -> Iterator[None]:
    """Raises our own error instead of Spark's exception that carries it."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        ours = find_headrace_error(error)
        if ours is None:
            raise
        raise ours from None
