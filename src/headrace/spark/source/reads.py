"""What the driver knows of a frame by its plan: that it is a read of the format `headrace`, and of which logs.

Spark's Python sources neither prune columns nor say what they read. Where a frame is nothing but such a read, the read can be
replaced by a narrower one that ends where the log ends now. Through Spark Connect there is no plan, and nothing is known."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.spark.source.bounds import Positions, to_offset
from headrace.spark.source.options import SourceOptions, with_table_options

if TYPE_CHECKING:
    from datetime import datetime

    from py4j.java_gateway import JavaObject  # There may be none with Spark Connect.
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class LogRead:
    """A read of logs in the plan of a frame. `is_whole`: the frame is this read, with nothing between."""

    option_values: Mapping[str, str]
    schema: StructType
    is_whole: bool

    @cached_property
    def options(self) -> SourceOptions:
        return SourceOptions.of(self.option_values)

    @property
    def is_one_log(self) -> bool:
        """One topic on one shard, whatever is done with its events later."""
        return len(self.options.topics) == 1 and len(self.options.access.targets()) == 1

    def ends(self) -> tuple[Positions, dict[tuple[str, str], datetime]]:
        """Where the read ends on each log now, and the time of the last event there; logs without events are left out."""
        from headrace.spark.source.planner import Planner

        planner = Planner(self.options)
        try:
            logs = planner.logs()
            end = planner.positions(logs, self.options.ending)
            return end, planner.last_times(logs, end)
        finally:
            planner.close()

    def narrow(self, df: DataFrame, columns: Collection[str], end: Positions) -> DataFrame:
        """The same read with only these columns, up to fixed positions."""
        from pyspark.sql.types import StructType

        schema = StructType([field for field in self.schema.fields if field.name in columns])
        values = {name: value for name, value in self.option_values.items() if not name.lower().startswith("ending")}
        values["endingOffsets"] = json.dumps(to_offset(end))
        values.pop("columns", None)
        return df.sparkSession.read.format("headrace").schema(schema).options(**values).load()


def find_log_read(df: DataFrame) -> LogRead | None:
    """The read that all events of a frame come from; None if there is none, or several, or if it cannot be known."""
    java = getattr(df, "_jdf", None)
    if java is None:
        return None
    plan = java.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    if leaves.size() != 1 or not is_log_relation(leaves.apply(0)) or is_cached(java):
        return None
    from pyspark.sql.types import StructType

    leaf = leaves.apply(0)
    schema = StructType.fromJson(json.loads(leaf.schema().json()))
    options = with_table_options(dict(leaf.options().asCaseSensitiveMap()), schema)
    return LogRead(options, schema, is_log_relation(plan))


def narrow_stream(df: DataFrame, columns: Collection[str]) -> DataFrame:
    """A stream that is nothing but a read of the format `headrace`, with only these columns; any other frame as it is."""
    java = getattr(df, "_jdf", None)
    plan = None if java is None else java.queryExecution().analyzed()
    if plan is None or class_name(plan) != "StreamingRelationV2" or plan.sourceName() != "headrace":
        return df
    from pyspark.sql.types import StructType

    schema = StructType([field for field in df.schema.fields if field.name in columns])
    values = {name: value for name, value in plan.extraOptions().asCaseSensitiveMap().items() if name.lower() != "columns"}
    return df.sparkSession.readStream.format("headrace").schema(schema).options(**values).load()


def is_log_relation(plan: JavaObject) -> bool:
    return (
        class_name(plan) == "DataSourceV2Relation"
        and class_name(plan.table()) == "PythonTable"
        and plan.table().name() == "headrace"
    )


def is_cached(java: JavaObject) -> bool:
    """A cached frame stays what it was, so that it must not be read again."""
    level = java.storageLevel()
    return bool(level.useMemory() or level.useDisk())


def class_name(java: JavaObject) -> str:
    return str(java.getClass().getSimpleName())
