"""Rules and correlators against schemas: what they read that an event type does not have, when they are written and when it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core import HeadraceError
from headrace.db import Connection, map_database_errors, query
from headrace.lang import ecl
from headrace.lang.condition import ConditionError, parse
from headrace.schemas.findings import Finding, check_condition
from headrace.schemas.parsing import parse_schema
from headrace.schemas.value_set import ValueSet


@dataclass(frozen=True)
class DefinitionFinding:
    """A finding in the condition of a rule, or in one of the conditions of a correlator's pattern."""

    kind: str
    """`rule` or `correlator`."""
    name: str
    topic: str
    condition: str
    finding: Finding

    def __str__(self) -> str:
        return f"{self.finding.severity} in {self.kind} {self.name} ({self.topic}), {self.finding}"


def findings_on_definitions(
    conn: Connection, event_type: str, values: ValueSet, *, namespace: str | None = None
) -> tuple[DefinitionFinding, ...]:
    """What rules and correlators read of an event type that a schema does not have."""
    with map_database_errors():
        rules = conn.execute(query("schemas/rules"), {"event_type": event_type, "namespace": namespace}).fetchall()
        correlators = conn.execute(query("schemas/correlators"), {"namespace": namespace}).fetchall()
    findings = [
        DefinitionFinding("rule", rule, topic, condition, finding)
        for rule, topic, condition in rules
        for finding in findings_in(condition, values)
    ]
    for correlator, topic, _, pattern in correlators:
        for condition in [text for name, text in pattern_conditions(pattern) if name == event_type]:
            findings += [
                DefinitionFinding("correlator", correlator, topic, condition, finding)
                for finding in findings_in(condition, values)
            ]
    return tuple(findings)


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
    findings: list[tuple[str, Finding]] = []
    for event_type, condition in conditions:
        with map_database_errors():
            rows = conn.execute(query("schemas/schemas"), {"event_type": event_type, "namespace": namespace}).fetchall()
        for row in rows:
            findings += [(event_type, finding) for finding in findings_in(condition, parse_schema(row[2]))]
    if findings:
        texts = {
            severity: [f"{noun}, {event_type}, {finding}" for event_type, finding in findings if finding.severity == severity]
            for severity in ("error", "warning")
        }
        with map_database_errors():
            conn.execute(
                "select headrace.report_findings(%s::text[], %s::text[], %s)", (texts["error"], texts["warning"], namespace)
            )
    return tuple(finding for _, finding in findings)
