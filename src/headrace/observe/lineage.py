"""Trace: the story of an event, from the outbox to the actions its rules and correlators asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from headrace.core import JSON, UnknownEvent
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import Sample, decode_json, parse, to_python


@dataclass(frozen=True)
class RuleEvaluation:
    """A rule version that was in force for the event: what it answered, and whether it fired."""

    rule: str
    version: int
    event_type: str
    condition: str
    timing: str
    answer: bool | None
    """True, False, or None for unknown; None also for an event of another type."""
    fired: bool


@dataclass(frozen=True)
class Firing:
    """A rule version that fired, and the action it asked for."""

    firing_id: int
    rule: str
    version: int
    timing: str
    action: str
    action_id: UUID
    fired_at: datetime


@dataclass(frozen=True)
class Pushed:
    """A token that a correlator pushed on the event, and what it became."""

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


@dataclass(frozen=True)
class Trace:
    """Where an event is and what became of it. No position: it waits for the sequencer. `passed`: the rules have come past it."""

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
    looks: tuple[RuleEvaluation, ...]
    firings: tuple[Firing, ...]
    pushed: tuple[Pushed, ...] = ()
    """What correlators pushed on it."""

    @property
    def outcome(self) -> str:
        """`matched`, `unmatched`, `waiting` (the rules have not come to it), or `not watched` (its topic had no rule)."""
        if self.firings or self.pushed:
            return "matched"
        if not self.passed:
            return "waiting" if self.position is None or self.looks else "not watched"
        return "unmatched" if self.looks else "not watched"


def trace(conn: Connection, event_id: UUID, *, namespace: str | None = None) -> list[Trace]:
    """The story of an event, one per topic it was published to. Raises UnknownEvent."""
    given = {"event_id": event_id, "namespace": namespace}
    with map_database_errors(), conn.transaction():
        with conn.cursor(row_factory=class_row(_Found)) as cursor:
            found = cursor.execute(query("observe/trace_event"), given).fetchall()
        if not found:
            raise UnknownEvent(
                f"there is no event {event_id}, neither in a log nor in the outbox; it may have been dropped by retention"
            )
        return [_told(conn, event) for event in found]


@dataclass(frozen=True)
class _Found:
    """A row of queries/observe/trace_event.sql. The payload also as text, so that no digit is lost for the conditions."""

    topic_id: int
    event_id: UUID
    namespace: str
    topic: str
    position: int | None
    partition: int | None
    type: str
    key: str | None
    payload: JSON
    headers: Mapping[str, JSON]
    payload_text: str
    headers_text: str
    emitted_at: datetime
    appended_at: datetime | None
    producer: str | None
    passed: bool

    def sample(self) -> Sample:
        headers = decode_json(self.headers_text)
        return Sample(
            payload=decode_json(self.payload_text),
            type=self.type,
            key=self.key,
            headers=headers if isinstance(headers, dict) else {},
            emitted_at=self.emitted_at,
        )


def _told(conn: Connection, event: _Found) -> Trace:
    given = {"event_id": event.event_id, "topic_id": event.topic_id, "position": event.position}
    with conn.cursor(row_factory=class_row(Firing)) as cursor:
        firings = cursor.execute(query("observe/trace_firings"), given).fetchall()
    with conn.cursor(row_factory=class_row(Pushed)) as cursor:
        pushed = cursor.execute(query("observe/trace_pushed"), given).fetchall()
    fired = {(firing.rule, firing.version) for firing in firings}
    sample = event.sample()
    looks: list[RuleEvaluation] = []
    for rule, version, event_type, condition, timing in conn.execute(query("observe/trace_looks"), given).fetchall():
        answer = to_python(parse(condition))(sample) if event_type == event.type else None
        looks.append(RuleEvaluation(rule, version, event_type, condition, timing, answer, (rule, version) in fired))
    return Trace(
        event_id=event.event_id,
        namespace=event.namespace,
        topic=event.topic,
        position=event.position,
        partition=event.partition,
        type=event.type,
        key=event.key,
        payload=event.payload,
        headers=event.headers,
        emitted_at=event.emitted_at,
        appended_at=event.appended_at,
        producer=event.producer,
        passed=event.passed,
        looks=tuple(looks),
        firings=tuple(firings),
        pushed=tuple(pushed),
    )
