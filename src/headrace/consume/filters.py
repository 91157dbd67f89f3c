"""Filters: the statements that read a consumer's events, with its condition evaluated in the database.

Promises: an event that does not meet the condition is claimed like any other, so the cursor passes it; its payload and headers stay
in the database. The condition was parsed, and is printed again from its tree: no text of a user is executed."""

from __future__ import annotations

from typing import Final, LiteralString

from headrace.db import query
from headrace.lang.condition import parse, to_postgres

_CLAIM: Final[
    LiteralString
] = """select position, partition, event_id, topic, type, key, payload, headers, emitted_at, appended_at, producer
from headrace.claim_events(%s::integer, %s::integer, %s::integer, %s::float8, %s::integer)"""
_FILTERED_CLAIM: Final = """select e.position, e.partition, e.event_id, e.topic, e.type, e.key,
    case when m.is_wanted then e.payload end, case when m.is_wanted then e.headers end, e.emitted_at, e.appended_at, e.producer
from headrace.claim_events(%s::integer, %s::integer, %s::integer, %s::float8, %s::integer) e
cross join lateral (select e.event_id is null or {condition} as is_wanted) m"""
_FILTERED_LETTER: Final = """select e.position, e.partition, e.event_id, e.topic, e.type, e.key, e.payload, e.headers, e.emitted_at,
    e.appended_at, e.producer
from ({letter}
) e (position, partition, event_id, topic, type, key, payload, headers, emitted_at, appended_at, producer)
where {condition}"""


def claim_statement(where: str | None) -> LiteralString:
    """Claims a batch. Events that do not meet the condition have no headers."""
    return _CLAIM if where is None else _FILTERED_CLAIM.format(condition=printed_condition(where))


def dead_letter_statement(where: str | None) -> LiteralString:
    """Reads a dead letter. No row for an event that waited behind another one of its key and does not meet the condition."""
    letter = query("consume/read_dead_letter")
    if where is None:
        return letter
    parts = {"letter": letter.rstrip().removesuffix(";"), "condition": printed_condition(where)}
    return _FILTERED_LETTER.format(**parts)


def printed_condition(where: str) -> LiteralString:
    """A condition over the columns of an event, as SQL for a statement with parameters. Raises ConditionError."""
    return to_postgres(parse(where)).replace("%", "%%")
