"""A backtest, from the range to the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.archive import StoredRange, read_stored_events, stored_range
from headrace.core import Invalid
from headrace.db import Connection, Target, connect, query
from headrace.spark import CorrelatorSpec, RuleSpec
from headrace.spark.backtest.access import read_only, told_to_spark
from headrace.spark.backtest.frames import Piece, Source, did_fire, did_push, side_by_side, would_fire, would_push
from headrace.spark.backtest.report import Report
from headrace.spark.backtest.results import Reader, results_of
from headrace.spark.backtest.subject import Subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _Shard:
    """A database with a session that cannot write."""

    target: Target
    conn: Connection


def backtest(
    spark: SparkSession,
    targets: Sequence[Target],
    subjects: Sequence[Subject],
    *,
    start: str = "earliest",
    end: str = "latest",
    samples: int = 5,
    keys: int = 10,
    secret: str | None = None,
    folder: str | None = None,
    namespace: str | None = None,
) -> Report:
    """Runs rules or correlators over archive and log, from start to before end (earliest, latest, a position or a time of the
    log), and compares with what the live ones of their names did there.

    Spark's processes find the databases by a secret: one written here, readable by this user, unless the name of one is given,
    as a cluster needs it. Raises Invalid, OutOfLog, UnknownTopic."""
    if not subjects:
        raise Invalid("nothing to test; give at least one rule or correlator")
    began = time.monotonic()
    with ExitStack() as stack:
        closed = [read_only(target) for target in targets]
        shards = [_Shard(target, stack.enter_context(connect(target))) for target in closed]
        name = secret or stack.enter_context(told_to_spark(closed))
        options = {"secret": name, **({"archive": folder} if folder else {}), **({"namespace": namespace} if namespace else {})}
        pieces = _pieces(shards, subjects, start, end, folder, namespace)
        compared = side_by_side(_frames(Source(spark, options), shards, pieces, subjects, namespace)).persist()
        try:
            reader = Reader({(p.shard, p.span.topic): (_conn(shards, p), p.span) for p in pieces}, folder)
            results = results_of(compared, subjects, reader, samples=samples, keys=keys)
        finally:
            compared.unpersist()
    spans = [piece.span for piece in pieces]
    return Report(
        start=start,
        end=end,
        events=sum(map(len, spans)),
        archived=sum(len(replace(span, until=min(span.until, span.logged))) for span in spans),
        seconds=time.monotonic() - began,
        results=results,
        notes=tuple(note for subject in subjects for note in subject.notes),
    )


def _pieces(
    shards: Sequence[_Shard], subjects: Sequence[Subject], start: str, end: str, folder: str | None, namespace: str | None
) -> list[Piece]:
    names = tuple(shard.target.name for shard in shards)
    pieces = []
    for topic in dict.fromkeys(subject.topic for subject in subjects):
        for shard in shards:
            span = stored_range(shard.conn, topic, start=start, end=end, folder=folder, namespace=namespace)
            from_at = _time_of(shard.conn, span, span.first, folder)
            to_at = _time_of(shard.conn, span, span.until - 1, folder)
            if end == "latest":
                (timers_to,) = shard.conn.execute(query("spark/backtest/timers_to"), {"topic_id": span.topic_id}).fetchone() or (
                    None,
                )
                to_at = max(to_at, timers_to or to_at)
            pieces.append(Piece(shard.target.name, names, span, from_at, to_at))
    return pieces


def _time_of(conn: Connection, span: StoredRange, position: int, folder: str | None) -> datetime:
    """The log's time at a position."""
    one = replace(span, first=position, until=position + 1)
    found = [event for batch in read_stored_events(conn, one, folder=folder) for event in batch] if len(span) else []
    return found[0].appended_at if found else datetime(1970, 1, 1, tzinfo=UTC)


def _frames(
    source: Source, shards: Sequence[_Shard], pieces: Sequence[Piece], subjects: Sequence[Subject], namespace: str | None
) -> list[DataFrame]:
    frames: list[DataFrame | None] = []
    for piece in pieces:
        own = [subject for subject in subjects if subject.topic == piece.span.topic]
        rules = [subject.spec for subject in own if isinstance(subject.spec, RuleSpec)]
        conn = _conn(shards, piece)
        if rules:
            frames.append(would_fire(source, piece, rules))
            frames.append(did_fire(source, piece, conn, [rule.name for rule in rules], namespace))
        for subject in own:
            if isinstance(subject.spec, CorrelatorSpec):
                frames.append(would_push(source, piece, subject.spec))
                frames.append(did_push(source, piece, conn, subject.name, namespace))
    return [frame for frame in frames if frame is not None]


def _conn(shards: Sequence[_Shard], piece: Piece) -> Connection:
    return next(shard.conn for shard in shards if shard.target.name == piece.shard)
