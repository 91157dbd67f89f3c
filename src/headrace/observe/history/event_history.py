"""Event history: where an event is, what rules and correlators did with it, and what became of the actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row, dict_row

from headrace.actions import Attempt, Result, list_attempts, list_dead_letters, list_results
from headrace.core import JSON, UnknownEvent
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import Sample, decode_json, parse, to_python
from headrace.observe.tracing import read_trace_context


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
    """Of its cursor, in the event's partition."""
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
        with conn.cursor(row_factory=dict_row) as cursor:
            parameters = {"event_id": event_id, "namespace": namespace}
            rows = cursor.execute(query("observe/event"), parameters).fetchall()
        if not rows:
            raise UnknownEvent(f"there is no event {event_id} in a log or in the outbox; retention may have dropped it")
        return [_history(conn, row) for row in rows]


def _history(conn: Connection, row: dict[str, Any]) -> EventHistory:
    # Conditions read payload and headers from their text, so that no digit is lost.
    payload, headers = decode_json(row.pop("payload_text")), decode_json(row.pop("headers_text"))
    about = {field: row[field] for field in ("type", "key", "emitted_at")}
    sample = Sample(payload=payload, headers=headers if isinstance(headers, dict) else {}, **about)
    parameters = {"event_id": row["event_id"], "topic_id": row.pop("topic_id"), "position": row["position"]}
    parameters["appended_at"] = row["appended_at"]
    place = {field: row[field] for field in ("namespace", "topic", "partition")}
    with conn.cursor(row_factory=class_row(Firing)) as cursor:
        firings = tuple(cursor.execute(query("observe/firings"), parameters).fetchall())
    with conn.cursor(row_factory=class_row(CorrelatorOutput)) as cursor:
        outputs = tuple(cursor.execute(query("observe/outputs"), parameters).fetchall())
    with conn.cursor(row_factory=class_row(Obstacle)) as cursor:
        obstacles = tuple(cursor.execute(query("observe/failures"), parameters | place).fetchall())
    with conn.cursor(row_factory=class_row(ConsumerProgress)) as cursor:
        consumers = tuple(cursor.execute(query("observe/consumers"), parameters | place).fetchall())
    fired = {(firing.rule, firing.version) for firing in firings}
    evaluations = []
    for rule, version, event_type, condition, timing in conn.execute(query("observe/rule_versions"), parameters).fetchall():
        answer = to_python(parse(condition))(sample) if event_type == sample.type else None
        evaluations.append(RuleEvaluation(rule, version, event_type, condition, timing, answer, (rule, version) in fired))
    actions = _actions(conn, firings, row["namespace"])
    return EventHistory(
        **row,
        evaluations=tuple(evaluations),
        firings=firings,
        outputs=outputs,
        actions=actions,
        obstacles=obstacles,
        consumers=consumers,
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
