"""What a relay expects of a target, and how a target says that it could not deliver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core import DeliveryError, TargetGone, TargetRefused
from headrace.relays.message import Message

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
