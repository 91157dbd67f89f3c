"""Activity: what the loops of a node did between two heartbeats, for `headrace node show`.

A partition is held only for a transaction, so there is no lasting holder to ask for: a node reports the partitions it handled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from headrace.actions import ActionWorker
from headrace.consume import ConsumerRunner
from headrace.core import JSON


class Activity:
    """Counts what consumers and action workers handle."""

    def __init__(
        self,
        consumers: Sequence[ConsumerRunner] | Callable[[], Sequence[ConsumerRunner]],
        workers: Sequence[ActionWorker],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_consumers = consumers if callable(consumers) else lambda: consumers
        self._workers = workers
        self._clock = clock
        self._reported_at = clock()
        self._events: dict[int, Counter[int]] = {
            id(runner): Counter(runner.handled_by_partition) for runner in self._list_consumers()
        }
        self._actions = self._count_actions()

    def report(self) -> Mapping[str, JSON]:
        """What was handled since the report before, per minute."""
        now = self._clock()
        period_s = max(now - self._reported_at, 0.001)
        consumers: list[JSON] = []
        # A relay that started since has handled everything since; one that has ended is not reported.
        events_before, self._events = self._events, {}
        for runner in self._list_consumers():
            before, after = events_before.get(id(runner), Counter()), Counter(runner.handled_by_partition)
            self._events[id(runner)] = after
            partitions = sorted(partition for partition in after if after[partition] > before[partition])
            events_per_min = (after.total() - before.total()) * 60 / period_s
            consumers.append(
                {
                    "topic": runner.consumer.topic,
                    "consumer": runner.consumer.name,
                    "partitions": list[JSON](partitions),
                    "events_per_min": round(events_per_min, 1),
                }
            )
        actions_before, self._actions = self._actions, self._count_actions()
        handled = {name: self._actions[name] - actions_before[name] for name in sorted(self._actions)}
        self._reported_at = now
        return {
            "period_s": round(period_s, 1),
            "consumers": consumers,
            "actions": [{"action": name, "per_min": round(count * 60 / period_s, 1)} for name, count in handled.items()],
        }

    def _count_actions(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for worker in self._workers:
            counts.update({name: worker.handled_by_action[name] for name in worker.handled_by_action})
        return counts
