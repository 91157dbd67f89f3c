"""Rules, correlators and relays against schemas: what they read that an event type does not have, when they are written and when it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.core import HeadraceError
from headrace.db import Connection, fetch_value, map_database_errors, query
from headrace.definitions.schemas.findings import Finding, RelayFields, check_condition, relay_findings
from headrace.definitions.schemas.parsing import parse_schema
from headrace.definitions.schemas.value_set import ValueSet
from headrace.lang import ecl
from headrace.lang.condition import ConditionError, parse

SCANNED = 10_000
"""Positions at the end of a log that tell its event types."""


@dataclass(frozen=True)
class DefinitionFinding:
    """A finding in a rule's condition, in a condition of a correlator's pattern, or in the condition or mapping of a
    relay."""

    kind: str
    """`rule`, `correlator` or `relay`."""
    name: str
    topic: str
    condition: str
    finding: Finding

    def __str__(self) -> str:
        return f"{self.finding.severity} in {self.kind} {self.name} ({self.topic}), {self.finding}"


def findings_on_definitions(
    conn: Connection, event_type: str, values: ValueSet, *, namespace: str | None = None
) -> tuple[DefinitionFinding, ...]:
    """What rules, correlators and relays read of an event type that a schema does not have."""
    with map_database_errors():
        rows = conn.execute(
            query("definitions/schemas/definitions"), {"event_type": event_type, "namespace": namespace}
        ).fetchall()
    conditions = [(kind, name, topic, text) for kind, name, topic, text, _ in rows if kind == "rule"] + [
        (kind, name, topic, condition)
        for kind, name, topic, pattern, _ in rows
        if kind == "correlator"
        for read_type, condition in pattern_conditions(pattern)
        if read_type == event_type
    ]
    findings = [
        DefinitionFinding(kind, name, topic, condition, finding)
        for kind, name, topic, condition in conditions
        for finding in findings_in(condition, values)
    ]
    relays = [(name, topic, RelayFields(condition, mapping)) for kind, name, topic, condition, mapping in rows if kind == "relay"]
    return (*findings, *_findings_on_relays(conn, event_type, values, relays, namespace))


def _findings_on_relays(
    conn: Connection,
    event_type: str,
    values: ValueSet,
    relays: Sequence[tuple[str, str, RelayFields]],
    namespace: str | None,
) -> Iterator[DefinitionFinding]:
    if not relays:
        return
    schemas, types = _schemas(conn, None, namespace) | {event_type: values}, types_by_topic(conn, namespace=namespace)
    for relay, topic, fields in relays:
        for _, finding in relay_findings(fields, schemas, types.get(topic, []), changed=event_type):
            yield DefinitionFinding("relay", relay, topic, fields.condition, finding)


def findings_in(condition: str, values: ValueSet) -> tuple[Finding, ...]:
    """The findings on a condition's text; none on an invalid condition, which has an error of its own."""
    try:
        return check_condition(parse(condition), condition, values)
    except ConditionError:
        return ()


def pattern_conditions(pattern: str) -> tuple[tuple[str, str], ...]:
    """The conditions of a pattern with the event types they are about; none of an invalid pattern."""
    try:
        return ecl.typed_conditions(ecl.parse(pattern))
    except HeadraceError:
        return ()


def check_definition(
    conn: Connection, noun: str, conditions: Sequence[tuple[str, str]], *, namespace: str | None = None
) -> tuple[Finding, ...]:
    """Checks conditions (event type, text) of a definition that is being written, and reports what is wrong as the namespace treats
    unknown names: an error (SchemaFindings), warnings, or nothing. Returns the findings."""
    return _report(conn, noun, find_in_conditions(conn, conditions, namespace=namespace), namespace)


def find_in_conditions(
    conn: Connection, conditions: Sequence[tuple[str, str]], *, namespace: str | None = None
) -> tuple[tuple[str, Finding], ...]:
    """What conditions (event type, text) read that the schemas do not have, with the event types; reports nothing."""
    return tuple(
        (event_type, finding)
        for event_type, condition in conditions
        for values in _schemas(conn, event_type, namespace).values()
        for finding in findings_in(condition, values)
    )


def check_relay_definition(
    conn: Connection, noun: str, topic: str, relay: RelayFields, *, namespace: str | None = None
) -> tuple[Finding, ...]:
    """The same for the condition and the mapping of a relay."""
    return _report(conn, noun, find_in_relay(conn, topic, relay, namespace=namespace), namespace)


def find_in_relay(
    conn: Connection, topic: str, relay: RelayFields, *, namespace: str | None = None
) -> tuple[tuple[str, Finding], ...]:
    """What a relay reads that the event types of its topic do not have, with their names; reports nothing."""
    schemas = _schemas(conn, None, namespace)
    if not schemas:
        return ()
    types = types_by_topic(conn, topic=topic, namespace=namespace).get(topic, [])
    return relay_findings(relay, schemas, types)


def types_by_topic(conn: Connection, *, topic: str | None = None, namespace: str | None = None) -> dict[str, list[str]]:
    """The event types of each topic, or of one, as its rules and its newest events have them."""
    parameters = {"topic": topic, "namespace": namespace, "scanned": SCANNED}
    by_topic: dict[str, list[str]] = {}
    with map_database_errors():
        for name, event_type in conn.execute(query("definitions/schemas/types_by_topic"), parameters):
            by_topic.setdefault(name, []).append(event_type)
    return by_topic


def _schemas(conn: Connection, event_type: str | None, namespace: str | None) -> dict[str, ValueSet]:
    with map_database_errors():
        rows = conn.execute(query("definitions/schemas/schemas"), {"event_type": event_type, "namespace": namespace}).fetchall()
    return {row[0]: parse_schema(row[2]) for row in rows}


def _report(conn: Connection, noun: str, findings: Sequence[tuple[str, Finding]], namespace: str | None) -> tuple[Finding, ...]:
    if findings:
        texts = {
            severity: [f"{noun}, {types}, {finding}" for types, finding in findings if finding.severity == severity]
            for severity in ("error", "warning")
        }
        statement = "select headrace.report_findings(%s::text[], %s::text[], %s)"
        fetch_value(conn, statement, (texts["error"], texts["warning"], namespace))
    return tuple(finding for _, finding in findings)
