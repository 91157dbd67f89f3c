"""Offsets: positions per shard and topic, the limit of a micro-batch, the splits of a range, and whether a log is still the one that an
offset was read from. Pure.

A position in an offset is the next one to read; a range begins with `first` and ends before `until`. An offset also holds, for every log,
the id of its topic, that of the last event before its position, and the epoch of the server. Positions alone are not enough: after a
failover that lost the newest events, or a restore, the same positions come again with other events; and a topic that was dropped and
created again begins at position 1."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from headrace.core import Invalid, LogWentBack, PositionOutOfRange, UnknownTopic
from headrace.log.archive import FileRange, StoredRange
from headrace.spark.source.options import EARLIEST, LATEST, Bound, Positions, SourceOptions, from_offset, to_offset

SPLIT_POSITIONS_MIN = 50_000
"""A task in Python costs a tenth of a second, in which it could read this many events."""
SPLIT_POSITIONS_MAX = 1_000_000
"""A task holds one connection and is repeated as a whole: long enough to hide its start, short enough to spread."""
_ADVICE = "begin at earliest with a new checkpoint, or set failOnDataLoss to false to continue with what is there"


@dataclass(frozen=True)
class Range(StoredRange):
    """A range of positions of one log: all of them, a part, or with `file` a part in one file of its archive."""

    shard: str
    file: str | None = None

    @property
    def log(self) -> tuple[str, str]:
        return self.shard, self.topic

    @property
    def constants(self) -> dict[str, str]:
        """Columns with one value for the whole range: they are not read."""
        return {"topic": self.topic, "shard": self.shard}

    def in_files(self, files: Iterable[FileRange]) -> list[Range]:
        """The parts of the range that are in these files."""
        return [replace(self, first=file.first, until=file.until, file=file.path) for file in files]


def positions_of(logs: Sequence[Range], bound: Bound) -> Positions:
    """The positions that earliest, latest or JSON mean. A log that the JSON leaves out starts at its beginning."""
    _check_names(bound.positions, logs)
    default = LATEST if bound.word == "latest" else EARLIEST
    positions: Positions = {}
    for log in logs:
        position = bound.positions.get(log.log, bound.positions.get(("", log.topic), default))
        positions[log.log] = {EARLIEST: log.first, LATEST: log.until}.get(position, position)
    return positions


def _check_names(positions: Positions, logs: Sequence[Range]) -> None:
    shards = sorted({log.shard for log in logs})
    if any(shard == "" for shard, _ in positions) and len(shards) > 1:
        raise Invalid(f"there are several shards ({', '.join(shards)}); give positions per shard and topic")
    if unknown := _unknown(positions, logs):
        raise Invalid(f"there are positions for topics that are not subscribed: {', '.join(unknown)}")


def _unknown(positions: Positions, logs: Iterable[Range]) -> list[str]:
    known = {(shard, log.topic) for log in logs for shard in (log.shard, "")}
    return [f"{topic} on shard {shard}" if shard else topic for shard, topic in positions if (shard, topic) not in known]


def ranges_between(logs: Sequence[Range], start: Positions, end: Positions, options: SourceOptions) -> list[Range]:
    """From start to end of every log, within what exists and the options want; raises PositionOutOfRange if some of it does not
    exist any more. A log without a start is new, and is read from its beginning."""
    if options.fail_on_data_loss and (gone := _unknown(end, logs)):
        raise PositionOutOfRange(f"a topic that was read is gone: {', '.join(gone)}; {_ADVICE}")
    ranges = []
    for log in logs:
        first, until = start.get(log.log, log.first), end.get(log.log, log.first)
        if first >= until:
            continue
        if options.fail_on_data_loss:
            _check_complete(log, first, until)
        to_position = log.until if options.to_position is None else options.to_position
        first, until = max(first, log.first, options.from_position), min(until, log.until, to_position)
        ranges.append(replace(log, first=first, until=until))
    return [range_ for range_ in ranges if len(range_)]


def check_batch(logs: Sequence[Range], start: Positions, options: SourceOptions) -> None:
    """Raises for a batch that could only be empty by mistake. A stream may wait for topics and positions that are yet to come."""
    if not logs:
        raise UnknownTopic(
            f"no topic of the namespace matches subscribePattern {options.pattern!r}, which must match the whole name; "
            "headrace topic list shows the topics"
        )
    past = [log for log in logs if start[log.log] > log.until] if options.fail_on_data_loss else []
    if past:
        places = ", ".join(
            f"{start[log.log]} of topic {log.topic!r} on shard {log.shard!r}, which ends at {log.until - 1}" for log in past
        )
        raise PositionOutOfRange(
            f"reading starts past the end: position {places}; give a position up to {past[0].until}, earliest or latest"
        )


def _check_complete(log: Range, first: int, until: int) -> None:
    if first < log.first:
        raise data_loss(log.shard, log.topic, first, log.first)
    if until > log.until:
        raise PositionOutOfRange(
            f"topic {log.topic!r} on shard {log.shard!r} ends before position {log.until}, but {until - 1} was requested: "
            f"it is not written yet, or the topic was created again; {_ADVICE}"
        )


def data_loss(shard: str, topic: str, first: int, until: int) -> PositionOutOfRange:
    """The error for positions that retention has dropped."""
    return PositionOutOfRange(
        f"topic {topic!r} on shard {shard!r}: positions {first} to {until - 1} have been dropped by retention, "
        f"{until - first} events are lost to this read; {_ADVICE}"
    )


@dataclass(frozen=True)
class Split:
    """What one task reads: a part of a log, or several parts that follow each other, such as small files of its archive."""

    ranges: tuple[Range, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    @property
    def shard(self) -> str:
        return self.ranges[0].shard

    @property
    def first(self) -> int:
        return self.ranges[0].first

    @property
    def until(self) -> int:
        return self.ranges[-1].until

    def with_range(self, range_: Range) -> Split:
        return Split((*self.ranges, range_))


def split_ranges(ranges: Sequence[Range], *, partitions_min: int, cores: int = 1) -> list[Split]:
    """The tasks that read these ranges: of about one size, at least `partitions_min`, and as many as there are cores where each
    still has enough to do. Long ranges are cut; short ones of one log are put together."""
    total = sum(map(len, ranges))
    waves = -(-total // (SPLIT_POSITIONS_MAX * cores))
    wanted = min(max(1, waves) * cores, -(-total // SPLIT_POSITIONS_MIN))
    size = max(1, -(-total // max(partitions_min, wanted)))
    splits: list[Split] = []
    for range_ in ranges:
        count = -(-len(range_) // size)
        edges = [range_.first + len(range_) * number // count for number in range(count + 1)]
        for first, until in pairwise(edges):
            part = replace(range_, first=first, until=until)
            last = splits[-1] if splits else None
            if last is not None and last.ranges[-1].log == part.log and len(last) + len(part) <= size:
                splits[-1] = last.with_range(part)
            else:
                splits.append(Split((part,)))
    return splits


def limit_positions(start: Positions, heads: Positions, limit: int | None) -> Positions:
    """Where a micro-batch ends: at the heads, or `limit` positions further, shared between logs by their backlog."""
    backlog = {log: max(0, head - start.get(log, head)) for log, head in heads.items()}
    shares = backlog if limit is None or sum(backlog.values()) <= limit else _share(backlog, limit)
    return {log: start.get(log, head) + shares[log] for log, head in heads.items()}


def _share(backlog: Mapping[tuple[str, str], int], limit: int) -> dict[tuple[str, str], int]:
    total = sum(backlog.values())
    shares = {log: limit * count // total for log, count in backlog.items()}
    rest = limit - sum(shares.values())
    # The rest after rounding goes to the longest backlogs, so that every batch moves.
    for log in sorted(backlog, key=lambda log: (shares[log] - backlog[log], log))[:rest]:
        shares[log] += 1
    return shares


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
