"""The direct way into the outbox: one INSERT by a role that may insert there, without the function headrace.publish.

Whether a session may go this way is a guess from its last publish by the function. A wrong guess costs a statement and nothing
else: for any other role, also after SET ROLE, the INSERT finds no topic, inserts nothing and raises no error."""

from __future__ import annotations

from time import time
from typing import LiteralString
from weakref import WeakSet

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

_sessions: WeakSet[object] = WeakSet()


def may_go_direct(session: object) -> bool:
    """Had the role of this session the right to insert into the outbox when it last published by the function?"""
    return session in _sessions


def remember_right(session: object | None, may_insert: bool) -> None:
    """Remembers what the function said about the role of a session, the driver's own connection."""
    if not may_insert:
        _sessions.discard(session)
    # A driver's connection that no weak reference can point to publishes by the function.
    elif getattr(type(session), "__weakrefoffset__", 0):
        _sessions.add(session)


def insert_statement(event: ValidatedEvent, namespace: str | None) -> tuple[LiteralString, tuple[str | None, ...]]:
    """The INSERT of an event and its parameters. It inserts no row if the topic is unknown or the role has no right."""
    # By our own clock, which spares the server an expression. Any slot is right; see headrace_internal.outbox_slot.
    slot = _SLOTS[int(time()) // 8 % 8]
    values = (slot, event.id.hex, event.type, event.key, ascii_json(event.payload))
    if event.headers == "{}" and event.emitted_at is None and event.producer is None:
        return _SHORT, (*values, namespace, event.topic)
    emitted_at = None if event.emitted_at is None else event.emitted_at.isoformat()
    return _FULL, (*values, ascii_json(event.headers), emitted_at, event.producer, namespace, event.topic)
