"""What a relay expects of a target, and how a target says that it could not deliver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from headrace.core import DeliveryError, TargetGone, TargetRefused

__all__ = ["DeliveryError", "Target", "TargetGone", "TargetRefused"]


class Target(Protocol):
    """An open connection to another system, for one relay."""

    async def open(self) -> None:
        """Connects. Raises DeliveryError where the system cannot be reached."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        """Returns once the system has confirmed all of them. Messages are of one partition, in order of position.

        May be called again with messages that it has already delivered, after a crash: exactly-once targets drop them."""

    async def close(self) -> None:
        """Disconnects. Called once, also after a failed `open`."""


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
