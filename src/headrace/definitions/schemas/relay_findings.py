"""Relays against schemas: what conditions and mappings read that no event type they are about has.

A relay gets all event types of its topic. So a finding counts only if it is one for every type that a part of the condition is about:
those that it names (`type = 'order.paid' and …`), else those of the topic. Nothing is said about types without a schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.core import JSON, Invalid, parse_event_path
from headrace.definitions.schemas.findings import Finding, check_path, check_tree
from headrace.definitions.schemas.value_set import ValueSet
from headrace.lang.condition import Compare, ConditionError, Constant, Field, In, Junction, Node, parse


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
