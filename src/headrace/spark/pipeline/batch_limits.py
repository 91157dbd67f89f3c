"""Batch limits: a binary search for the event that makes the database reject a batch."""

from __future__ import annotations

from headrace.spark.pipeline.computation import Part
from headrace.spark.pipeline.snapshots import ConsumerSnapshot


class BatchLimits:
    """The most events a consumer gets in a batch: half as many after a failure, twice as many after a success."""

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
