"""Why a key of a correlator did not output: its events, step by step, and the smallest change that would have led to an output."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import cast

from psycopg import sql

from headrace.core import UnknownEvent
from headrace.correlators.correlator import get_correlator
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import Sample, Subject, decode_json, explain, micros_of, parse
from headrace.lang.ecl import (
    Change,
    Event,
    NearMiss,
    compile,
    find_near_misses,
    key_to_sql,
    parse as parse_pattern,
    run_events,
)

EVENTS_MAX = 200
CHANGES_MAX = 5
POSITIONS_MAX = 100_000
"""How far back a key is looked for unless a time is given: there is no index by key."""


@dataclass(frozen=True)
class KeyStep:
    """One event of the key: what it did, and the tokens on it or on timers before it."""

    position: int
    type: str
    at: datetime
    moved: bool
    status: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class MissingChange:
    """A change that would have led to an output. `position` is the event it concerns, or the one it should have come before; None:
    after the last."""

    change: Change
    position: int | None
    text: str
    token: str


@dataclass(frozen=True)
class WhyNot:
    """The newest events of a key, and the changes that would have led to an output, the likeliest first.

    `steps` start with a fresh instance at the first of them. Without changes, no single change would have been enough, or the events
    do lead to an output."""

    correlator: str
    key: str
    steps: tuple[KeyStep, ...]
    changes: tuple[MissingChange, ...]
    outputs: int
    """How many tokens these events push."""


def explain_silence(
    conn: Connection,
    name: str,
    key: str = "",
    *,
    since: datetime | None = None,
    token: str | None = None,
    namespace: str | None = None,
) -> WhyNot:
    """Why a key has not output (a token) since a time; without one, in the newest 100 000 events of the topic.

    Raises UnknownCorrelator; UnknownEvent where the key has no events."""
    state = get_correlator(conn, name, namespace=namespace)
    correlator = state.correlator
    with map_database_errors(), conn.transaction():
        moment, rows = _read_events(conn, correlator.topic, correlator.key, key, since, namespace)
    if not rows:
        place = f"since {since}" if since is not None else f"in the newest {POSITIONS_MAX} events of topic {correlator.topic}"
        raise UnknownEvent(f"correlator {name!r}: no event has key {key!r} {place}; check the key, or give an earlier time")
    events = [Event(sample.type, micros_of(at), sample) for _, sample, at in rows]
    pattern = parse_pattern(correlator.pattern)
    steps = tuple(
        KeyStep(position, sample.type, at, step.changed, str(step.status), tuple(output.token for output in step.outputs))
        for (position, sample, at), step in zip(rows, run_events(pattern, tuple(events)), strict=True)
    )
    misses = find_near_misses(compile(pattern), events, until=None if moment is None else micros_of(moment), token=token)
    positions = [position for position, _, _ in rows]
    changes = tuple(_describe(miss, events, positions) for miss in misses[:CHANGES_MAX])
    return WhyNot(name, key, steps, changes, sum(len(step.outputs) for step in steps))


def _read_events(
    conn: Connection, topic: str, key_text: str | None, key: str, since: datetime | None, namespace: str | None
) -> tuple[datetime | None, list[tuple[int, Sample, datetime]]]:
    """The time of the topic, and the newest events of a key with their positions and times."""
    row = conn.execute(query("correlators/topic_time"), {"topic": topic, "namespace": namespace}).fetchone()
    assert row is not None
    topic_id, head, now, _ = row
    expression = "''::text" if key_text is None else key_to_sql(key_text, {})
    # SQL() takes what our own printer made of a checked tree.
    statement = sql.SQL(query("correlators/key_events")).format(key=sql.SQL(expression))
    after = 0 if since is not None else head - POSITIONS_MAX
    parameters = {"topic_id": topic_id, "since": since or "-infinity", "after": after, "key": key, "limit": EVENTS_MAX}
    samples = []
    for position, type_, event_key, payload, headers, emitted_at, appended_at in conn.execute(statement, parameters).fetchall()[
        ::-1
    ]:
        decoded = decode_json(headers)
        sample = Sample(decode_json(payload), type_, event_key, decoded if isinstance(decoded, dict) else {}, emitted_at)
        samples.append((position, sample, appended_at))
    return now, samples


def _describe(miss: NearMiss, events: list[Event], positions: list[int]) -> MissingChange:
    position = positions[miss.number] if miss.number < len(positions) else None
    match miss.change:
        case Change.CONDITION:
            answer = "true" if miss.wanted else "not true"
            text = f"<{miss.text}> would have to be {answer}{_values(miss, events[miss.number])}"
        case Change.LATE:
            text = f"the event came {miss.late_us / 1_000_000:g} s too late"
        case Change.MISSING:
            text = f"an event is missing {'after the last' if position is None else 'before it'}: {miss.text}"
        case Change.EXTRA:
            text = "the event would have to be missing"
    return MissingChange(miss.change, position, text, miss.output.token)


def _values(miss: NearMiss, event: Event) -> str:
    """The values that a condition compared."""
    values = miss.values or [(part.text, part.value) for part in explain(parse(miss.text), cast(Subject, event.subject)).parts]
    shown = ", ".join(f"{text} = {value}" for text, value in values)
    return f"; {shown}" if shown else ""
