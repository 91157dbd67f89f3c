"""The direct way into the outbox: one INSERT by a role that may insert there, without the function headrace.publish.

Whether a session may go this way is a guess from its last publish by the function. A wrong guess costs a statement and nothing
else: for any other role, also after SET ROLE, the INSERT finds no topic, inserts nothing and raises no error. The same holds for
a topic whose payloads the database checks."""

from __future__ import annotations

from typing import LiteralString
from weakref import WeakKeyDictionary

from headrace.core import ValidatedEvent
from headrace.log.outbox.statements import ascii_json

# Most events have no headers, time or producer of their own, and most callers name no namespace; every parameter costs the driver
# and the server a microsecond. The columns of the view give texts their type; the casts keep a driver's own codecs away.
_SHORT: LiteralString = """insert into headrace.direct_event (topic, type, key, event_id, payload)
values (%s, %s, %s, cast(cast(%s as text) as uuid), cast(cast(%s as text) as jsonb))"""
_FULL: LiteralString = """insert into headrace.direct_event (topic, type, key, event_id, payload, headers, emitted_at, producer, namespace)
values (%s, %s, %s, cast(cast(%s as text) as uuid), cast(cast(%s as text) as jsonb), cast(cast(%s as text) as jsonb),
    cast(cast(%s as text) as timestamptz), %s, %s)"""

# The same for events that the library has checked by schemas. In any other statement the parameter would cost everybody.
_SHORT_CHECKED: LiteralString = """insert into headrace.direct_event (topic, type, key, event_id, payload, schemas_digest)
values (%s, %s, %s, cast(cast(%s as text) as uuid), cast(cast(%s as text) as jsonb), cast(cast(%s as text) as bigint))"""
_FULL_CHECKED: LiteralString = """insert into headrace.direct_event
    (topic, type, key, event_id, payload, headers, emitted_at, producer, namespace, schemas_digest)
values (%s, %s, %s, cast(cast(%s as text) as uuid), cast(cast(%s as text) as jsonb), cast(cast(%s as text) as jsonb),
    cast(cast(%s as text) as timestamptz), %s, %s, cast(cast(%s as text) as bigint))"""

_FUNCTION_TOPICS_MAX = 1000

# Sessions whose role had the right when they last published by the function; with the topics, by namespace and name, of which an
# INSERT has found none.
_sessions: WeakKeyDictionary[object, set[tuple[str | None, str]]] = WeakKeyDictionary()


def insert_statement(
    session: object | None, event: ValidatedEvent, namespace: str | None
) -> tuple[LiteralString, tuple[str | None, ...]] | None:
    """The INSERT of an event and its parameters; None if the event is better published by the function. `session` is the driver's
    own connection."""
    try:
        function_topics = _sessions.get(session)
    except TypeError:  # No weak reference can point to it.
        return None
    if function_topics is None or (function_topics and (namespace, event.topic) in function_topics):
        return None
    # Not event.id.hex, which takes twice as long.
    values: tuple[str | None, ...] = (event.topic, event.type, event.key, f"{event.id.int:032x}", ascii_json(event.payload))
    if namespace is None and event.headers == "{}" and event.emitted_at is None and event.producer is None:
        return (_SHORT, values) if event.schemas_digest is None else (_SHORT_CHECKED, (*values, event.schemas_digest))
    emitted_at = None if event.emitted_at is None else event.emitted_at.isoformat()
    values = (*values, ascii_json(event.headers), emitted_at, event.producer, namespace)
    return (_FULL, values) if event.schemas_digest is None else (_FULL_CHECKED, (*values, event.schemas_digest))


def remember_way(session: object | None, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
    """Remembers that an event was published by the function, and what that said about the role of the session."""
    if not _can_be_remembered(session):
        return
    if not may_insert:
        _sessions.pop(session, None)
    elif session not in _sessions:
        _sessions[session] = set()
    elif len(function_topics := _sessions[session]) < _FUNCTION_TOPICS_MAX:
        function_topics.add((namespace, event.topic))


def _can_be_remembered(session: object | None) -> bool:
    """False before Django has connected, and for a connection that no weak reference can point to."""
    return session is not None and bool(type(session).__weakrefoffset__)
