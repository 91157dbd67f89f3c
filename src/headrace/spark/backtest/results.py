"""From the frame of outputs to the numbers, keys and samples of every subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.archive import StoredRange, read_positions
from headrace.db import Connection
from headrace.spark import CorrelatorSpec, RuleSpec
from headrace.spark.backtest.report import Day, Evidence, KeyCount, Result, Sample, TokenCount
from headrace.spark.backtest.subject import Subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

Found = dict[tuple[str, int], Evidence]
"""By shard and position."""
EVIDENCE_MAX = 10
"""Events shown with a sample, the newest ones."""
_EPOCH = date(1970, 1, 1)
_COUNTS = ("sum(would) as would", "sum(live) as live", "sum(would * live) as both")
_STATUS = "case when would = 1 and live = 1 then 'both' when would = 1 then 'would' else 'live' end"


@dataclass(frozen=True)
class Reader:
    """Reads events by shard and position."""

    places: Mapping[tuple[str, str], tuple[Connection, StoredRange]]
    folder: str | None

    def events(self, rows: Sequence[Row], topic: str) -> Found:
        """The evidence of samples, all of a shard at once."""
        found: Found = {}
        for shard in {row.shard for row in rows}:
            wanted = {position for row in rows if row.shard == shard for position in _evidence(row)}
            conn, span = self.places[shard, topic]
            for position, e in read_positions(conn, span, wanted, folder=self.folder).items():
                found[shard, position] = Evidence(position, e.type, e.key, e.emitted_at, e.payload)
        return found


def results_of(
    compared: DataFrame, subjects: Sequence[Subject], reader: Reader, *, samples: int, keys: int
) -> tuple[Result, ...]:
    """One result per subject, in their order."""
    # UTC, whatever the session's zone is.
    by_day = _counted(compared.selectExpr("*", "int(floor(unix_micros(time) / 86400000000)) as day"), "day").collect()
    by_key = _first(_counted(compared, "key"), "name", "greatest(would, live) desc, key", keys)
    by_token = _counted(compared.where("token is not null"), "token").collect()
    shown = _first(
        compared.selectExpr("*", f"{_STATUS} as status", "unix_micros(time) as micros"),
        "name, status",
        "time desc, position desc",
        samples,
    )
    topics = {subject.topic: {one.name for one in subjects if one.topic == subject.topic} for subject in subjects}
    found = {topic: reader.events([row for row in shown if row.name in names], topic) for topic, names in topics.items()}
    return tuple(
        Result(
            kind="rule" if isinstance(subject.spec, RuleSpec) else "correlator",
            name=subject.name,
            topic=subject.topic,
            definition=subject.definition,
            compared=subject.live,
            days=tuple(sorted((_day(row) for row in _of(by_day, subject)), key=lambda day: day.day)),
            keys=tuple(KeyCount(row.key, *_numbers(row)) for row in _of(by_key, subject)),
            tokens=tuple(sorted((TokenCount(row.token, *_numbers(row)) for row in _of(by_token, subject)), key=_token)),
            samples=_samples(_of(shown, subject), subject, found[subject.topic]),
        )
        for subject in subjects
    )


def _counted(frame: DataFrame, column: str) -> DataFrame:
    from pyspark.sql import functions

    return frame.groupBy("name", column).agg(*(functions.expr(count) for count in _COUNTS))


def _first(frame: DataFrame, within: str, order: str, most: int) -> list[Row]:
    ranked = frame.selectExpr("*", f"row_number() over (partition by {within} order by {order}) as place")
    return ranked.where(f"place <= {most}").orderBy(*within.split(", "), "place").collect()


def _of(rows: Iterable[Row], subject: Subject) -> list[Row]:
    return [row for row in rows if row.name == subject.name]


def _numbers(row: Row) -> tuple[int, int, int]:
    return row.would, row.live, row.both


def _token(count: TokenCount) -> str:
    return count.token


def _day(row: Row) -> Day:
    return Day(_EPOCH + timedelta(days=row.day), *_numbers(row))


def _evidence(row: Row) -> list[int]:
    return list(row.evidence or [])[-EVIDENCE_MAX:]


def _samples(rows: Sequence[Row], subject: Subject, found: Found) -> tuple[Sample, ...]:
    keyless = isinstance(subject.spec, CorrelatorSpec) and subject.spec.key is None
    return tuple(
        Sample(
            status=row.status,
            shard=row.shard,
            position=row.position,
            time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.micros),
            key=None if keyless else row.key,
            token=row.token,
            event_id=row.event_id,
            # What the live one began with may be gone by now.
            evidence=tuple(found[row.shard, position] for position in _evidence(row) if (row.shard, position) in found),
            evidence_total=row.evidence_total,
        )
        for row in rows
    )
