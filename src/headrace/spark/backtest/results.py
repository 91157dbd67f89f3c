"""The numbers, keys and samples of every subject, from the frame of compared outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.db import Connection
from headrace.evaluate import CorrelatorSpec
from headrace.log.archive import StoredRange, read_stored_events_at
from headrace.spark.backtest.report import DayCounts, Evidence, KeyCounts, Result, Sample, TokenCounts
from headrace.spark.backtest.subjects import BacktestSubject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

EvidenceByPosition = dict[tuple[str, int], tuple[str, Evidence]]
"""Event ids and events by shard and position."""
EVIDENCE_MAX = 10
"""A sample shows this many events, the newest."""
_EPOCH = date(1970, 1, 1)
_COUNTS = ("sum(would * outputs) as would", "sum(live * outputs) as live", "sum(would * live * outputs) as both")
_STATUS = "case when would = 1 and live = 1 then 'both' when would = 1 then 'would' else 'live' end"


@dataclass(frozen=True)
class EvidenceReader:
    """Reads the evidence of samples by shard and position."""

    ranges: Mapping[tuple[str, str], tuple[Connection, StoredRange]]
    folder: str | None

    def events(self, rows: Sequence[Row], topic: str) -> EvidenceByPosition:
        """The events behind the samples, with one read per shard."""
        events: EvidenceByPosition = {}
        for shard in {row.shard for row in rows}:
            positions = {position for row in rows if row.shard == shard for position in _evidence(row)}
            positions |= {row.position for row in rows if row.shard == shard and row.position is not None}
            conn, stored = self.ranges[shard, topic]
            for position, event in read_stored_events_at(conn, stored, positions, folder=self.folder).items():
                evidence = Evidence(position, event.type, event.key, event.emitted_at, event.payload)
                events[shard, position] = str(event.event_id), evidence
        return events


def build_results(
    compared: DataFrame, subjects: Sequence[BacktestSubject], reader: EvidenceReader, *, samples: int, keys: int
) -> tuple[Result, ...]:
    """One result per subject, in their order."""
    # Days in UTC, whatever the time zone of the session.
    by_day_and_token = _count_by(
        compared.selectExpr("*", "int(floor(unix_micros(time) / 86400000000)) as day"), "day", "token"
    ).collect()
    by_key = _top_rows(_count_by(compared, "key"), "kind, name", "greatest(would, live) desc, key", keys)
    sample_rows = _top_rows(
        compared.selectExpr("*", f"{_STATUS} as status", "unix_micros(time) as micros"),
        "kind, name, status",
        "time desc, position desc",
        samples,
    )
    topics = {
        subject.topic: {(other.kind, other.name) for other in subjects if other.topic == subject.topic} for subject in subjects
    }
    evidence = {
        topic: reader.events([row for row in sample_rows if (row.kind, row.name) in names], topic)
        for topic, names in topics.items()
    }
    return tuple(
        Result(
            kind=subject.kind,
            name=subject.name,
            topic=subject.topic,
            definition=subject.definition,
            compared=subject.live,
            days=tuple(
                DayCounts(*counts, _EPOCH + timedelta(days=day)) for day, counts in _sums(_of(by_day_and_token, subject), "day")
            ),
            keys=tuple(KeyCounts(*_counts(row), row.key) for row in _of(by_key, subject)),
            tokens=tuple(TokenCounts(*counts, token) for token, counts in _sums(_of(by_day_and_token, subject), "token")),
            samples=_samples(_of(sample_rows, subject), subject, evidence[subject.topic]),
        )
        for subject in subjects
    )


def _count_by(frame: DataFrame, *columns: str) -> DataFrame:
    from pyspark.sql import functions

    return frame.groupBy("kind", "name", *columns).agg(*(functions.expr(count) for count in _COUNTS))


def _sums(rows: Sequence[Row], column: str) -> list[tuple[Any, tuple[int, int, int]]]:
    """The counts by one of the columns, in its order; without those where it is null."""
    sums: dict[Any, tuple[int, int, int]] = {}
    for row in rows:
        value = row[column]
        if value is not None:
            would, live, both = sums.get(value, (0, 0, 0))
            sums[value] = would + row.would, live + row.live, both + row.both
    return sorted(sums.items())


def _top_rows(frame: DataFrame, within: str, order: str, limit: int) -> list[Row]:
    if not limit:
        return []
    ranked = frame.selectExpr("*", f"row_number() over (partition by {within} order by {order}) as place")
    return ranked.where(f"place <= {limit}").orderBy(*within.split(", "), "place").collect()


def _of(rows: Iterable[Row], subject: BacktestSubject) -> list[Row]:
    return [row for row in rows if (row.kind, row.name) == (subject.kind, subject.name)]


def _counts(row: Row) -> tuple[int, int, int]:
    return row.would, row.live, row.both


def _evidence(row: Row) -> list[int]:
    return list(row.evidence or [])[-EVIDENCE_MAX:]


def _samples(rows: Sequence[Row], subject: BacktestSubject, events: EvidenceByPosition) -> tuple[Sample, ...]:
    keyless = isinstance(subject.spec, CorrelatorSpec) and subject.spec.key is None
    return tuple(
        Sample(
            status=row.status,
            shard=row.shard,
            position=row.position,
            time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.micros),
            key=None if keyless else row.key,
            token=row.token,
            event_id=events[row.shard, row.position][0] if (row.shard, row.position) in events else None,
            # Old evidence of the live one may have been dropped.
            evidence=tuple(events[row.shard, position][1] for position in _evidence(row) if (row.shard, position) in events),
            evidence_total=row.evidence_total,
        )
        for row in rows
    )
