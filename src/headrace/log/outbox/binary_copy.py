"""Rows for COPY in PostgreSQL's binary format: half the server's work of the text format, and nothing to escape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct, pack

from headrace.core import ValidatedEvent
from headrace.drivers import Rows

CHUNK_ROWS = 256
# The columns that repeat come first: their bytes are built once for all events that share them.
COLUMNS = ("topic_id", "slot", "type", "producer", "emitted_at", "event_id", "key", "payload", "headers")

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_NO_HEADERS = pack("!iB", 3, 1) + b"{}"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_id_and_length = Struct("!i16si").pack
_jsonb_length = Struct("!iB").pack
_time = Struct("!iq").pack


def binary_rows(events: Sequence[ValidatedEvent], topics: Sequence[str], route: Rows) -> Iterator[bytes]:
    """The whole COPY stream, in chunks. `route` has a row per topic: its id, the time of events without one, the outbox slot."""
    topic_ids = {topic: topic_id for topic, (topic_id, _, _) in zip(topics, route, strict=True)}
    _, clock_us, slot = route[0]
    prefixes: dict[tuple[str, str, str | None], bytes] = {}
    clock = _time(8, clock_us)
    yield _HEADER
    for start in range(0, len(events), CHUNK_ROWS):
        parts: list[bytes] = []
        for row in events[start : start + CHUNK_ROWS]:
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
    ids = pack("!hiiih", len(COLUMNS), 4, topic_id, 2, slot)
    return ids + _text(row.type) + (_NULL if row.producer is None else _text(row.producer))


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("!i", len(data)) + data


def _jsonb(text: str) -> bytes:
    data = text.encode()
    # Version 1 of jsonb's binary format is its text.
    return _jsonb_length(len(data) + 1, 1) + data
