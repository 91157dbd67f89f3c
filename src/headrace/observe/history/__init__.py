"""History: what happened to an event or an action, and why a rule did not fire.

Where an event is, what rules and correlators did with it, and what became of the actions; everything that is known of one action, by its
id; and the first thing that stood in the way of a rule, with the clauses that did not hold. Promises: it only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import dict_row

from headrace.actions import (
    Attempt,
    DeadLetter,
    QueuedAction,
    Result,
    list_attempts,
    list_dead_letters,
    list_queued,
    list_results,
)
from headrace.core import JSON, UnknownAction, UnknownEvent
from headrace.db import Connection, fetch_rows, map_database_errors, query
from headrace.lang.condition import ClauseValue, Condition, Sample, decode_json, explain, parse, to_python
from headrace.observe.tracing import read_trace_context
from headrace.rules import get_rule

__all__ = [
    "ActionHistory",
    "ActionOverview",
    "ConsumerProgress",
    "CorrelatorOutput",
    "EventHistory",
    "Firing",
    "RuleEvaluation",
    "RuleWhyNot",
    "action_overview",
    "event_history",
    "explain_rule",
]


@dataclass(frozen=True)
class RuleEvaluation:
    """A rule version that was active for the event: its answer, and whether it fired."""

    rule: str
    version: int
    event_type: str
    condition: str
    timing: str
    answer: bool | None
    """True, False, or None for unknown; also None if the event has another type."""
    fired: bool


@dataclass(frozen=True)
class Firing:
    """A rule version that fired, and the action it sent."""

    firing_id: int
    rule: str
    version: int
    timing: str
    action: str
    action_id: UUID
    fired_at: datetime


@dataclass(frozen=True)
class CorrelatorOutput:
    """A token that a correlator produced on the event, or that a timer produced later because of it, and the action or event it became."""

    correlation_id: int
    correlator: str
    version: int
    key: str
    token: str
    becomes: str | None
    name: str | None
    output_id: UUID
    evidence: list[int]
    fired_at: datetime
    timer: bool
    """A timer produced it later; the event is part of its evidence."""


@dataclass(frozen=True)
class ActionHistory:
    """An action that a rule sent: its failed attempts, its results, and its dead letter."""

    firing: Firing
    attempts: tuple[Attempt, ...]
    results: tuple[Result, ...]
    dead_letter_id: int | None
    redriven: bool
    """Its newest dead letter was redriven, and the action has no result since."""

    @property
    def state(self) -> Literal["waiting", "retrying", "done", "dead", "cancelled", "redriven", "discarded"]:
        """`discarded`: its dead letter was deleted."""
        if self.redriven:
            return "redriven"
        if not self.results:
            return "retrying" if self.attempts else "waiting"
        if self.results[-1].outcome != "dead":
            return self.results[-1].outcome
        return "discarded" if self.dead_letter_id is None else "dead"


@dataclass(frozen=True)
class ConsumerProgress:
    """How far a consumer is with the event."""

    consumer: str
    position: int
    """Its cursor stands here in the event's partition."""
    nodes: int
    """How many live nodes run the consumer."""
    error: str | None
    retry_at: datetime | None
    state: str
    """`handled`, `waiting`, `retrying`, `stopped`, `idle` (no live node runs it), `passed` (the consumer is younger than the event
    and may have started behind it), or what became of its dead letter."""


@dataclass(frozen=True)
class Obstacle:
    """What keeps the event from going on: a failure that is retried."""

    what: str
    error: str
    failures: int
    retry_at: datetime | None


@dataclass(frozen=True)
class EventHistory:
    """An event in one topic and everything that followed. Without a position it waits for the sequencer."""

    event_id: UUID
    namespace: str
    topic: str
    position: int | None
    partition: int | None
    type: str
    key: str | None
    payload: JSON
    headers: Mapping[str, JSON]
    emitted_at: datetime
    appended_at: datetime | None
    producer: str | None
    passed: bool
    """The rules have handled its position."""
    evaluations: tuple[RuleEvaluation, ...]
    firings: tuple[Firing, ...]
    outputs: tuple[CorrelatorOutput, ...]
    actions: tuple[ActionHistory, ...]
    obstacles: tuple[Obstacle, ...] = ()
    """Failures of the sequencer, the rules, the correlators and the consumers before or at its position."""
    consumers: tuple[ConsumerProgress, ...] = ()
    """The consumers of its topic; empty while the event has no position."""

    @property
    def trace_id(self) -> str | None:
        """The trace of its publisher, from the header `traceparent`; None if there is none or it is malformed."""
        context = read_trace_context(self.headers)
        return context.trace_id if context else None

    @property
    def outcome(self) -> str:
        """`matched`, `unmatched`, `waiting` (for the rules), or `not watched` (its topic had no rule)."""
        if self.firings or self.outputs:
            return "matched"
        if not self.passed:
            return "waiting" if self.position is None or self.evaluations else "not watched"
        return "unmatched" if self.evaluations else "not watched"


def event_history(conn: Connection, event_id: UUID, *, namespace: str | None = None) -> list[EventHistory]:
    """The history of an event, one for each topic it was published to. Raises UnknownEvent."""
    with map_database_errors(), conn.transaction():
        return [_history(conn, row) for row in _find_event(conn, event_id, namespace)]


def _find_event(conn: Connection, event_id: UUID, namespace: str | None) -> list[dict[str, Any]]:
    """The event, a row for each topic it was published to. Raises UnknownEvent."""
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("observe/event"), {"event_id": event_id, "namespace": namespace}).fetchall()
    if not rows:
        raise UnknownEvent(f"there is no event {event_id} in a log or in the outbox; retention may have dropped it")
    return rows


def _sample(row: dict[str, Any]) -> Sample:
    """The event as a condition reads it: from its texts, so that no digit is lost."""
    payload, headers = decode_json(row.pop("payload_text")), decode_json(row.pop("headers_text"))
    return Sample(payload, row["type"], row["key"], headers if isinstance(headers, dict) else {}, row["emitted_at"])


def _history(conn: Connection, row: dict[str, Any]) -> EventHistory:
    sample = _sample(row)
    parameters = {"event_id": row["event_id"], "topic_id": row.pop("topic_id"), "position": row["position"]}
    parameters["appended_at"] = row["appended_at"]
    parameters |= {field: row[field] for field in ("namespace", "topic", "partition")}
    firings = tuple(fetch_rows(conn, Firing, query("observe/firings"), parameters))
    fired = {(firing.rule, firing.version) for firing in firings}
    evaluations = []
    for rule, version, event_type, condition, timing in conn.execute(query("observe/rule_versions"), parameters).fetchall():
        answer = to_python(parse(condition))(sample) if event_type == sample.type else None
        evaluations.append(RuleEvaluation(rule, version, event_type, condition, timing, answer, (rule, version) in fired))
    return EventHistory(
        **row,
        evaluations=tuple(evaluations),
        firings=firings,
        outputs=tuple(fetch_rows(conn, CorrelatorOutput, query("observe/outputs"), parameters)),
        actions=_actions(conn, firings, row["namespace"]),
        obstacles=tuple(fetch_rows(conn, Obstacle, query("observe/failures"), parameters)),
        consumers=tuple(fetch_rows(conn, ConsumerProgress, query("observe/consumers"), parameters)),
    )


def _actions(conn: Connection, firings: tuple[Firing, ...], namespace: str) -> tuple[ActionHistory, ...]:
    ids = [firing.action_id for firing in firings]
    if not ids:
        return ()
    attempts, results = list_attempts(conn, ids, namespace=namespace), list_results(conn, ids, namespace=namespace)
    dead = [result.action_id for result in results if result.outcome == "dead"]
    letters = list_dead_letters(conn, action_ids=dead, ended=True, limit=None, namespace=namespace) if dead else []
    histories = []
    for firing in firings:
        own_results = tuple(result for result in results if result.action_id == firing.action_id)
        own_letters = (letter for letter in letters if letter.original_id == firing.action_id)
        letter = max(own_letters, key=lambda letter: letter.buried_at, default=None)
        redriven_at = letter.redriven_at if letter else None
        histories.append(
            ActionHistory(
                firing=firing,
                attempts=tuple(attempt for attempt in attempts if attempt.action_id == firing.action_id),
                results=own_results,
                dead_letter_id=int(letter.id) if letter and redriven_at is None else None,
                redriven=redriven_at is not None and own_results[-1].ended_at < redriven_at,
            )
        )
    return tuple(histories)


@dataclass(frozen=True)
class ActionOverview:
    """An action, in the queue or ended. `cause`: the rule or correlator that sent it, and the event; empty if a program sent it."""

    action_id: UUID
    action: str
    cause: Mapping[str, JSON]
    queued: QueuedAction | None
    attempts: tuple[Attempt, ...]
    """Its failed attempts."""
    results: tuple[Result, ...]
    """One for each time it ended: a redriven action has several."""
    dead_letter: DeadLetter | None

    @property
    def state(self) -> Literal["due", "in-flight", "retrying", "delayed", "held", "done", "dead", "cancelled", "discarded"]:
        """Its state in the queue, or else how it ended. `discarded`: its dead letter was given up."""
        if self.queued:
            return self.queued.state
        outcome = self.results[-1].outcome
        return "discarded" if outcome == "dead" and self.dead_letter is None else outcome


def action_overview(conn: Connection, action_id: UUID, *, namespace: str | None = None) -> ActionOverview:
    """Everything that is known of an action. Raises UnknownAction."""
    with conn.transaction():
        queued = next(iter(list_queued(conn, ids=[action_id], namespace=namespace)), None)
        attempts = list_attempts(conn, [action_id], namespace=namespace)
        results = list_results(conn, [action_id], namespace=namespace)
        if not (queued or results):
            raise UnknownAction(f"there is no action {action_id}: it is not in the queue, and results are kept for 30 days")
        name = (queued.action if queued else results[-1].action) or ""
        is_dead = bool(results) and results[-1].outcome == "dead"
        letters = list_dead_letters(conn, action_ids=[action_id], limit=None, namespace=namespace) if is_dead else []
        dead_letter = letters[-1] if letters else None
        cause = _cause(conn, action_id, queued, dead_letter, results[-1] if results else None, namespace)
    return ActionOverview(
        action_id=action_id,
        action=name,
        cause=cause,
        queued=queued,
        attempts=tuple(attempts),
        results=tuple(results),
        dead_letter=dead_letter,
    )


def _cause(
    conn: Connection,
    action_id: UUID,
    queued: QueuedAction | None,
    dead_letter: DeadLetter | None,
    result: Result | None,
    namespace: str | None,
) -> Mapping[str, JSON]:
    if queued:
        return queued.cause or {}
    if dead_letter and isinstance(dead_letter.envelope, dict):
        cause = dead_letter.envelope.get("cause")
        return cause if isinstance(cause, dict) else {}
    if result is None or result.event_id is None:
        return {}
    # The action itself is gone: its firing or output is found by the event.
    with map_database_errors(), conn.cursor(row_factory=dict_row) as cursor:
        parameters = {"action_id": action_id, "event_id": result.event_id, "namespace": namespace}
        row = cursor.execute(query("observe/action_cause"), parameters).fetchone()
    cause_row = {name: value for name, value in row.items() if value is not None} if row else {}
    return cause_row or {"event_id": str(result.event_id)}


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
        rows = _find_event(conn, event_id, namespace)
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
    subject = (rule, event_id, row["topic"], row["position"], number)
    if (rule, number) in fired:
        return RuleWhyNot(*subject, True, "it fired")
    if event_type != row["type"]:
        return RuleWhyNot(*subject, False, f"the rule is for type {event_type}, the event has type {row['type']}")
    parsed, sample = parse(condition), _sample(row)
    failing = _failing(parsed, explain(parsed, sample))
    if failing:
        return RuleWhyNot(*subject, False, f"the condition is {explain(parsed, sample).value}", failing)
    paused = "; the rule is paused" if state.paused else ""
    waiting = "its rules have not reached the event yet" if not row["passed"] else "it was recorded without a firing"
    return RuleWhyNot(*subject, False, f"the condition is true, but {waiting}{paused}; see: headrace trace {event_id}")


def _failing(condition: Condition, explanation: ClauseValue) -> tuple[ClauseValue, ...]:
    """The operands of an `and` that are not true; else the whole condition, if it is not."""
    if explanation.value == "true":
        return ()
    clauses = condition.clauses
    if len(clauses) == 1:
        return (explanation,)
    texts = {clause.text for clause in clauses}
    return tuple(part for part in explanation.parts if part.text in texts and part.value != "true")
