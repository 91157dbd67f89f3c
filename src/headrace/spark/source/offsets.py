"""Offsets: positions per shard and topic, the limits of a micro-batch, and the splits of a range.

A position in an offset is the next one to be read; ranges begin with their first position and end before `until`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.core import Invalid, OutOfLog
from headrace.spark.source.bounds import EARLIEST, LATEST, Bound, Positions
from headrace.spark.source.options import Filters

SPLIT_POSITIONS_MAX = 1_000_000
"""A task holds one connection and is repeated as a whole: long enough to hide its start, short enough to spread."""


@dataclass(frozen=True)
class Log:
    """A topic's log on one shard: the positions from `first` to before `until` are there, before `logged` in the archive."""

    shard: str
    topic: str
    topic_id: int
    first: int
    until: int
    logged: int = 0


@dataclass(frozen=True)
class Span:
    """A range of positions of one log; with `file`, of one file of its archive."""

    shard: str
    topic: str
    topic_id: int
    first: int
    until: int
    file: str | None = None

    def __len__(self) -> int:
        return max(0, self.until - self.first)


def positions_of(logs: Iterable[Log], bound: Bound) -> Positions:
    """The positions that earliest, latest or JSON stand for. A log that the JSON leaves out is taken from its beginning."""
    logs = list(logs)
    told: Positions = json.loads(bound.positions) if bound.positions else {}
    _check_names(told, logs)
    found: Positions = {}
    for log in logs:
        asked = told.get(log.shard, told.get("", {})).get(log.topic, LATEST if bound.word == "latest" else EARLIEST)
        found.setdefault(log.shard, {})[log.topic] = {EARLIEST: log.first, LATEST: log.until}.get(asked, asked)
    return found


def _check_names(told: Positions, logs: Sequence[Log]) -> None:
    shards = sorted({log.shard for log in logs})
    if "" in told and len(shards) > 1:
        raise Invalid(f"there are several shards ({', '.join(shards)}); give positions per shard and topic")
    known = {(log.shard, log.topic) for log in logs} | {("", log.topic) for log in logs}
    unknown = [
        f"{topic} on shard {shard}" if shard else topic for shard in told for topic in told[shard] if (shard, topic) not in known
    ]
    if unknown:
        raise Invalid(f"positions are given for what is not subscribed to: {', '.join(unknown)}")


def spans(logs: Iterable[Log], start: Positions, end: Positions, *, fail_on_data_loss: bool) -> list[Span]:
    """From start to end of every log, within what is there; raises OutOfLog when something is not there any more.

    A log that has no start is new, and is read from its beginning."""
    found = []
    for log in logs:
        until = end.get(log.shard, {}).get(log.topic, log.first)
        first = start.get(log.shard, {}).get(log.topic, log.first)
        if first >= until:
            continue
        if fail_on_data_loss:
            _check_held(log, first, until)
        found.append(Span(log.shard, log.topic, log.topic_id, max(first, log.first), min(until, log.until)))
    return [span for span in found if len(span)]


def check_topics(logs: Iterable[Log], wanted: Positions) -> None:
    """Raises OutOfLog when a topic that was being read is gone."""
    known = {(log.shard, log.topic) for log in logs}
    gone = [f"{topic} on shard {shard}" for shard in wanted for topic in wanted[shard] if (shard, topic) not in known]
    if gone:
        raise OutOfLog(f"a topic that was read is gone: {', '.join(gone)}; {_ADVICE}")


def _check_held(log: Log, first: int, until: int) -> None:
    if first < log.first:
        raise lost(log.shard, log.topic, first, log.first)
    if until > log.until:
        raise OutOfLog(
            f"topic {log.topic!r} on shard {log.shard!r} ends before position {log.until}, and {until - 1} was asked for: "
            f"it is not written yet, or the topic was made anew; {_ADVICE}"
        )


def lost(shard: str, topic: str, first: int, there: int) -> OutOfLog:
    """Retention has passed an offset."""
    return OutOfLog(
        f"topic {topic!r} on shard {shard!r}: positions {first} to {there - 1} have been dropped by retention, "
        f"{there - first} events are lost to this read; {_ADVICE}"
    )


_ADVICE = "begin at earliest with a new checkpoint, or set failOnDataLoss to false to go on with what is there"


def narrowed(found: Sequence[Span], filters: Filters) -> list[Span]:
    """Within the positions that the filters let through."""
    limit = filters.to_position
    cut = [
        replace(span, first=max(span.first, filters.from_position), until=span.until if limit is None else min(span.until, limit))
        for span in found
    ]
    return [span for span in cut if len(span)]


def split(found: Sequence[Span], *, partitions_min: int) -> list[Span]:
    """Cut into pieces of about one size: at least `partitions_min` together, none longer than the limit."""
    total = sum(map(len, found))
    size = max(1, min(SPLIT_POSITIONS_MAX, -(-total // partitions_min)))
    pieces = []
    for span in found:
        count = -(-len(span) // size)
        edges = [span.first + len(span) * number // count for number in range(count + 1)]
        pieces += [replace(span, first=first, until=until) for first, until in pairwise(edges)]
    return pieces


def admit(start: Positions, heads: Positions, most: int | None) -> Positions:
    """How far a micro-batch goes: to the heads, or `most` positions further, shared out by what every log has waiting."""
    waiting = {
        (shard, topic): max(0, until - start.get(shard, {}).get(topic, until))
        for shard, topics in heads.items()
        for topic, until in topics.items()
    }
    shares = waiting if most is None or sum(waiting.values()) <= most else _shares(waiting, most)
    return {
        shard: {topic: start.get(shard, {}).get(topic, until) + shares[shard, topic] for topic, until in sorted(topics.items())}
        for shard, topics in sorted(heads.items())
    }


def _shares(waiting: Mapping[tuple[str, str], int], most: int) -> dict[tuple[str, str], int]:
    total = sum(waiting.values())
    shares = {log: most * count // total for log, count in waiting.items()}
    rest = most - sum(shares.values())
    # What rounding left over goes to the longest queues, so that every batch moves.
    for log in sorted(waiting, key=lambda log: (shares[log] - waiting[log], log))[:rest]:
        shares[log] += 1
    return shares
