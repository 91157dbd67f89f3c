"""The direct way into the outbox: one INSERT by a role that may insert there, without the function headrace.publish.

Whether a session may go this way is a guess from its last publish by the function. A wrong guess costs a statement and nothing
else: for any other role, also after SET ROLE, the INSERT finds no topic, inserts nothing and raises no error. The same holds for
a topic whose payloads the database checks."""

from __future__ import annotations

from time import time
from typing import LiteralString
from weakref import WeakKeyDictionary

from headrace.core import ValidatedEvent
from headrace.outbox.statements import ascii_json

_INSERT: LiteralString = "insert into headrace.direct_outbox (slot, topic_id, event_id, type, key, payload"
_VALUES: LiteralString = """select cast(cast(%s as text) as smallint), t.topic_id, cast(cast(%s as text) as uuid), cast(%s as text),
    cast(%s as text), cast(cast(%s as text) as jsonb)"""
_FROM: LiteralString = """
from headrace.direct_topic t
where t.namespace = (select headrace.current_namespace(cast(%s as text))) and t.topic = cast(%s as text)"""
# Most events have no headers, time or producer of their own; every parameter costs the driver and the server a microsecond.
_SHORT = _INSERT + ")\n" + _VALUES + _FROM
_FULL = (
    _INSERT
    + ", headers, emitted_at, producer)\n"
    + _VALUES
    + """,
    cast(cast(%s as text) as jsonb), coalesce(cast(cast(%s as text) as timestamptz), headrace.clock()), cast(%s as text)"""
    + _FROM
)
_SLOTS = tuple(map(str, range(8)))
"""The slots of the outbox, see headrace_internal.outbox_slot."""

_FUNCTION_TOPICS_MAX = 1000

# Sessions whose role had the right when they last published by the function; with the topics, by namespace and name, of which an
# INSERT has found none.
_sessions: WeakKeyDictionary[object, set[tuple[str | None, str]]] = WeakKeyDictionary()


def insert_statement(
    session: object | None, event: ValidatedEvent, namespace: str | None
) -> tuple[LiteralString, tuple[str | None, ...]] | None:
    """The INSERT of an event and its parameters; None if the event is better published by the function. `session` is the driver's
    own connection."""
    function_topics = _sessions.get(session) if _can_be_remembered(session) else None
    if function_topics is None or (namespace, event.topic) in function_topics:
        return None
    # By our own clock, which spares the server an expression. Any slot is right; see headrace_internal.outbox_slot.
    slot = _SLOTS[int(time()) // 8 % 8]
    values = (slot, event.id.hex, event.type, event.key, ascii_json(event.payload))
    if event.headers == "{}" and event.emitted_at is None and event.producer is None:
        return _SHORT, (*values, namespace, event.topic)
    emitted_at = None if event.emitted_at is None else event.emitted_at.isoformat()
    return _FULL, (*values, ascii_json(event.headers), emitted_at, event.producer, namespace, event.topic)


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
