"""Messages for targets, and what a target has of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from headrace.relays.targets.target import DeliveryError, Message, Target

RELAY = "to-broker"
START = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Stored:
    """A message as it is read from a broker."""

    position: int
    event_id: str
    key: str | None
    body: bytes
    headers: dict[str, str]


def build_message(topic: str, number: int, *, partition: int = 0, keys: int = 5, body: bytes | None = None) -> Message:
    """Message `number` of a partition. Positions have gaps, as they do where a topic has several partitions."""
    position = 3 * number + partition
    return Message(
        relay=RELAY,
        topic=topic,
        partition=partition,
        position=position,
        event_id=uuid5(NAMESPACE_URL, f"{topic}/{position}"),
        event_type="order.placed",
        key=f"k{number % keys}" if keys else None,
        emitted_at=START + timedelta(seconds=number),
        body=b'{"number": %d}' % number if body is None else body,
        content_type="application/json",
        relay_uid="7b0c",
        headers={"ce-id": str(position), "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    )


def build_messages(topic: str, first: int, last: int, *, partition: int = 0, keys: int = 5) -> list[Message]:
    return [build_message(topic, number, partition=partition, keys=keys) for number in range(first, last + 1)]


def with_headers(message: Message, **headers: str) -> Message:
    return replace(message, headers={**message.headers, **headers})


async def deliver_all(
    target: Target, messages: Sequence[Message], *, batch: int = 20, after_batch: Callable[[int], None] | None = None
) -> int:
    """Delivers in batches and repeats a failed batch, as a relay does; returns the number of failures."""
    failures = 0
    for number, start in enumerate(range(0, len(messages), batch), start=1):
        group = messages[start : start + batch]
        async with asyncio.timeout(150):
            while True:
                try:
                    await target.deliver(group)
                    break
                except DeliveryError:
                    failures += 1
                    await asyncio.sleep(0.05)
        if after_batch is not None:
            after_batch(number)
    return failures


def first_occurrences(stored: Sequence[Stored]) -> list[Stored]:
    """Without repeats."""
    seen: dict[int, Stored] = {}
    for entry in stored:
        seen.setdefault(entry.position, entry)
    return list(seen.values())


def positions_by_key(entries: Sequence[Stored] | Sequence[Message]) -> dict[str | None, list[int]]:
    positions: dict[str | None, list[int]] = {}
    for entry in entries:
        positions.setdefault(entry.key, []).append(entry.position)
    return positions
