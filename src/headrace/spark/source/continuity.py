"""Continuity: is a log still the one that an offset was read from?

An offset holds, for every log, the id of its topic, that of the last event before its position, and the epoch of the server.
Positions alone are not enough: after a failover that lost the newest events, or a restore, the same positions come again with other
events; and a topic that was dropped and created again begins at position 1."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core import LogWentBack
from headrace.spark.source.bounds import Positions, from_offset, to_offset
from headrace.spark.source.offsets import Range

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LastEvent:
    """The event before a position: None if the log does not have it, with the id of its topic and the epoch of its server."""

    topic_id: int
    event_id: str | None
    epoch: str
    is_replica: bool = False


LastEvents = Mapping[tuple[str, str], LastEvent]
"""By shard and topic."""


def build_offset(positions: Positions, events: LastEvents, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The offset for these positions. `before` is the offset that the stream comes from: if a log did not move and retention has
    dropped its last event since, the event's id is kept."""
    offset: dict[str, Any] = {"next": to_offset(positions), "last": {}, "epoch": {}, "topic_id": {}}
    for log, event in sorted(events.items()):
        shard, topic = log
        offset["epoch"][shard] = event.epoch
        offset["topic_id"].setdefault(shard, {})[topic] = event.topic_id
        event_id = event.event_id
        if event_id is None and before and before["next"].get(shard, {}).get(topic) == positions[log]:
            event_id = _event_id(before, log)
        if event_id is not None:
            offset["last"].setdefault(shard, {})[topic] = event_id
    return offset


def _event_id(offset: Mapping[str, Any], log: tuple[str, str]) -> str | None:
    event_id: str | None = offset.get("last", {}).get(log[0], {}).get(log[1])
    return event_id


def continue_from(offset: Mapping[str, Any], logs: Sequence[Range], now: LastEvents, *, fail: bool) -> Positions:
    """The positions to go on from: those of the offset. Raises LogWentBack for a log that is not the one that was read; without
    `fail` it warns, and goes on at the end of a log that is shorter now. `now` has the events before the offset's positions."""
    positions = from_offset(offset["next"])
    for log in logs:
        problem = _problem(offset, log, positions.get(log.log), now.get(log.log))
        if problem is None:
            continue
        if fail:
            raise LogWentBack(problem)
        logger.warning("%s", problem)
        positions[log.log] = min(positions[log.log], log.until)
    return positions


def _recreated(log: Range, position: int) -> str:
    return (
        f"topic {log.topic!r} on shard {log.shard!r} was dropped and created again since it was read up to position {position - 1}: "
        f"the positions from 1 on have other events now, up to {log.until - 1}. Start with a new checkpoint at earliest to read them. "
        f"With failOnDataLoss=false the stream goes on at position {min(position, log.until)}, and skips those before it"
    )


def _problem(offset: Mapping[str, Any], log: Range, position: int | None, now: LastEvent | None) -> str | None:
    if position is None or now is None:
        return None
    event_id = _event_id(offset, log.log)
    topic_id = offset.get("topic_id", {}).get(log.shard, {}).get(log.topic)
    if topic_id not in (None, now.topic_id):
        return _recreated(log, position) if position > 1 else None
    if position > log.until:
        # A replica may lag behind the server that was read before; and a stream may begin at a position that is yet to come, so
        # that no event was read before it. (An offset of an older release does not say.)
        if now.is_replica or ("last" in offset and event_id is None):
            return None
        count = position - log.until
        loss = f"it was read up to position {position - 1} and ends at {log.until - 1} now, {count} events are not in it any more"
    elif event_id is not None and now.event_id not in (None, event_id):
        loss = (
            f"position {position - 1} was event {event_id} and is event {now.event_id} now; some events before it may differ too"
        )
    else:
        return None
    before = offset.get("epoch", {}).get(log.shard, "unknown")
    cause = "the database was restored, or the topic was dropped and created again"
    if before != now.epoch:
        cause = f"the server was failed over or restored (epoch {before} then, {now.epoch} now)"
    return (
        f"topic {log.topic!r} on shard {log.shard!r}: the log went back: {loss}. Probably {cause}. What was written from the lost "
        "events has no source any more: correct it, then start with a new checkpoint at a position that the log still has. "
        "With failOnDataLoss=false the stream goes on, and skips what came in place of the lost events"
    )
