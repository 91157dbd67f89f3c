"""Why a rule did not fire on an event: the first thing that stood in the way, and the clauses that did not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from headrace.core import UnknownEvent
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import ClauseValue, Condition, Sample, decode_json, explain, parse
from headrace.rules import get_rule


@dataclass(frozen=True)
class RuleWhyNot:
    """Why a rule did not fire on an event. `fired`: it did. `failing` are the clauses that did not hold, with the values they read."""

    rule: str
    event_id: UUID
    topic: str
    position: int | None
    version: int | None
    fired: bool
    reason: str
    failing: tuple[ClauseValue, ...] = ()


def explain_rule(conn: Connection, rule: str, event_id: UUID, *, namespace: str | None = None) -> RuleWhyNot:
    """Why a rule did not fire on an event. Raises UnknownRule, UnknownEvent."""
    state = get_rule(conn, rule, namespace=namespace)
    with map_database_errors(), conn.transaction():
        with conn.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(query("observe/event"), {"event_id": event_id, "namespace": namespace}).fetchall()
        if not rows:
            raise UnknownEvent(f"there is no event {event_id} in a log or in the outbox; retention may have dropped it")
        row = next((row for row in rows if row["topic"] == state.rule.topic), None)
        if row is None:
            topics = ", ".join(row["topic"] for row in rows)
            reason = f"the rule reads topic {state.rule.topic}, the event is in {topics}"
            return RuleWhyNot(rule, event_id, rows[0]["topic"], rows[0]["position"], None, False, reason)
        parameters = {"topic_id": row["topic_id"], "position": row["position"], "event_id": event_id}
        versions = conn.execute(query("observe/rule_versions"), parameters).fetchall()
        firings = conn.execute(query("observe/firings"), parameters).fetchall()
    fired = {(firing[1], firing[2]) for firing in firings}
    version = next((version for version in versions if version[0] == rule), None)
    if version is None:
        at = "now" if row["position"] is None else f"at position {row['position']}"
        since = "never" if state.since_position is None else f"from position {state.since_position}"
        error = f"; it is {state.status}: {state.error}" if state.error else ""
        reason = f"no version of the rule was active {at}; the newest is active {since}{error}"
        return RuleWhyNot(rule, event_id, row["topic"], row["position"], None, False, reason)
    _, number, event_type, condition, _ = version
    place = (rule, event_id, row["topic"], row["position"], number)
    if (rule, number) in fired:
        return RuleWhyNot(*place, True, "it fired")
    if event_type != row["type"]:
        return RuleWhyNot(*place, False, f"the rule is for type {event_type}, the event has type {row['type']}")
    parsed, sample = parse(condition), _sample(row)
    failing = _failing(parsed, explain(parsed, sample))
    if failing:
        return RuleWhyNot(*place, False, f"the condition is {explain(parsed, sample).value}", failing)
    paused = "; the rule is paused" if state.paused else ""
    waiting = "its rules have not reached the event yet" if not row["passed"] else "it was recorded without a firing"
    return RuleWhyNot(*place, False, f"the condition is true, but {waiting}{paused}; see: headrace trace {event_id}")


def _sample(row: dict[str, Any]) -> Sample:
    """The event as a condition reads it: from its texts, so that no digit is lost."""
    payload, headers = decode_json(row["payload_text"]), decode_json(row["headers_text"])
    return Sample(payload, row["type"], row["key"], headers if isinstance(headers, dict) else {}, row["emitted_at"])


def _failing(condition: Condition, explanation: ClauseValue) -> tuple[ClauseValue, ...]:
    """The operands of an `and` that are not true; else the whole condition, if it is not."""
    if explanation.value == "true":
        return ()
    clauses = condition.clauses
    if len(clauses) == 1:
        return (explanation,)
    texts = {clause.text for clause in clauses}
    return tuple(part for part in explanation.parts if part.text in texts and part.value != "true")
