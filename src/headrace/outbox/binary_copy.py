"""Rows for COPY in PostgreSQL's binary format: half the server's work of the text format, and nothing to escape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct, pack

from headrace.core import Envelope
from headrace.outbox.statements import Rows

CHUNK_ROWS = 256

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_NO_HEADERS = pack("!iB", 3, 1) + b"{}"
_COLUMNS = 9
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_id_and_length = Struct("!i16si").pack
_jsonb_length = Struct("!iB").pack
_time = Struct("!iq").pack


@dataclass(frozen=True)
class Route:
    """Where the events of a batch go: topic ids by name, the time of those without one, and the outbox slot."""

    topic_ids: dict[str, int]
    clock_us: int
    slot: int

    @classmethod
    def of(cls, topics: Sequence[str], rows: Rows) -> Route:
        ids = [int(str(topic_id)) for topic_id, _, _ in rows]
        _, clock_us, slot = (int(str(value)) for value in rows[0])
        return cls(dict(zip(topics, ids, strict=True)), clock_us, slot)


def chunks(sealed: Sequence[Envelope], route: Route) -> Iterator[bytes]:
    """The whole COPY stream, in pieces of some rows."""
    heads: dict[tuple[str, str, str | None], bytes] = {}
    clock = _time(8, route.clock_us)
    yield _HEADER
    for start in range(0, len(sealed), CHUNK_ROWS):
        parts: list[bytes] = []
        for row in sealed[start : start + CHUNK_ROWS]:
            names = (row.topic, row.type, row.producer)
            head = heads.get(names) or heads.setdefault(names, _head(route, row))
            payload = row.payload.encode()
            parts += (head, clock if row.emitted_at is None else _time(8, (row.emitted_at - _EPOCH) // _MICROSECOND))
            if row.key is None:
                parts += (_id_and_length(16, row.id.bytes, -1), _jsonb_length(len(payload) + 1, 1), payload)
            else:
                key = row.key.encode()
                parts += (_id_and_length(16, row.id.bytes, len(key)), key, _jsonb_length(len(payload) + 1, 1), payload)
            parts.append(_NO_HEADERS if row.headers == "{}" else _jsonb(row.headers))
        yield b"".join(parts)
    yield _TRAILER


def _head(route: Route, row: Envelope) -> bytes:
    """Column count and the columns that repeat from row to row."""
    places = pack("!hiiih", _COLUMNS, 4, route.topic_ids[row.topic], 2, route.slot)
    return places + _text(row.type) + (_NULL if row.producer is None else _text(row.producer))


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("!i", len(data)) + data


def _jsonb(text: str) -> bytes:
    data = text.encode()
    # Version 1 of jsonb's binary form is its text.
    return _jsonb_length(len(data) + 1, 1) + data
