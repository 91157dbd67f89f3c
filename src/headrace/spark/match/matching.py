"""match: events → the rules that fire on them, one pass over the fields, batch and streaming alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.db import Connection
from headrace.evaluate import RuleSpec
from headrace.lang.condition import NUMERIC_SCALE, parse
from headrace.spark.match.definitions import AnyRule, rule_specs
from headrace.spark.match.plan import PREFIX, Entry, MatchPlan, plan
from headrace.spark.schema import COLUMN_OF

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS_MIN = 64
"""From this many rules on, whole columns in Python are cheaper than the rows of a join in Java."""
HIT_COLUMNS = (
    "topic", "partition", "offset", "event_id", "type", "key", "payload", "headers", "timestamp", "shard", "appended_at",
)  # fmt: skip
"""The columns of the event in a hit, after rule, version and action; those that the frame has."""
_TEXT = ("string",)
_TYPES = dict.fromkeys(("key", "type", "payload", "topic", "event_id", "headers", "shard"), _TEXT) | {
    "offset": ("bigint", "int", "smallint"),
    "timestamp": ("timestamp",),
    "appended_at": ("timestamp",),
}
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
    columns = df.columns
    check_columns(columns, _REQUIRED, reads)
    check_types(df)
    # Before any field is extracted: events of other types cost nothing more.
    relevant = df.where(functions.col("type").isin(sorted({spec.event_type for spec in specs})))
    event_columns = [column for column in HIT_COLUMNS if column in columns]
    if len(specs) >= COLUMNS_MIN:
        # Imported here: a scan uses this room.
        from headrace.spark.scan import match_by_columns

        return match_by_columns(relevant, specs, event_columns, sorted(COLUMN_OF.get(root, root) for root in reads))
    match_plan = cached_plan(specs)
    rules_table = df.sparkSession.createDataFrame(_rules_table(match_plan.entries))
    extracted = with_emitted_at(relevant, match_plan.reads).selectExpr(
        "*", *(f"{sql} as {name}" for name, sql in match_plan.columns)
    )
    # explode_outer: for explode the optimizer first checks whether the array is empty, which evaluates everything twice.
    probing = extracted.select("*", functions.explode_outer(functions.expr(match_plan.probes)).alias(f"{PREFIX}probe"))
    candidates = probing.join(
        functions.broadcast(rules_table),
        (functions.col(f"{PREFIX}probe") == functions.col(f"{PREFIX}key"))
        & (functions.col("type") == functions.col(f"{PREFIX}type")),
    )
    is_active = f"`offset` >= {PREFIX}since and ({PREFIX}topic is null or {PREFIX}topic = topic)"
    names = {name: functions.col(f"{PREFIX}{name}").alias(name) for name in ("rule", "version", "action")}
    return candidates.where(f"{is_active} and {match_plan.residual}").select(*names.values(), *event_columns)


@lru_cache(maxsize=64)
def cached_plan(rules: tuple[RuleSpec, ...]) -> MatchPlan:
    # A stream matches the same rules batch after batch, and to plan a thousand of them takes longer than a small batch.
    return plan(rules)


def with_emitted_at(df: DataFrame, roots: Collection[str]) -> DataFrame:
    """The frame with its `timestamp` also as `emitted_at`, the name in conditions, if they read it."""
    from pyspark.sql import functions

    return df.withColumn("emitted_at", functions.col("timestamp")) if "emitted_at" in roots else df


def check_columns(columns: Sequence[str], needed: Iterable[str], roots: Iterable[str]) -> None:
    """Raises Invalid for a frame that lacks a needed column, or one that conditions over these roots read."""
    required = dict.fromkeys([*needed, *sorted(COLUMN_OF.get(root, root) for root in roots)])
    if missing := [column for column in required if column not in columns]:
        raise Invalid(f"the frame has no column {', '.join(missing)}, which is needed; it has {', '.join(columns)}")


def check_types(df: DataFrame) -> None:
    """Raises Invalid for a frame whose columns of events have other types than events have."""
    for field in df.schema.fields:
        allowed = _TYPES.get(field.name)
        type_ = field.dataType.simpleString()
        if allowed is not None and type_ not in allowed:
            advice = "to_json(payload) makes a text of it" if field.name == "payload" else "cast it"
            raise Invalid(f"column {field.name!r} of the frame is {type_}, not {allowed[0]}; {advice}")


def _rules_table(entries: Sequence[Entry]) -> pa.Table:
    """The rules as a small table that is broadcast to every executor."""
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
