"""read: topics as a DataFrame, checked before Spark plans anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.core import Invalid
from headrace.spark.sessions import register, session
from headrace.spark.source import SourceOptions, check_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    topics: str | Sequence[str],
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    **options: object,
) -> DataFrame:
    """The events of topics, from archive and log, as a DataFrame.

    PostgreSQL evaluates `where`, a condition of the rules' language, and sends only `columns`. Other options are those of the
    format `headrace`, for example `secret` or `startingOffsets`. Topics, addresses, rights and positions are checked here, so that
    their errors come before Spark runs. Raises UnknownTopic, NotFound, Forbidden, DatabaseUnavailable, PositionOutOfRange,
    ConditionError, Invalid."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise Invalid("give at least one topic")
    values = {name: str(value) for name, value in options.items() if value is not None}
    values["subscribe"] = msgspec.json.encode(names).decode()
    if where is not None:
        values["where"] = where
    if columns is not None:
        values["columns"] = msgspec.json.encode(list(columns)).decode()
    running = register(spark) if spark is not None else session()
    # Through Spark Connect the client may not reach the database; the server checks when it plans.
    if hasattr(running, "_jsc"):
        check_read(SourceOptions.of(values))
    return running.read.format("headrace").options(**values).load()
