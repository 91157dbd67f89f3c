"""Bounds: where reading begins and ends, as options tell it in Kafka's words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.core import Invalid

Positions = dict[str, dict[str, int]]
"""Shard → topic → position."""
EARLIEST, LATEST = -2, -1
"""What Kafka writes for both in an offset."""


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends: earliest, latest, a position per shard and topic, or a time of the log."""

    word: str | None = None
    positions: str | None = None
    """JSON, since a frozen value holds no dict."""
    at: datetime | None = None


def bound_of(given: Mapping[str, str], side: str) -> Bound | None:
    """The bound that the options of a side, starting or ending, stand for; None where there is none."""
    offsets, time = given.get(f"{side}offsets"), given.get(f"{side}timestamp")
    if offsets is not None and time is not None:
        raise Invalid(f"options {side}Offsets and {side}Timestamp are both given; give one")
    if time is not None:
        return Bound(at=moment_of(time, f"{side}Timestamp"))
    if offsets is None:
        return None
    if offsets.strip().lower() in ("earliest", "latest"):
        if (side, offsets.strip().lower()) == ("ending", "earliest"):
            raise Invalid("endingOffsets cannot be earliest, which would read nothing; give latest or positions")
        return Bound(offsets.strip().lower())
    return Bound(positions=json.dumps(_positions(offsets, f"{side}Offsets")))


def _positions(text: str, option: str) -> Positions:
    """{"shard": {"topic": position}}, or {"topic": position} where there is one shard, which is then named ''."""
    advice = f'{option} takes earliest, latest, or JSON such as {{"orders": 100}} or {{"shard_a": {{"orders": 100}}}}'
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"{advice}; the text is neither: {error.msg}") from None
    if isinstance(told, dict) and told and all(_is_position(value) for value in told.values()):
        return {"": told}
    if not isinstance(told, dict) or not all(isinstance(topics, dict) for topics in told.values()):
        raise Invalid(advice)
    if not all(_is_position(value) for topics in told.values() for value in topics.values()):
        raise Invalid(f"{advice}; a position is a whole number from 0 on, {EARLIEST} for earliest or {LATEST} for latest")
    return told


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= EARLIEST


def moment_of(text: str | None, option: str) -> datetime | None:
    """Kafka's milliseconds since 1970, or RFC 3339; without an offset it is UTC, so that every process means the same moment."""
    if text is None:
        return None
    try:
        if re.fullmatch(r"-?\d+", text.strip()):
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        told = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"option {option} is not a time: {text!r}; write 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return told if told.tzinfo else told.replace(tzinfo=UTC)
