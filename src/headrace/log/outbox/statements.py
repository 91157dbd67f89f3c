"""The statements of publishing, and their parameters. Every value travels as text and is cast in the statement, so that a
driver's own codecs cannot change it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import LiteralString

import msgspec

from headrace.core import Invalid, ValidatedEvent

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
