"""Bounds: where reading begins and ends, as options in Kafka's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from headrace.core import Invalid

Positions = dict[tuple[str, str], int]
"""Positions by shard and topic."""
EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both in an offset."""
_Position = Annotated[int, msgspec.Meta(ge=EARLIEST)]


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends: earliest, latest, a position per shard and topic, or a time of the log."""

    word: str | None = None
    positions: Positions = field(default_factory=dict)
    at: datetime | None = None


def parse_bound(options: Mapping[str, str], side: str) -> Bound | None:
    """The bound in the options of a side, starting or ending; None if there is none."""
    offsets, time = options.get(f"{side}offsets"), options.get(f"{side}timestamp")
    if offsets is not None and time is not None:
        raise Invalid(f"options {side}Offsets and {side}Timestamp exclude each other; give one")
    if time is not None:
        return Bound(at=parse_moment(time, f"{side}Timestamp"))
    if offsets is None:
        return None
    word = offsets.strip().lower()
    if word not in ("earliest", "latest"):
        return Bound(positions=_parse_positions(offsets, f"{side}Offsets"))
    if (side, word) == ("ending", "earliest"):
        raise Invalid("endingOffsets cannot be earliest, which would read nothing; give latest or positions")
    return Bound(word)


def _parse_positions(text: str, option: str) -> Positions:
    """From {"shard": {"topic": position}}, or {"topic": position} for a single shard, which then has the name ''."""
    advice = f'{option} takes earliest, latest, or JSON such as {{"orders": 100}} or {{"shard_a": {{"orders": 100}}}}'
    try:
        value = msgspec.json.decode(text, type=dict[str, _Position | dict[str, _Position]])
    except msgspec.DecodeError as error:
        raise Invalid(f"{advice}; a position is at least 0, {EARLIEST} for earliest or {LATEST} for latest: {error}") from None
    topics = {name: position for name, position in value.items() if isinstance(position, int)}
    shards = {name: positions for name, positions in value.items() if isinstance(positions, dict)}
    if topics and shards:
        raise Invalid(advice)
    return from_offset(shards or {"": topics})


def from_offset(offset: Mapping[str, Mapping[str, int]]) -> Positions:
    """From the form {"shard": {"topic": position}} that options and Spark's offsets have."""
    return {(shard, topic): position for shard, topics in offset.items() for topic, position in topics.items()}


def to_offset(positions: Positions) -> dict[str, dict[str, int]]:
    """The opposite, sorted: Spark compares offsets by their text."""
    offset: dict[str, dict[str, int]] = {}
    for (shard, topic), position in sorted(positions.items()):
        offset.setdefault(shard, {})[topic] = position
    return offset


def parse_moment(text: str | None, option: str) -> datetime | None:
    """Kafka's milliseconds since 1970, or RFC 3339. A time without an offset is UTC, so that every process means the same."""
    if text is None:
        return None
    try:
        if re.fullmatch(r"-?\d+", text.strip()):
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"option {option} is not a time: {text!r}; write 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
