"""Computation: Spark's work for a batch, and for the next batch while the first is being written.

Holds no lock and writes nothing, so a result for a snapshot that has changed since is simply discarded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.spark.credentials import Access
from headrace.spark.frames import MicroBatch
from headrace.spark.jobs import job_description
from headrace.spark.pipeline.topics import ConsumerSnapshot
from headrace.spark.source import SHORT_MAX, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Part:
    """One consumer's part of a batch: the events after its position up to `upto`, and what to compute for them."""

    snapshot: ConsumerSnapshot
    upto: int
    rules: tuple[RuleSpec, ...] = ()
    correlator: CorrelatorSpec | None = None

    @property
    def events(self) -> int:
        return self.upto - self.snapshot.position

    @property
    def inputs(self) -> tuple[int, ...]:
        """Everything that Spark's result depends on."""
        snapshot = self.snapshot
        return snapshot.consumer_id, snapshot.version_id, snapshot.erasures, snapshot.position, self.upto


@dataclass(frozen=True)
class Computed:
    """A part with Spark's result: the rules that fire (version ids and positions, in order), or a correlator's micro-batch."""

    part: Part
    version_ids: Sequence[int] = ()
    positions: Sequence[int] = ()
    micro_batch: MicroBatch | None = None


class BatchLimits:
    """The most events a consumer gets in a batch: half as many after a failure, twice as many after a success. So a binary search
    finds the event that makes the database reject a batch."""

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._limits: dict[int, int] = {}

    def limit(self, snapshot: ConsumerSnapshot) -> int:
        if snapshot.single_to > snapshot.position:
            return 1
        return self._limits.get(snapshot.consumer_id, self._events_max)

    def record_failure(self, part: Part) -> bool:
        """True if the failing event is found: it was alone."""
        if part.events > 1:
            self._limits[part.snapshot.consumer_id] = part.events // 2
        return part.events <= 1

    def record_success(self, part: Part) -> None:
        limit = self._limits.pop(part.snapshot.consumer_id, self._events_max)
        if limit * 2 < self._events_max:
            self._limits[part.snapshot.consumer_id] = limit * 2


class BatchComputer:
    """Computes the parts of a topic's batches, one batch ahead where it can."""

    def __init__(self, session: SparkSession, access: Access, *, shard: str, topic: str, topic_id: int, events_max: int) -> None:
        self._session = session
        self._access = access
        self._log = Range(topic_id, topic, 0, 0, 0, shard)
        self._events_max = events_max
        self._next: Future[list[Computed]] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"next batch of {topic}")

    def close(self) -> None:
        """Waits for the running Spark job."""
        self._thread.shutdown(cancel_futures=True)

    def take(self, parts: Sequence[Part], head: int) -> list[Computed]:
        """Spark's results for the parts. Starts the computation of the following batch, up to the head of the log."""
        computed = self._take_next(parts) or self.compute(parts)
        self._start_next(parts, head)
        return computed

    def compute(self, parts: Sequence[Part]) -> list[Computed]:
        """Reads the events once, and classifies them for all parts."""
        busy = [part for part in parts if part.rules or part.correlator is not None]
        if not busy:
            return [Computed(part) for part in parts]
        after, upto = min(part.snapshot.position for part in busy), max(part.upto for part in busy)
        range_ = replace(self._log, first=after + 1, until=upto + 1)
        text = f"headrace pipeline: topic {range_.topic}, positions {range_.first} to {range_.until - 1}"
        with job_description(self._session, text):
            results = {id(part): result for part, result in zip(busy, self._classify(busy, range_), strict=True)}
        return [results.get(id(part)) or Computed(part) for part in parts]

    def _classify(self, parts: Sequence[Part], range_: Range) -> list[Computed]:
        from headrace.spark.frames import Watched, classify_range, within

        correlators = [part.correlator for part in parts if part.correlator is not None]
        rules = tuple(rule for part in parts for rule in part.rules)
        watched = Watched(rules, tuple(correlators))
        classified = classify_range(self._session, self._access, range_, watched)
        results: list[Computed] = []
        for part in parts:
            if part.correlator is None:
                firings = within(classified.firings, part.snapshot.position, part.upto)
                numbers = firings["number"].to_pylist()
                fired = sorted(zip(firings["offset"].to_pylist(), (int(rules[n].name) for n in numbers), strict=True))
                results.append(Computed(part, [version for _, version in fired], [offset for offset, _ in fired]))
                continue
            events = classified.events.get(correlators.index(part.correlator))
            own = None if events is None else within(events, part.snapshot.position, part.upto)
            results.append(Computed(part, micro_batch=None if own is None else MicroBatch(part.correlator, own)))
        return results

    def _start_next(self, parts: Sequence[Part], head: int) -> None:
        """If a long backlog waits, Spark computes the next batch while this one is being written."""
        upto = max(part.upto for part in parts)
        if head - upto < SHORT_MAX or any(part.upto != upto for part in parts):
            return
        until = min(head, upto + self._events_max)
        following = [replace(part, snapshot=replace(part.snapshot, position=upto), upto=until) for part in parts]
        self._next = self._thread.submit(self.compute, following)

    def _take_next(self, parts: Sequence[Part]) -> list[Computed] | None:
        """The results computed ahead, if they are for exactly these parts."""
        future, self._next = self._next, None
        if future is None:
            return None
        computed = {result.part.inputs: result for result in future.result()}
        if any(part.inputs not in computed for part in parts):
            return None
        return [replace(computed[part.inputs], part=part) for part in parts]
