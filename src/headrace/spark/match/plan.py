"""The plan of a match: which rules are found by their key, which are asked one by one, and the Spark SQL of both.

An event asks with *probes*. For each shape that many rules share, the probe is the event's own value at the field of the
shape's equality; a broadcast table of rules is probed with it, and the rest of the shape is compared with the constants of the
rows found. Every other rule is asked in place and gives its own probe where it holds. So one event is one pass over its
fields, whatever the number of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from headrace.lang.condition import (
    Condition,
    Constants,
    Field,
    field_to_spark,
    parse,
    shape_to_spark,
    shaped,
    spark_constants,
    spark_literal,
    to_spark,
)

SHARED_MIN = 8
"""From so many rules on, a shape with an equality is probed; fewer are cheaper to compare in place."""
KEYLESS_MIN = 64
"""The same for a shape without an equality: its rules are all compared, so this saves generated code, not comparisons."""
IN_PLACE_MAX = 128
"""With more rules in place than this, Spark must not make one Java method of them: its compiler runs out of memory."""
PREFIX = "_headrace_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule version as Spark runs it: on events of a type (and topic, if given) from a position on, if the condition is true."""

    name: str
    event_type: str
    action: str
    condition: str = "true"
    version: int = 1
    topic: str | None = None
    since_offset: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table that is probed. `shape` is 0 where the probe is the rule's own, and nothing is left to compare."""

    probe: str
    rule: RuleSpec
    shape: int
    constants: Constants


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """`columns` are fields to extract first; `probes` gives an array of text per event; `rest` is checked after the probing."""

    columns: tuple[tuple[str, str], ...]
    probes: str
    rest: str
    entries: tuple[Entry, ...]
    reads: frozenset[str]


def plan(rules: Sequence[RuleSpec]) -> MatchPlan:
    """The plan of these rules. Raises ConditionError for a condition that does not parse."""
    conditions = [parse(rule.condition) for rule in rules]
    fields = dict.fromkeys(field for condition in conditions for field in condition.fields)
    columns = {field: f"{PREFIX}f{number}" for number, field in enumerate(fields)}
    shared, single = _grouped(rules, conditions)
    entries: list[Entry] = []
    keyed: list[str] = []
    rests: list[str] = []
    for number, members in enumerate(shared, 1):
        printed = shape_to_spark(members[0][1], columns, PREFIX)
        keyed.append(_keyed_probe(number, printed.key or "''", [rule for rule, _ in members]))
        if printed.rest:
            rests.append(f"when {number} then {printed.rest}")
        for rule, condition in members:
            key = shaped(condition).key or ""
            entries.append(Entry(f"{number}={key}", rule, number, spark_constants(condition)))
    entries += [Entry(f"#{number}", rule, 0, Constants()) for number, (rule, _) in enumerate(single)]
    return MatchPlan(
        tuple((name, field_to_spark(field)) for field, name in columns.items()),
        _probes(keyed, single, columns),
        f"(case {PREFIX}shape {' '.join(rests)} else true end)" if rests else "true",
        tuple(entries),
        frozenset(field.root for field in fields),
    )


_Asked = tuple[RuleSpec, Condition]


def _grouped(rules: Sequence[RuleSpec], conditions: Sequence[Condition]) -> tuple[list[list[_Asked]], list[_Asked]]:
    """The shapes that are worth a probe, and all other rules."""
    by_shape: dict[str, list[_Asked]] = {}
    keyless: set[str] = set()
    for rule, condition in zip(rules, conditions, strict=True):
        found = shaped(condition)
        by_shape.setdefault(found.shape, []).append((rule, condition))
        if found.key is None:
            keyless.add(found.shape)
    shared: list[list[_Asked]] = []
    single: list[_Asked] = []
    for shape, members in by_shape.items():
        if len(members) >= (KEYLESS_MIN if shape in keyless else SHARED_MIN):
            shared.append(members)
        else:
            single += members
    return shared, single


def _keyed_probe(number: int, key: str, rules: Iterable[RuleSpec]) -> str:
    types = ", ".join(spark_literal(name) for name in sorted({rule.event_type for rule in rules}))
    return f"(case when type in ({types}) then concat('{number}=', {key}) end)"


def _probes(keyed: list[str], single: list[_Asked], columns: dict[Field, str]) -> str:
    parts = [f"array({', '.join(keyed)})"] if keyed else []
    if single:
        numbered = sorted(enumerate(single), key=lambda entry: (entry[1][0].event_type, entry[0]))
        cases = [
            f"when {spark_literal(name)} then {_asked_in_place(list(group), columns)}"
            for name, group in groupby(numbered, key=lambda entry: entry[1][0].event_type)
        ]
        # The array of the hits alone: an event explodes into what it asks for, not into every rule there is.
        parts.append(f"(case type {' '.join(cases)} else array('') end)")
    if len(single) > IN_PLACE_MAX:
        # A lambda keeps the projection out of whole-stage code, and so in methods of a bearable size. It adds nothing.
        parts.append("filter(array(type), t -> t <> type)")
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def _asked_in_place(numbered: list[tuple[int, _Asked]], columns: dict[Field, str]) -> str:
    answers: list[str] = []
    for number, (rule, condition) in numbered:
        on_topic = f"topic = {spark_literal(rule.topic)} and " if rule.topic is not None else ""
        answers.append(f"if({on_topic}{to_spark(condition, columns)}, '#{number}', '')")
    return f"array_remove(array({', '.join(answers)}), '')"
