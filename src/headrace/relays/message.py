"""Messages: events in the form in which targets send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True)
class Message:
    """One event as a target gets it."""

    relay: str
    """The name of the relay."""
    topic: str
    partition: int
    position: int
    """Rises by one per topic, so it rises within a partition."""
    event_id: UUID
    event_type: str
    key: str | None
    emitted_at: datetime
    body: bytes
    """The mapped payload, ready to send."""
    content_type: str
    """application/json or application/cloudevents+json."""
    headers: Mapping[str, str]
    """CloudEvents binary headers (ce-…), the trace context, and the event's own string headers."""
    relay_uid: str = ""
    """Positions of two relays are never mixed up by it: those of two shards, or of a relay that was created again."""
    is_redriven: bool = False
    """The event was a dead letter: later positions may have been delivered before it, and it has not been."""
