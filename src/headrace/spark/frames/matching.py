"""match: events → the rules that fire on them, one pass over the fields, batch and streaming alike.

Few rules are one expression of Spark SQL: each field is extracted once, every rule is evaluated in place, and an event becomes a row per
rule that is true. Many rules are evaluated by whole columns, in tasks of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from headrace.db import Connection
from headrace.evaluate import RuleSpec
from headrace.lang.condition import Condition, Field, field_to_spark, parse, spark_literal, to_spark
from headrace.spark.frames.definitions import AnyRule, rule_specs
from headrace.spark.schema import check_columns, check_types, columns_for, with_emitted_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS_MIN = 8
"""From this many rules on, whole columns in Python are cheaper than conditions in Java."""
HIT_COLUMNS = (
    "topic", "partition", "offset", "event_id", "type", "key", "payload", "headers", "timestamp", "shard", "appended_at",
)  # fmt: skip
"""The columns of the event in a hit, after rule, version and action; those that the frame has."""
_REQUIRED = ("type", "topic", "offset")
_PREFIX = "_headrace_"


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
    parsed = [(spec, parse(spec.condition)) for spec in specs]
    fields = dict.fromkeys(field for _, condition in parsed for field in condition.fields)
    reads = frozenset(field.root for field in fields)
    check_columns(df.columns, _REQUIRED, reads)
    check_types(df)
    # Before any field is extracted: events of other types cost nothing more.
    relevant = df.where(functions.col("type").isin(sorted({spec.event_type for spec in specs})))
    event_columns = [column for column in HIT_COLUMNS if column in df.columns]
    if len(specs) >= COLUMNS_MIN:
        from headrace.spark.frames.classified_events import match_by_columns

        return match_by_columns(relevant, specs, event_columns, columns_for(reads))
    columns = {field: f"{_PREFIX}f{number}" for number, field in enumerate(fields)}
    extracted = with_emitted_at(relevant, reads).selectExpr(
        "*", *(f"{field_to_spark(field)} as {name}" for field, name in columns.items())
    )
    # explode_outer: for explode the optimizer first checks whether the array is empty, which evaluates everything twice.
    fired = extracted.select("*", functions.explode_outer(functions.expr(_fired(parsed, columns))).alias(f"{_PREFIX}rule"))
    values = {
        "rule": [spark_literal(spec.name) for spec in specs],
        "version": [str(spec.version) for spec in specs],
        "action": [spark_literal(spec.action) for spec in specs],
    }
    names = [f"array({', '.join(texts)})[{_PREFIX}rule] as {name}" for name, texts in values.items()]
    return fired.where(f"{_PREFIX}rule is not null").selectExpr(*names, *(f"`{column}`" for column in event_columns))


def _fired(parsed: Sequence[tuple[RuleSpec, Condition]], columns: Mapping[Field, str]) -> str:
    """An array with the numbers of the rules that fire on an event; those of other types are not evaluated."""
    numbered = sorted(enumerate(parsed), key=lambda entry: (entry[1][0].event_type, entry[0]))
    cases = []
    for event_type, group in groupby(numbered, key=lambda entry: entry[1][0].event_type):
        answers = []
        for number, (rule, condition) in group:
            on_topic = f"topic = {spark_literal(rule.topic)} and " if rule.topic is not None else ""
            is_true = f"{on_topic}`offset` >= {rule.since_offset} and {to_spark(condition, columns)}"
            answers.append(f"if({is_true}, {number}, -1)")
        cases.append(f"when {spark_literal(event_type)} then array_remove(array({', '.join(answers)}), -1)")
    return f"(case type {' '.join(cases)} end)"
