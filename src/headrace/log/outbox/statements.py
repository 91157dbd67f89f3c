"""The statements of publishing, with their parameters and rows: the function headrace.publish, the INSERT of a role that may insert into
the outbox itself, and COPY. Values travel as text and are cast in the statement, so that a driver's own codecs cannot change them; only
COPY is binary.

Whether a session may go the direct way, by INSERT, is a guess from its last publish by the function. A wrong guess costs a statement and
nothing else: for any other role, also after SET ROLE, the INSERT finds no topic, inserts nothing and raises no error. The same holds for
a topic whose payloads the database checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct, pack
from typing import LiteralString
from weakref import WeakKeyDictionary

import msgspec

from headrace.core import EVENT_COLUMNS, Invalid, ValidatedEvent
from headrace.drivers import Rows

ARRAY_BYTES_MAX = 200_000_000
"""jsonb holds 256 MB in one array."""

_PUBLISH: LiteralString = """select headrace.publish(
    p_topic => cast(%s as text),
    p_type => cast(%s as text),
    p_payload => cast(cast(%s as text) as jsonb),
    p_key => cast(%s as text),
    p_headers => cast(cast(%s as text) as jsonb),
    p_event_id => cast(cast(%s as text) as uuid),
    p_emitted_at => cast(cast(%s as text) as timestamptz),
    p_producer => cast(%s as text),
    p_namespace => cast(%s as text)"""
_PUBLISH_MANY: LiteralString = """select count(*) from headrace.publish_many(
    p_events => cast(cast(%s as text) as jsonb), p_namespace => cast(%s as text)"""
_MISSING_OK: LiteralString = ", p_missing_ok => true)"
# These report an unknown topic by their result, null or 0, since an error would abort the caller's transaction. The strict ones
# raise the error: they run in a savepoint, and only after the others have found no topic.
PUBLISH = _PUBLISH + _MISSING_OK + ", has_schema_privilege('headrace_internal', 'usage')"
"""The event's id, and whether the role is one that may insert into the outbox itself."""
PUBLISH_STRICT = _PUBLISH + ")"
PUBLISH_MANY = _PUBLISH_MANY + _MISSING_OK
PUBLISH_MANY_STRICT = _PUBLISH_MANY + ")"
# One row per topic, in their order, and the sequencer wakes at commit. No row if this role or session may not COPY into the outbox,
# or a topic is unknown or checks payloads by other schemas than the library has.
COPY_ROUTE = """select r.topic_id, r.clock_us, r.slot from headrace.copy_route(
    cast(%s as text[]), cast(%s as text), cast(cast(%s as text) as bigint)) r"""

_beyond_ascii = re.compile(r"[^\x00-\x7f]+")

_TYPES: dict[LiteralString, LiteralString] = {
    "schemas_digest": "bigint",
    **{column.name: column.type for column in EVENT_COLUMNS},
}


def _insert(*columns: LiteralString) -> LiteralString:
    # The columns of the view give texts their type; the casts keep a driver's own codecs away.
    values = (_TYPES.get(name, "text") for name in columns)
    casts = ["%s" if type == "text" else "cast(cast(%s as text) as " + type + ")" for type in values]
    return "insert into headrace.direct_event (" + ", ".join(columns) + ")\nvalues (" + ", ".join(casts) + ")"


# Most events have no headers, time or producer of their own, and most callers name no namespace; every parameter costs the driver
# and the server a microsecond.
_SHORT = _insert("topic", "type", "key", "event_id", "payload")
_FULL = _insert("topic", "type", "key", "event_id", "payload", "headers", "emitted_at", "producer", "namespace")
# The same for events that the library has checked by schemas. In any other statement the parameter would cost everybody.
_SHORT_CHECKED = _insert("topic", "type", "key", "event_id", "payload", "schemas_digest")
_FULL_CHECKED = _insert(
    "topic", "type", "key", "event_id", "payload", "headers", "emitted_at", "producer", "namespace", "schemas_digest"
)

_FUNCTION_TOPICS_MAX = 1000

# Sessions whose role had the INSERT privilege when they last published by the function, and the topics, by namespace and name, that
# an INSERT could not find.
_sessions: WeakKeyDictionary[object, set[tuple[str | None, str]]] = WeakKeyDictionary()

COPY_CHUNK_ROWS = 256
# The columns that repeat come first: their bytes are built once for all events that share them.
COPY_COLUMNS = ("topic_id", "slot", "type", "producer", "emitted_at", "event_id", "key", "payload", "headers")

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_NO_HEADERS = pack("!iB", 3, 1) + b"{}"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_id_and_length = Struct("!i16si").pack
_jsonb_length = Struct("!iB").pack
_time = Struct("!iq").pack


def publish_parameters(event: ValidatedEvent, namespace: str | None) -> tuple[str | None, ...]:
    """The parameters of PUBLISH."""
    return (
        event.topic,
        event.type,
        ascii_json(event.payload),
        event.key,
        ascii_json(event.headers),
        event.id.hex,
        event.emitted_at.isoformat() if event.emitted_at else None,
        event.producer,
        namespace,
    )


def json_array(events: Sequence[ValidatedEvent]) -> str:
    """A batch as one JSON array, for PUBLISH_MANY."""
    text = msgspec.json.encode(
        [
            {
                "topic": event.topic,
                "type": event.type,
                "payload": msgspec.Raw(event.payload.encode()),
                "key": event.key,
                "headers": msgspec.Raw(event.headers.encode()),
                "id": event.id,
                "emitted_at": event.emitted_at and event.emitted_at.isoformat(),
                "producer": event.producer,
            }
            for event in events
        ]
    )
    if len(text) > ARRAY_BYTES_MAX:
        raise Invalid(
            f"the batch has {len(text)} bytes, at most {ARRAY_BYTES_MAX} are possible without COPY; publish smaller batches"
        )
    return ascii_json(text.decode())


def ascii_json(text: str) -> str:
    """The same JSON in ASCII, which a client of any encoding can send."""
    return text if text.isascii() else _beyond_ascii.sub(lambda match: json.dumps(match[0])[1:-1], text)


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


def record_insert_privilege(session: object | None, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
    """Records, after an event was published by the function, whether the session's role may insert into the outbox."""
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


def binary_rows(events: Sequence[ValidatedEvent], topics: Sequence[str], route: Rows) -> Iterator[bytes]:
    """The whole stream of a COPY in PostgreSQL's binary format, in chunks: half the server's work of the text format, and nothing to
    escape. `route` has a row per topic: its id, the time of events without one, the outbox slot."""
    topic_ids = {topic: topic_id for topic, (topic_id, _, _) in zip(topics, route, strict=True)}
    _, clock_us, slot = route[0]
    prefixes: dict[tuple[str, str, str | None], bytes] = {}
    clock = _time(8, clock_us)
    yield _HEADER
    for start in range(0, len(events), COPY_CHUNK_ROWS):
        parts: list[bytes] = []
        for row in events[start : start + COPY_CHUNK_ROWS]:
            names = (row.topic, row.type, row.producer)
            prefix = prefixes.get(names) or prefixes.setdefault(names, _prefix(topic_ids[row.topic], slot, row))
            payload = row.payload.encode()
            parts += (prefix, clock if row.emitted_at is None else _time(8, (row.emitted_at - _EPOCH) // _MICROSECOND))
            if row.key is None:
                parts += (_id_and_length(16, row.id.bytes, -1), _jsonb_length(len(payload) + 1, 1), payload)
            else:
                key = row.key.encode()
                parts += (_id_and_length(16, row.id.bytes, len(key)), key, _jsonb_length(len(payload) + 1, 1), payload)
            parts.append(_NO_HEADERS if row.headers == "{}" else _jsonb(row.headers))
        yield b"".join(parts)
    yield _TRAILER


def _prefix(topic_id: int, slot: int, row: ValidatedEvent) -> bytes:
    """The number of columns, and the columns that repeat from row to row."""
    ids = pack("!hiiih", len(COPY_COLUMNS), 4, topic_id, 2, slot)
    return ids + _text(row.type) + (_NULL if row.producer is None else _text(row.producer))


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("!i", len(data)) + data


def _jsonb(text: str) -> bytes:
    data = text.encode()
    # Version 1 of jsonb's binary format is its text.
    return _jsonb_length(len(data) + 1, 1) + data
