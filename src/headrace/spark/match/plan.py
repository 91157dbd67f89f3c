"""Match plan: which rules are found by their key, which are evaluated in place, and the Spark SQL for both.

An event searches with *probes*. For each shape that many rules share, the probe is the event's own value at the field of the
access predicate; a broadcast table of rules is joined on it, and the residual is evaluated with the constants of the rows
found. Every other rule is evaluated in place and yields its own probe if it is true. So one event is one pass over its fields,
whatever the number of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from headrace.lang.condition import (
    Condition,
    Constants,
    Field,
    field_to_spark,
    parameterize,
    parse,
    shape_to_spark,
    spark_literal,
    to_spark,
)

SHARED_MIN = 8
"""A shape with this many rules and an access predicate is probed; fewer are cheaper to evaluate in place."""
KEYLESS_MIN = 64
"""The same without an access predicate: all its rules are compared, so this saves generated code, not comparisons."""
IN_PLACE_MAX = 128
"""With more rules in place than this, Spark must not generate one Java method for them: its compiler runs out of memory."""
PREFIX = "_headrace_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule version as Spark runs it: on events of a type (and topic, unless it is None) from a position on, if the condition is true."""

    name: str
    event_type: str
    action: str
    condition: str = "true"
    version: int = 1
    topic: str | None = None
    since_offset: int = 0


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
    residuals: list[str] = []
    for number, members in enumerate(shared, 1):
        shape = shape_to_spark(members[0][1], columns, PREFIX)
        probes.append(_shape_probe(number, shape.access_key or "''", [rule for rule, _ in members]))
        if shape.residual:
            residuals.append(f"when {number} then {shape.residual}")
        for rule, condition in members:
            access, _ = condition.split()
            constants = shape_to_spark(condition, columns, PREFIX).constants
            entries.append(Entry(f"{number}={access.text if access else ''}", rule, number, constants))
    entries += [Entry(f"#{number}", rule, 0, Constants()) for number, (rule, _) in enumerate(in_place)]
    return MatchPlan(
        tuple((name, field_to_spark(field)) for field, name in columns.items()),
        _probes(probes, in_place, columns),
        f"(case {PREFIX}shape {' '.join(residuals)} else true end)" if residuals else "true",
        tuple(entries),
        frozenset(field.root for field in fields),
    )


_ParsedRule = tuple[RuleSpec, Condition]


def _group_by_shape(parsed: Sequence[_ParsedRule]) -> tuple[list[list[_ParsedRule]], list[_ParsedRule]]:
    """The shapes that are worth a probe, and all other rules."""
    by_shape: dict[tuple[str, bool], list[_ParsedRule]] = {}
    for rule, condition in parsed:
        parameterized = parameterize(condition)
        by_shape.setdefault((parameterized.shape, parameterized.key is None), []).append((rule, condition))
    shared: list[list[_ParsedRule]] = []
    in_place: list[_ParsedRule] = []
    for (_, is_keyless), members in by_shape.items():
        if len(members) >= (KEYLESS_MIN if is_keyless else SHARED_MIN):
            shared.append(members)
        else:
            in_place += members
    return shared, in_place


def _shape_probe(number: int, access_key: str, rules: Iterable[RuleSpec]) -> str:
    types = ", ".join(spark_literal(name) for name in sorted({rule.event_type for rule in rules}))
    return f"(case when type in ({types}) then concat('{number}=', {access_key}) end)"


def _probes(shape_probes: list[str], in_place: list[_ParsedRule], columns: dict[Field, str]) -> str:
    arrays = [f"array({', '.join(shape_probes)})"] if shape_probes else []
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
