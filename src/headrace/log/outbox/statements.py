"""The statements of publishing, with their parameters and rows: one INSERT, the function headrace.publish, and COPY. Values travel as text
and are cast in the statement, so that a driver's own codecs cannot change them; only COPY is binary.

The INSERT names the table of the outbox whose turn it is by this computer's clock. A clock that is wrong costs nothing: events are
found in any table, and only its truncation comes later. For an unknown topic it inserts nothing and raises no error, because an error
would abort the caller's transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct, pack
from time import time
from typing import LiteralString

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
PUBLISH = _PUBLISH + _MISSING_OK
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


def _inserts(*columns: LiteralString) -> list[LiteralString]:
    """An INSERT for each table of the outbox."""
    # The columns of the view give texts their type; the casts keep a driver's own codecs away.
    values = (_TYPES.get(name, "text") for name in columns)
    casts: list[LiteralString] = ["%s" if type == "text" else "cast(cast(%s as text) as " + type + ")" for type in values]
    # The limits are checked here, and an unknown topic is no error. As constants, both cost nothing.
    row = " (" + ", ".join([*columns, "is_checked", "missing_ok"]) + ")\nvalues (" + ", ".join([*casts, "true", "true"]) + ")"
    views: list[LiteralString] = ["event_0", "event_1", "event_2"]
    return ["insert into headrace." + view + row for view in views]


# Most events have no headers, time or producer of their own, most callers name no namespace, and most topics have no schemas; every
# parameter costs the driver and the server a microsecond.
_SHORT = _inserts("topic", "type", "key", "event_id", "payload")
_FULL = _inserts(
    "topic", "type", "key", "event_id", "payload", "headers", "emitted_at", "producer", "namespace", "schemas_digest"
)
_TURN_S = 4
"""How long a table of the outbox is written to; see headrace.outbox_slot."""

COPY_CHUNK_ROWS = 256
# The columns that repeat come first: their bytes are built once for all events that share them.
COPY_COLUMNS = ("topic_id", "type", "producer", "emitted_at", "event_id", "key", "payload", "headers")

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


def insert_statement(event: ValidatedEvent, namespace: str | None) -> tuple[LiteralString, tuple[str | None, ...]]:
    """The INSERT of an event and its parameters."""
    slot = int(time()) // _TURN_S % len(_SHORT)
    # Not event.id.hex, which takes twice as long.
    values: tuple[str | None, ...] = (event.topic, event.type, event.key, f"{event.id.int:032x}", ascii_json(event.payload))
    if (
        namespace is None
        and event.headers == "{}"
        and event.emitted_at is None
        and event.producer is None
        and event.schemas_digest is None
    ):
        return _SHORT[slot], values
    emitted_at = None if event.emitted_at is None else event.emitted_at.isoformat()
    return _FULL[slot], (*values, ascii_json(event.headers), emitted_at, event.producer, namespace, event.schemas_digest)


def copy_table(route: Rows) -> LiteralString:
    """The table of the outbox that COPY_ROUTE has locked."""
    tables: list[LiteralString] = ["outbox_0", "outbox_1", "outbox_2"]
    return tables[route[0][2]]


def binary_rows(events: Sequence[ValidatedEvent], topics: Sequence[str], route: Rows) -> Iterator[bytes]:
    """The whole stream of a COPY in PostgreSQL's binary format, in chunks: half the server's work of the text format, and nothing to
    escape. `route` has a row per topic: its id, the time of events without one, the table of the outbox."""
    topic_ids = {topic: topic_id for topic, (topic_id, _, _) in zip(topics, route, strict=True)}
    clock_us = route[0][1]
    prefixes: dict[tuple[str, str, str | None], bytes] = {}
    clock = _time(8, clock_us)
    yield _HEADER
    for start in range(0, len(events), COPY_CHUNK_ROWS):
        parts: list[bytes] = []
        for row in events[start : start + COPY_CHUNK_ROWS]:
            names = (row.topic, row.type, row.producer)
            prefix = prefixes.get(names) or prefixes.setdefault(names, _prefix(topic_ids[row.topic], row))
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


def _prefix(topic_id: int, row: ValidatedEvent) -> bytes:
    """The number of columns, and the columns that repeat from row to row."""
    ids = pack("!hii", len(COPY_COLUMNS), 4, topic_id)
    return ids + _text(row.type) + (_NULL if row.producer is None else _text(row.producer))


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("!i", len(data)) + data


def _jsonb(text: str) -> bytes:
    data = text.encode()
    # Version 1 of jsonb's binary format is its text.
    return _jsonb_length(len(data) + 1, 1) + data
