"""Headers that brokers carry beside a message: the event's, without those that would command the broker, and our own.

Anyone who may publish chooses an event's headers. A header such as `Nats-Rollup`, which empties a stream, or `CC`, which routes a copy
elsewhere, must not reach the broker; nor may an event forge the headers by which we find the last delivered position."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headrace.relays.message import Message

__all__ = ["DELIVERED_HEADER", "EVENT_ID_HEADER", "POSITION_HEADER", "RELAY_HEADER", "RELAY_UID_HEADER", "broker_headers"]

RELAY_HEADER: Final = "headrace-relay"
POSITION_HEADER: Final = "headrace-position"
EVENT_ID_HEADER: Final = "headrace-event-id"
DELIVERED_HEADER: Final = "headrace-delivered"
"""The highest position delivered so far: the message's own, or a later one before a redriven dead letter."""
RELAY_UID_HEADER: Final = "headrace-relay-uid"
"""Which relay: another one may have the same name, in another database or after this one was dropped."""
OWN_PREFIX: Final = "headrace-"


def broker_headers(message: Message, *, reserved: Collection[str] = ()) -> dict[str, str]:
    """The headers of a message. Those whose name starts with one of `reserved` (lower case) are left out."""
    prefixes = (OWN_PREFIX, *reserved)
    headers = {name: value for name, value in message.headers.items() if not name.strip().lower().startswith(prefixes)}
    headers |= {
        RELAY_HEADER: message.relay,
        RELAY_UID_HEADER: message.relay_uid,
        "headrace-topic": message.topic,
        "headrace-partition": str(message.partition),
        POSITION_HEADER: str(message.position),
        EVENT_ID_HEADER: str(message.event_id),
        "headrace-event-type": message.event_type,
    }
    if message.key is not None:
        headers["headrace-key"] = message.key
    headers.setdefault("content-type", message.content_type)
    return headers
