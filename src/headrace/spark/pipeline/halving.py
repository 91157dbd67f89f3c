"""Halving: how the event is found that makes the database refuse a batch."""

from __future__ import annotations

from headrace.spark.pipeline.computing import Part
from headrace.spark.pipeline.snapshots import ConsumerSnapshot


class Halving:
    """How many events a consumer is given at most: half after a failure, twice as many after a success."""

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._most: dict[int, int] = {}

    def limit(self, standing: ConsumerSnapshot) -> int:
        return 1 if standing.single_to > standing.position else self._most.get(standing.consumer_id, self._events_max)

    def failed(self, part: Part) -> bool:
        """Says whether there is nothing left to halve: the event at fault is alone."""
        if part.events > 1:
            self._most[part.standing.consumer_id] = max(1, part.events // 2)
        return part.events <= 1

    def succeeded(self, part: Part) -> None:
        most = self._most.pop(part.standing.consumer_id, None)
        if most is not None and most * 2 < self._events_max:
            self._most[part.standing.consumer_id] = most * 2
