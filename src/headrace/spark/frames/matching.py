"""match: events → the rules that fire on them, batch and streaming alike.

Tasks classify by whole columns, one rule or a thousand: Spark's own JSON functions take longer than moving a row to Python. Promises:
firings of the database's engine; a payload that is null or no JSON is unknown, and changes no other row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.db import Connection
from headrace.lang.condition import parse
from headrace.spark.frames.definitions import AnyRule, rule_specs
from headrace.spark.schema import check_columns, check_types, columns_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HIT_COLUMNS = (
    "topic", "partition", "offset", "event_id", "type", "key", "payload", "headers", "timestamp", "shard", "appended_at",
)  # fmt: skip
"""The columns of the event in a hit, after rule, version and action; those that the frame has."""
_REQUIRED = ("type", "topic", "offset")


def match(
    df: DataFrame, rules: AnyRule | Sequence[AnyRule], *, conn: Connection | None = None, namespace: str | None = None
) -> DataFrame:
    """One row per event and rule that fires on it: rule, version, action, and the event's own columns.

    A rule is a `Rule`, a `RuleSpec`, a file of rules, with `conn` the name of a live one, and otherwise a text:
    `on order.paid if (object -> 'amount')::int > 100`.
    An event that no rule fires on has no row; unknown is not true. Each field is extracted once. Raises Invalid if the
    frame lacks a column that a condition reads, ConditionError for a condition that does not parse."""
    from pyspark.sql import functions

    specs = rule_specs(rules, conn=conn, namespace=namespace)
    reads = frozenset(field.root for spec in specs for field in parse(spec.condition).fields)
    check_columns(df.columns, _REQUIRED, reads)
    check_types(df)
    # Before any row goes to Python: events of other types cost next to nothing.
    relevant = df.where(functions.col("type").isin(sorted({spec.event_type for spec in specs})))
    from headrace.spark.frames.classified_events import match_by_columns

    return match_by_columns(relevant, specs, [name for name in HIT_COLUMNS if name in df.columns], columns_for(reads))
