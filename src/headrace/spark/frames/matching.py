"""match: events → the rules that fire on them, one pass over the fields, batch and streaming alike.

The plan says which rules are found by their keys, which are evaluated in place, and the Spark SQL for both. An event searches with
*probes*. For each shape that many rules share, the probes are the keys that the event asks for: its own values at the fields of equalities
and lists, its prefixes, the blocks of its numbers. A broadcast table of rules is joined on them, and the residual is evaluated with the
constants of the rows found. Rules that have only a bound are sorted by it and cut into buckets, and an event probes the buckets that it
reaches. Every other rule is evaluated in place and yields its own probe if it is true. So one event is one pass over its fields, whatever
the number of rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from headrace.db import Connection
from headrace.evaluate import RuleSpec
from headrace.lang.condition import (
    NUMERIC_SCALE,
    AccessPath,
    Bound,
    Condition,
    Constants,
    Field,
    bound_to_spark,
    field_to_spark,
    parameterize,
    parse,
    shape_to_spark,
    spark_literal,
    to_spark,
)
from headrace.spark.frames.definitions import AnyRule, rule_specs
from headrace.spark.schema import check_columns, check_types, columns_for, with_emitted_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS_MIN = 64
"""From this many rules on, whole columns in Python are cheaper than the rows of a join in Java."""
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
    columns = df.columns
    check_columns(columns, _REQUIRED, reads)
    check_types(df)
    # Before any field is extracted: events of other types cost nothing more.
    relevant = df.where(functions.col("type").isin(sorted({spec.event_type for spec in specs})))
    event_columns = [column for column in HIT_COLUMNS if column in columns]
    if len(specs) >= COLUMNS_MIN:
        from headrace.spark.frames.classified_events import match_by_columns

        return match_by_columns(relevant, specs, event_columns, columns_for(reads))
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


SHARED_MIN = 8
"""A shape with this many rules and keys is probed; fewer are cheaper to evaluate in place."""
KEYLESS_MIN = 64
"""The same without keys. Without a bound as well all its rules are compared, so this saves generated code, not comparisons."""
BUCKETS_MAX = 128
"""At most this many buckets of a shape with bounds only: an event reads the rules of one bucket that it need not."""
IN_PLACE_MAX = 128
"""With more rules in place than this, Spark must not generate one Java method for them: its compiler runs out of memory."""
PREFIX = "_headrace_"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table that is probed. `shape` is 0 where the probe is the rule's own and there is no residual."""

    probe: str
    rule: RuleSpec
    shape: int
    constants: Constants


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """`columns` are fields to extract first; `probes` is an array of text per event; `residual` is evaluated after the join."""

    columns: tuple[tuple[str, str], ...]
    probes: str
    residual: str
    entries: tuple[Entry, ...]
    reads: frozenset[str]


def plan(rules: Sequence[RuleSpec]) -> MatchPlan:
    """The plan for these rules. Raises ConditionError for a condition that does not parse."""
    parsed = [(rule, parse(rule.condition)) for rule in rules]
    fields = dict.fromkeys(field for _, condition in parsed for field in condition.fields)
    columns = {field: f"{PREFIX}f{number}" for number, field in enumerate(fields)}
    shared, in_place = _group_by_shape(parsed)
    entries: list[Entry] = []
    probes: list[str] = []
    slices: list[str] = []
    residuals: list[str] = []
    for number, members in enumerate(shared, 1):
        variants = sorted({variant for member in members if (variant := member.access.variant) is not None})
        shape = shape_to_spark(members[0].condition, columns, PREFIX, variants)
        types = ", ".join(spark_literal(name) for name in sorted({member.rule.event_type for member in members}))
        if shape.residual:
            residuals.append(f"when {number} then {shape.residual}")
        bound = members[0].access.bound
        if bound and not members[0].access.has_key:
            buckets = _Buckets(number, members, bound.is_lower)
            keys = buckets.keys
            slices.append(buckets.probes(types, bound_to_spark(bound, columns)))
        else:
            keys = [member.access.keys for member in members]
            probes += [f"(case when type in ({types}) then concat('{number}=', {key}) end)" for key in shape.keys]
        for member, member_keys in zip(members, keys, strict=True):
            constants = shape_to_spark(member.condition, columns, PREFIX, ()).constants
            entries += [Entry(f"{number}={key}", member.rule, number, constants) for key in member_keys]
    entries += [Entry(f"#{number}", rule, 0, Constants()) for number, (rule, _) in enumerate(in_place)]
    return MatchPlan(
        tuple((name, field_to_spark(field)) for field, name in columns.items()),
        _probes(probes, slices, in_place, columns),
        f"(case {PREFIX}shape {' '.join(residuals)} else true end)" if residuals else "true",
        tuple(entries),
        frozenset(field.root for field in fields),
    )


_ParsedRule = tuple[RuleSpec, Condition]


@dataclass(frozen=True, slots=True)
class _Member:
    """A rule of a shape that many share."""

    rule: RuleSpec
    condition: Condition
    access: AccessPath


def _group_by_shape(parsed: Sequence[_ParsedRule]) -> tuple[list[list[_Member]], list[_ParsedRule]]:
    """The shapes that are worth a probe, and all other rules."""
    by_shape: dict[str, list[_Member]] = {}
    for rule, condition in parsed:
        parameterized = parameterize(condition)
        by_shape.setdefault(parameterized.shape, []).append(_Member(rule, condition, parameterized.access))
    shared: list[list[_Member]] = []
    in_place: list[_ParsedRule] = []
    for members in by_shape.values():
        if len(members) >= (SHARED_MIN if members[0].access.has_key else KEYLESS_MIN):
            shared.append(members)
        else:
            in_place += [(member.rule, member.condition) for member in members]
    return shared, in_place


class _Buckets:
    """The rules of a shape in the order in which a value reaches their bounds; a bucket is a run of them."""

    def __init__(self, number: int, members: Sequence[_Member], is_lower: bool) -> None:
        self.number = number
        self.is_lower = is_lower
        bounds = [member.access.bound for member in members]
        values = [bound.value for bound in bounds if isinstance(bound, Bound)]
        order = sorted(range(len(values)), key=lambda at: values[at], reverse=not is_lower)
        size = -(-len(values) // BUCKETS_MAX)
        self.keys: list[tuple[str, ...]] = [()] * len(values)
        for rank, at in enumerate(order):
            self.keys[at] = (str(rank // size),)
        self.first_values = [values[at] for at in order[::size]]

    def probes(self, types: str, value: str) -> str:
        """The buckets that an event reaches: the first ones."""
        names = ", ".join(f"'{self.number}={bucket}'" for bucket in range(len(self.first_values)))
        return f"slice(array({names}), 1, if(type in ({types}), {self._count(value, 0, len(self.first_values))}, 0))"

    def _count(self, value: str, low: int, high: int) -> str:
        """How many buckets the value reaches, by binary search; none for an unknown value."""
        if low == high:
            return str(low)
        middle = (low + high) // 2
        first = self.first_values[middle]
        literal = spark_literal(first) if isinstance(first, str) else f"({first!r}D)"
        reaches = f"{value} {'>=' if self.is_lower else '<='} {literal}"
        return f"if({reaches}, {self._count(value, middle + 1, high)}, {self._count(value, low, middle)})"


def _probes(shape_probes: list[str], slices: list[str], in_place: list[_ParsedRule], columns: dict[Field, str]) -> str:
    arrays = [*([f"array({', '.join(shape_probes)})"] if shape_probes else []), *slices]
    if in_place:
        numbered = sorted(enumerate(in_place), key=lambda entry: (entry[1][0].event_type, entry[0]))
        cases = [
            f"when {spark_literal(name)} then {_true_in_place(list(group), columns)}"
            for name, group in groupby(numbered, key=lambda entry: entry[1][0].event_type)
        ]
        # Only the rules that are true: an event explodes into its hits, not into every rule there is.
        arrays.append(f"(case type {' '.join(cases)} else array('') end)")
    if len(in_place) > IN_PLACE_MAX:
        # A lambda keeps the projection out of whole-stage code, and so in methods of bearable size. It adds nothing.
        arrays.append("filter(array(type), t -> t <> type)")
    return arrays[0] if len(arrays) == 1 else f"concat({', '.join(arrays)})"


def _true_in_place(numbered: list[tuple[int, _ParsedRule]], columns: dict[Field, str]) -> str:
    answers: list[str] = []
    for number, (rule, condition) in numbered:
        on_topic = f"topic = {spark_literal(rule.topic)} and " if rule.topic is not None else ""
        answers.append(f"if({on_topic}{to_spark(condition, columns)}, '#{number}', '')")
    return f"array_remove(array({', '.join(answers)}), '')"
