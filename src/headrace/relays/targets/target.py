"""The contract of targets: what a kind of target has, what a relay expects of an open one, and what a message is.

Our own kinds are modules of this folder with the members of `TargetKind`; other packages add theirs by an entry point of the group
headrace.relay_targets. docs/howto/relay-target.md shows one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from headrace.core import JSON, DeliveryError, TargetGone, TargetRefused

__all__ = ["DeliveryError", "Message", "Target", "TargetGone", "TargetKind", "TargetRefused"]


class TargetKind(Protocol):
    """A kind of target: a module, or an object, with two functions. Both are called often and connect to nothing."""

    def check_options(self, options: Mapping[str, JSON]) -> list[str]:
        """A message for each mistake in a relay's options; none if they are right. Called when a relay is written, planned and started.

        Secrets are still references here (`env:NAME`, `file:name`). No message may repeat a value, which may be a misplaced secret.
        `find_mistakes` checks the options against a table of them."""

    def open_target(self, relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> Target:
        """A target for one relay, not connected yet. `secrets` has the values of those options that refer to secrets, by option.

        A node may have several targets of one relay at a time, and several nodes may run the relay: one for each partition that
        is being delivered."""


class Target(Protocol):
    """An open connection to another system, for one relay."""

    async def open(self) -> None:
        """Connects. Raises DeliveryError where the system cannot be reached."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        """Returns once the system has confirmed all of them. Messages are of one partition, in order of position.

        May be called again with messages that it has already delivered, after a crash: exactly-once targets drop them. Raises
        TargetRefused for an event that the system will never take (it becomes a dead letter), TargetGone if the system wants nothing
        more of this relay (which is disabled), and DeliveryError for anything else, which is tried again. After an error other than
        TargetRefused the target is closed, and the next delivery opens a new one."""

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
