"""Computing: Spark's share of a batch, and of the one after it while the first is being written.

Owns: nothing that lasts. No lock is held here and nothing is written, so what was computed for a standing that has changed since
is simply thrown away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.spark import (
    SHORT_MAX,
    Access,
    CorrelatorSpec,
    MicroBatch,
    Range,
    RuleSpec,
    columns_read,
    match,
    read_range,
    take_micro_batch,
)
from headrace.spark.pipeline.snapshots import ConsumerSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Part:
    """A consumer's share of a batch: the events after its position, up to another, and what is to be computed for them."""

    standing: ConsumerSnapshot
    upto: int
    rules: tuple[RuleSpec, ...] = ()
    correlator: CorrelatorSpec | None = None

    @property
    def events(self) -> int:
        return self.upto - self.standing.position

    @property
    def asked(self) -> tuple[int, int, int, int]:
        """All that Spark's answer depends on."""
        return self.standing.consumer_id, self.standing.version_id, self.standing.position, self.upto


@dataclass(frozen=True)
class Computed:
    """A part with Spark's answer: which rules fire where, or how a correlator sees the events."""

    part: Part
    hits: tuple[list[int], list[int]] = ((), ())  # type: ignore[assignment]
    """Versions and positions, in order."""
    micro: MicroBatch | None = None


class Computing:
    """Computes the parts of a topic's batches, where it can one batch ahead."""

    def __init__(self, session: SparkSession, access: Access, *, shard: str, topic: str, topic_id: int, events_max: int) -> None:
        self._session = session
        self._access = access
        self._shard = shard
        self._topic = topic
        self._topic_id = topic_id
        self._events_max = events_max
        self._ahead: Future[list[Computed]] | None = None
        self._hand = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ahead {topic}")

    def close(self) -> None:
        """Waits for what Spark is still at."""
        self._hand.shutdown(cancel_futures=True)

    def take(self, parts: Sequence[Part], head: int) -> list[Computed]:
        """Spark's answers for the parts; those for the batch after it, up to the head of the log, are begun."""
        computed = self._taken_ahead(parts) or self.compute(parts)
        self._look_ahead(parts, head)
        return computed

    def compute(self, parts: Sequence[Part]) -> list[Computed]:
        """Asks Spark, over one reading of the events."""
        asking = [part for part in parts if part.rules or part.correlator is not None]
        if not asking:
            return [Computed(part) for part in parts]
        specs = [part.correlator for part in asking if part.correlator is not None]
        columns = columns_read([rule for part in asking for rule in part.rules], specs)
        after, upto = min(part.standing.position for part in asking), max(part.upto for part in asking)
        span = Range(shard=self._shard, topic=self._topic, topic_id=self._topic_id, after=after, upto=upto)
        frame = read_range(self._session, self._access, span, columns)
        with _kept(frame, wanted=len(asking) > 1 and len(span) > SHORT_MAX):
            return [_computed(frame, part, span) for part in parts]

    def _look_ahead(self, parts: Sequence[Part], head: int) -> None:
        """Where a whole further batch waits, Spark works on it while this one is being written."""
        upto = max(part.upto for part in parts)
        if head - upto < SHORT_MAX or any(part.upto != upto for part in parts):
            return
        until = min(head, upto + self._events_max)
        following = [replace(part, standing=replace(part.standing, position=upto), upto=until) for part in parts]
        self._ahead = self._hand.submit(self.compute, following)

    def _taken_ahead(self, parts: Sequence[Part]) -> list[Computed] | None:
        """What was computed ahead, where it is just what is wanted now."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        found = {one.part.asked: one for one in ahead.result()}
        if any(part.asked not in found for part in parts):
            return None
        return [replace(found[part.asked], part=part) for part in parts]


@contextmanager
def _kept(frame: DataFrame, *, wanted: bool) -> Iterator[None]:
    """Read once where several ask for it. What the driver has read is there already."""
    if wanted:
        frame.persist()
    try:
        yield
    finally:
        if wanted:
            frame.unpersist()


def _computed(frame: DataFrame, part: Part, span: Range) -> Computed:
    standing = part.standing
    own = frame
    if standing.position > span.after:
        own = own.where(f"`offset` > {standing.position}")
    if part.upto < span.upto:
        own = own.where(f"`offset` <= {part.upto}")
    if part.rules:
        found = match(own, part.rules).selectExpr("`offset`", "cast(rule as bigint) as version_id").toArrow()
        found = found.sort_by([("offset", "ascending"), ("version_id", "ascending")])
        return Computed(part, (found["version_id"].to_pylist(), found["offset"].to_pylist()))
    return Computed(part, micro=take_micro_batch(own, part.correlator) if part.correlator is not None else None)
