"""match: events → the rules that fire on them, one pass over the fields, batch and streaming alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.lang.condition import NUMERIC_SCALE
from headrace.spark.match.plan import PREFIX, Entry, MatchPlan, RuleSpec, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

HIT_COLUMNS = (
    "topic", "partition", "offset", "event_id", "type", "key", "payload", "headers", "timestamp", "shard", "appended_at",
)  # fmt: skip
"""What a hit carries of its event, after rule, version and action; of a frame that lacks one of them, the others."""
_NEEDED = ("type", "payload", "topic", "offset")
# `emitted_at` of conditions is the column `timestamp` of frames, as in Kafka's source.
COLUMN_OF = {"object": "payload", "emitted_at": "timestamp"}


def match(df: DataFrame, rules: Sequence[RuleSpec]) -> DataFrame:
    """One row per event and rule that fires on it: rule, version, action, and the event's own columns.

    An event that no rule fires on has no row; unknown is not true. Fields are taken out of the payload once. Raises Invalid
    where the frame lacks a column that a condition reads, ConditionError for a condition that does not parse."""
    from pyspark.sql import functions

    if not rules:
        raise Invalid("match was given no rules; give at least one")
    made = planned(tuple(rules))
    columns = df.columns
    check_columns(columns, _NEEDED, made.reads)
    kept = [column for column in HIT_COLUMNS if column in columns]
    table = df.sparkSession.createDataFrame(_table(made.entries))
    # Before any field is taken out: events of types that no rule is about cost nothing more.
    wanted = df.where(functions.col("type").isin(sorted({rule.event_type for rule in rules})))
    extracted = with_emitted_at(wanted, made.reads).selectExpr("*", *(f"{sql} as {name}" for name, sql in made.columns))
    # explode_outer: for plain explode the optimizer asks first whether the array is empty, which evaluates everything twice.
    asking = extracted.select("*", functions.explode_outer(functions.expr(made.probes)).alias(f"{PREFIX}probe"))
    found = asking.join(
        functions.broadcast(table),
        (functions.col(f"{PREFIX}probe") == functions.col(f"{PREFIX}key"))
        & (functions.col("type") == functions.col(f"{PREFIX}type")),
    )
    in_force = f"`offset` >= {PREFIX}since and ({PREFIX}topic is null or {PREFIX}topic = topic)"
    names = {name: functions.col(f"{PREFIX}{name}").alias(name) for name in ("rule", "version", "action")}
    return found.where(f"{in_force} and {made.rest}").select(*names.values(), *kept)


@lru_cache(maxsize=64)
def planned(rules: tuple[RuleSpec, ...]) -> MatchPlan:
    # A stream matches the same rules batch after batch, and planning a thousand of them takes longer than a small batch.
    return plan(rules)


def with_emitted_at(df: DataFrame, roots: Collection[str]) -> DataFrame:
    """The frame with the column that conditions know its `timestamp` by, where they read it."""
    from pyspark.sql import functions

    return df.withColumn("emitted_at", functions.col("timestamp")) if "emitted_at" in roots else df


def check_columns(columns: Sequence[str], needed: Iterable[str], roots: Iterable[str]) -> None:
    """Refuses a frame that lacks a needed column, or one that conditions over these roots read."""
    wanted = dict.fromkeys([*needed, *sorted(COLUMN_OF.get(root, root) for root in roots)])
    if missing := [column for column in wanted if column not in columns]:
        raise Invalid(f"the frame has no column {', '.join(missing)}, which is needed; it has {', '.join(columns)}")


def _table(entries: Sequence[Entry]) -> pa.Table:
    """The rules as a small table that every executor gets whole."""
    import pyarrow as pa

    columns = {
        "key": pa.array([entry.probe for entry in entries], pa.string()),
        "type": pa.array([entry.rule.event_type for entry in entries], pa.string()),
        "topic": pa.array([entry.rule.topic for entry in entries], pa.string()),
        "since": pa.array([entry.rule.since_offset for entry in entries], pa.int64()),
        "shape": pa.array([entry.shape for entry in entries], pa.int32()),
        "rule": pa.array([entry.rule.name for entry in entries], pa.string()),
        "version": pa.array([entry.rule.version for entry in entries], pa.int32()),
        "action": pa.array([entry.rule.action for entry in entries], pa.string()),
        "integers": pa.array([entry.constants.integers for entry in entries], pa.list_(pa.int64())),
        "numerics": pa.array([entry.constants.numerics for entry in entries], pa.list_(pa.decimal128(37, NUMERIC_SCALE))),
        "texts": pa.array([entry.constants.texts for entry in entries], pa.list_(pa.string())),
        "moments": pa.array([entry.constants.moments for entry in entries], pa.list_(pa.string())),
    }
    return pa.table({f"{PREFIX}{name}": column for name, column in columns.items()})
