"""Findings: what a condition reads that the schema of its event type does not have.

A pure function of tree and value set. An error is what can never be true of an event that keeps the schema: a field that the schema
forbids, a cast that never works, a value that the field never has. A warning is what the schema does not mention.

A relay gets all event types of its topic. So a finding counts only if it is one for every type that a part of its condition or mapping is
about: those that it names (`type = 'order.paid' and …`), else those of the topic. Nothing is said about types without a schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

from headrace.core import JSON, Invalid, parse_event_path
from headrace.definitions.schemas.parsing import types_of
from headrace.definitions.schemas.value_set import (
    ANY,
    Alternative,
    Array,
    Boolean,
    Enumeration,
    JsonValue,
    Null,
    Number,
    Object,
    String,
    ValueSet,
    accepts,
    any_of,
    canonical,
    with_article,
)
from headrace.lang.condition import (
    Compare,
    Condition,
    ConditionError,
    Constant,
    Diagnostic,
    Extraction,
    Field,
    In,
    Junction,
    KeyOrIndex,
    Node,
    Type,
    locate_error,
    parse,
    walk,
)

Severity: TypeAlias = Literal["error", "warning"]
SHOWN_NAMES: Final = 10


@dataclass(frozen=True)
class Finding:
    """What is wrong with a condition, where, and what was probably meant."""

    severity: Severity
    line: int
    column: int
    message: str
    suggestion: str | None = None
    place: str | None = None
    """Where it is, if not in a condition: a field of a mapping."""

    @property
    def location(self) -> str:
        return self.place or f"line {self.line}, column {self.column}"

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{self.location}: {self.message}{hint}"


_NEEDED_TYPES: Final = {
    Extraction.INT: {"number"},
    Extraction.BIGINT: {"number"},
    Extraction.NUMERIC: {"number"},
    Extraction.BOOLEAN: {"boolean"},
    Extraction.TEXT_INT: {"number", "string"},
    Extraction.TEXT_BIGINT: {"number", "string"},
    Extraction.TEXT_NUMERIC: {"number", "string"},
    Extraction.TEXT_BOOLEAN: {"number", "string", "boolean"},
    Extraction.TEXT_TIMESTAMPTZ: {"string"},
    Extraction.ARRAY_LENGTH: {"array"},
}
"""The JSON types from which an extraction may get a value; from all others it is always unknown."""


def check_condition(condition: Condition, text: str, values: ValueSet) -> tuple[Finding, ...]:
    """What the condition reads from the payload that the schema does not have, in the order of the text.

    `text` is the text that was parsed: the places are its characters."""
    return check_tree(condition.tree, text, values)


def check_tree(tree: Node, text: str, values: ValueSet) -> tuple[Finding, ...]:
    """The same for a part of a condition."""
    problems = sorted(_check_tree(tree, values), key=lambda problem: problem.place)
    return tuple(dict.fromkeys(problem.locate(text) for problem in problems))


def check_path(steps: Sequence[str | int], place: str, values: ValueSet) -> tuple[Finding, ...]:
    """What a path into the payload reads that the schema does not have; none, or one."""
    _, problem = _follow(steps, (), values)
    return () if problem is None else (Finding(problem.severity, 1, 1, problem.message, problem.suggestion, place),)


@dataclass(frozen=True)
class _Problem:
    severity: Severity
    place: int
    message: str
    suggestion: str | None = None

    def locate(self, text: str) -> Finding:
        error = locate_error(text, Diagnostic(self.place, self.message, ""))
        return Finding(self.severity, error.line, error.column, self.message, self.suggestion)


def _check_tree(tree: Node, values: ValueSet) -> Iterator[_Problem]:
    for node, _ in walk(tree):
        match node:
            case Field(root="object"):
                yield from _check_field(node, values)
            case Compare(operator=operator, left=left, right=right) if operator in ("=", "<>", "is distinct from"):
                for field, constant in ((left, right), (right, left)):
                    if isinstance(field, Field) and isinstance(constant, Constant):
                        yield from _check_constants(field, [constant], values, is_negative=operator != "=")
            case In(operand=Field() as field, items=items):
                yield from _check_constants(field, [item for item in items if isinstance(item, Constant)], values)
            case _:
                pass


def _check_field(field: Field, values: ValueSet) -> Iterator[_Problem]:
    reached, problem = _follow(field.path, field.places, values)
    if problem is not None:
        yield problem
        return
    if field.extraction is Extraction.HAS_KEY and field.key is not None:
        # A question whether there is a key is a good question even where the answer is no.
        problem = _missing_key(reached, field.key, field.places[-1] if field.places else 0)
        if problem is not None:
            yield replace(problem, severity="warning")
    needed = _NEEDED_TYPES.get(field.extraction)
    if needed is None or reached.is_unknown:
        return
    types = _types(reached)
    if types and not types & needed:
        place = field.places[-1] if field.places else 0
        is_length = field.extraction is Extraction.ARRAY_LENGTH
        read = "jsonb_array_length" if is_length else f"the cast to {field.extraction.cast}"
        text = f"{_name_of(field)} is always {_join(types)}, and {read} of it is unknown"
        yield _Problem("error", place, text, _other_cast(field, types))


def _follow(path: Sequence[str | int | KeyOrIndex], places: Sequence[int], values: ValueSet) -> tuple[ValueSet, _Problem | None]:
    """The values at the end of a path, or what stops it on the way."""
    for number, step in enumerate(path):
        place = places[number] if number < len(places) else 0
        if values.is_unknown:
            return ANY, None
        match step:
            case str():
                problem = _missing_key(values, step, place)
                values = _key(values, step)
            case int():
                problem = _not_an_array(values, place)
                values = _items(values)
            case KeyOrIndex():
                problem = _not_an_array(values, place) and _missing_key(values, str(step.number), place)
                values = _union(_items(values), _key(values, str(step.number)))
        if problem is not None:
            return ANY, problem
    return values, None


def _missing_key(values: ValueSet, key: str, place: int) -> _Problem | None:
    """The problem of a key that the schema forbids or does not mention."""
    if values.is_unknown:
        return None
    objects = [alternative for alternative in values.alternatives if isinstance(alternative, Object)]
    # Objects in an enum are rare: whatever they have, nothing is said about them.
    if any("object" in types_of(other) for other in values.alternatives if isinstance(other, Enumeration)):
        return None
    if not objects:
        return _Problem("error", place, f"{key!r} is read from what is always {_join(_types(values))}, which has no fields")
    if any(key in entry.properties and not entry.properties[key].is_empty for entry in objects):
        return None
    names = sorted({name for entry in objects for name in entry.properties})
    close = get_close_matches(key, names, 1, 0.6)
    suggestion = repr(close[0]) if close else None
    listed = _shorten(names)
    if all(entry.value_of(key).is_empty for entry in objects):
        return _Problem("error", place, f"the schema has no field {key!r}; it has {listed or 'none'}", suggestion)
    # An object whose other properties have a schema is a map: any key is fine.
    if names and all(entry.additional.is_any for entry in objects):
        return _Problem("warning", place, f"the schema does not mention the field {key!r}; it mentions {listed}", suggestion)
    return None


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else "")


def _not_an_array(values: ValueSet, place: int) -> _Problem | None:
    types = _types(values)
    if "array" in types or values.is_unknown:
        return None
    return _Problem("error", place, f"an index reads what is always {_join(types)}, not an array")


def _key(values: ValueSet, key: str) -> ValueSet:
    if values.is_unknown or any(isinstance(entry, Enumeration) for entry in values.alternatives):
        return ANY
    return _union(*(entry.value_of(key) for entry in values.alternatives if isinstance(entry, Object)))


def _items(values: ValueSet) -> ValueSet:
    if values.is_unknown or any(isinstance(entry, Enumeration) for entry in values.alternatives):
        return ANY
    return _union(*(entry.items for entry in values.alternatives if isinstance(entry, Array)))


def _union(*parts: ValueSet) -> ValueSet:
    if any(part.is_unknown for part in parts):
        return ANY
    return ValueSet(tuple(alternative for part in parts for alternative in part.listed))


def _check_constants(
    field: Field, constants: list[Constant], values: ValueSet, *, is_negative: bool = False
) -> Iterator[_Problem]:
    """Constants that the field never equals."""
    if field.root != "object":
        return
    reached, problem = _follow(field.path, field.places, values)
    if problem is not None or reached.is_unknown:
        return
    if not _types(reached) & _NEEDED_TYPES.get(field.extraction, _types(reached)):
        # The cast never works, which is a finding of its own.
        return
    never = [constant for constant in constants if _equals(field, constant, reached) is False]
    all_never = len(never) == len(constants) and not is_negative
    for constant in never:
        severity: Severity = "error" if all_never else "warning"
        known = _known_texts(reached)
        allowed = f"; the schema allows {_shorten(known)}" if known else "; the schema does not allow it"
        close = get_close_matches(_text_of(constant), known, 1, 0.6)
        text = f"{_name_of(field)} is never {_text_of(constant)}{allowed}"
        yield _Problem(severity, constant.place, text, close[0] if close else None)


def _equals(field: Field, constant: Constant, values: ValueSet) -> bool | None:
    """Can the field equal the constant? None where we do not know."""
    if field.extraction is Extraction.TEXT and constant.type is Type.TEXT:
        return any_of(_text_equals(alternative, str(constant.value)) for alternative in values.alternatives)
    if field.extraction in (Extraction.INT, Extraction.BIGINT) and constant.type is Type.INTEGER:
        # A number with a fraction is rounded, so that only integers tell.
        whole = [entry for entry in values.alternatives if isinstance(entry, Enumeration | Number)]
        if any(isinstance(entry, Number) and not entry.is_integer for entry in whole):
            return None
        listed = [value for entry in whole if isinstance(entry, Enumeration) for value in entry.values]
        if any(isinstance(value, float) or "." in canonical(value) for value in listed):
            return None
        return accepts(ValueSet(tuple(whole)), int(str(constant.value)))
    if field.extraction is Extraction.BOOLEAN and constant.type is Type.BOOLEAN:
        return accepts(values, bool(constant.value))
    return None


def _text_equals(alternative: Alternative, text: str) -> bool | None:
    match alternative:
        case String() | Null():
            return accepts(ValueSet((alternative,)), text)
        case Boolean():
            return text in ("true", "false")
        case Enumeration():
            return None if types_of(alternative) & {"object", "array"} else text in [_plain_text(v) for v in alternative.values]
        case _:
            return None


def _plain_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical(value)


def _known_texts(values: ValueSet) -> list[str]:
    enumerations = [entry for entry in values.alternatives if isinstance(entry, Enumeration)]
    return [
        f"'{_plain_text(value)}'" if isinstance(value, str) else canonical(value)
        for entry in enumerations
        for value in entry.values
    ]


def _text_of(constant: Constant) -> str:
    return f"'{constant.value}'" if constant.type is Type.TEXT else str(constant.value).lower()


def _types(values: ValueSet) -> set[str]:
    return {name for alternative in values.alternatives for name in types_of(alternative)}


def _name_of(field: Field) -> str:
    steps = [str(step.number) if isinstance(step, KeyOrIndex) else str(step) for step in field.path]
    return ".".join(steps) or "the payload"


def _join(types: set[str]) -> str:
    return " or ".join(map(with_article, sorted(types)))


def _other_cast(field: Field, types: set[str]) -> str | None:
    """The same cast of the text, where the value is a string."""
    if "string" in types and field.extraction in (Extraction.INT, Extraction.BIGINT, Extraction.NUMERIC, Extraction.BOOLEAN):
        return f"->> and ::{field.extraction.cast}, which converts the text"
    return None


@dataclass(frozen=True)
class RelayFields:
    """What a relay reads of events: its condition, and the texts of its mapping by field."""

    condition: str
    mapping: Mapping[str, JSON] | None = None


def relay_findings(
    relay: RelayFields, schemas: Mapping[str, ValueSet], topic_types: Collection[str], *, changed: str | None = None
) -> tuple[tuple[str, Finding], ...]:
    """Findings with the event types they are about; with `changed` only those that are about that type, too."""
    try:
        tree = parse(relay.condition).tree
    except ConditionError:
        return ()
    branches = [(types if types is not None else frozenset(topic_types), branch) for types, branch in _branches(tree)]
    findings: list[tuple[str, Finding]] = []
    for types, branch in branches:
        if _is_checked(types, schemas, changed):
            by_type = [list(check_tree(branch, relay.condition, schemas[name])) for name in sorted(types)]
            findings += [(", ".join(sorted(types)), finding) for finding in _common(by_type)]
    all_types = frozenset[str]().union(*(types for types, _ in branches))
    if relay.mapping is not None and _is_checked(all_types, schemas, changed):
        by_type = [list(_mapping_findings(relay.mapping, schemas[name])) for name in sorted(all_types)]
        findings += [(", ".join(sorted(all_types)), finding) for finding in _common(by_type)]
    return tuple(dict.fromkeys(findings))


def _is_checked(types: Collection[str], schemas: Mapping[str, ValueSet], changed: str | None) -> bool:
    return bool(types) and all(name in schemas for name in types) and (changed is None or changed in types)


def _common(by_type: Sequence[Sequence[Finding]]) -> list[Finding]:
    """The findings of the first event type whose place is wrong for all others too; an error only if it is one for all."""
    first, *others = by_type
    common: list[Finding] = []
    for finding in first:
        same = [[other for other in findings if other.location == finding.location] for findings in others]
        if all(same):
            is_error = finding.severity == "error" and all(any(each.severity == "error" for each in part) for part in same)
            common.append(replace(finding, severity="error" if is_error else "warning"))
    return common


def _branches(tree: Node) -> Iterator[tuple[frozenset[str] | None, Node]]:
    """The parts of a condition by the event types they name; None: it names none."""
    types = _named_types(tree)
    if types is None and isinstance(tree, Junction) and tree.word == "or":
        for operand in tree.operands:
            yield from _branches(operand)
    else:
        yield types, tree


def _named_types(tree: Node) -> frozenset[str] | None:
    match tree:
        case Junction(word="and", operands=operands):
            named = [types for types in map(_named_types, operands) if types is not None]
            return frozenset.intersection(*named) if named else None
        case Compare(operator="=", left=Field(root="type"), right=Constant() as constant):
            return frozenset({str(constant.value)})
        case Compare(operator="=", left=Constant() as constant, right=Field(root="type")):
            return frozenset({str(constant.value)})
        case In(operand=Field(root="type"), items=items) if all(isinstance(item, Constant) for item in items):
            return frozenset(str(item.value) for item in items if isinstance(item, Constant))
        case _:
            return None


def _mapping_findings(mapping: Mapping[str, JSON], values: ValueSet) -> Iterator[Finding]:
    for field, text in _texts(mapping):
        try:
            path = parse_event_path(text) if text.startswith("$.") else None
        except Invalid:
            # An invalid mapping has an error of its own.
            continue
        if path is not None and path.root == "payload":
            yield from check_path(path.steps, f"mapping, field {field}", values)


def _texts(value: JSON, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _texts(part, f"{place}.{name}" if place else name)
    elif isinstance(value, Sequence):
        for index, part in enumerate(value):
            yield from _texts(part, f"{place}[{index}]")
