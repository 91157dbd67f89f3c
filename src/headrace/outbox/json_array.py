"""A batch as one JSON array, for headrace.publish_many; and JSON for clients of any encoding."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from headrace.core import Envelope, Invalid

_beyond_ascii = re.compile(r"[^\x00-\x7f]+")

ARRAY_BYTES_MAX = 200_000_000
"""jsonb holds 256 MB in one array."""


def as_array(sealed: Sequence[Envelope]) -> str:
    """The JSON text; payload and headers go in as they were sealed."""
    text = msgspec.json.encode([_member(envelope) for envelope in sealed])
    if len(text) > ARRAY_BYTES_MAX:
        raise Invalid(
            f"the batch has {len(text)} bytes, at most {ARRAY_BYTES_MAX} go without COPY; publish it in smaller batches"
        )
    return in_ascii(text.decode())


def in_ascii(text: str) -> str:
    """The same JSON in ASCII, which a client of any encoding can send."""
    return text if text.isascii() else _beyond_ascii.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _member(envelope: Envelope) -> dict[str, object]:
    return {
        "topic": envelope.topic,
        "type": envelope.type,
        "payload": msgspec.Raw(envelope.payload.encode()),
        "key": envelope.key,
        "headers": msgspec.Raw(envelope.headers.encode()),
        "id": envelope.id,
        "emitted_at": envelope.emitted_at and envelope.emitted_at.isoformat(),
        "producer": envelope.producer,
    }
