"""Checks of relays to brokers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from headrace.prove.checks.result import CheckResult, Violation, check_result
from headrace.prove.evidence import Evidence, RelayedEvent
from headrace.prove.workload import ORDERS

PROMISE = "a broker has every event of the log exactly once, in order"


def relayed_once(evidence: Evidence) -> CheckResult:
    """What a broker has is the log: every position once, with its event, and in order within a partition."""

    def violations() -> Iterator[Violation]:
        for broker, events in evidence.relayed.items():
            yield from _differences(broker, events, {event.position: str(event.id) for event in evidence.log.get(ORDERS, ())})

    return check_result("relayed-once", PROMISE, sum(map(len, evidence.relayed.values())), violations())


def _differences(broker: str, events: list[RelayedEvent], logged: dict[int, str]) -> Iterator[Violation]:
    counts = Counter(event.position for event in events)
    for position in logged:
        if counts[position] != 1:
            yield Violation(f"a broker has an event {counts[position]} times", (f"{broker} {ORDERS} {position}",))
    for event in events:
        if logged.get(event.position) != event.event_id:
            yield Violation(
                "a broker has another event than the log", (f"{broker} {event}", f"the log has {logged.get(event.position)}")
            )
    by_partition: dict[int, list[int]] = defaultdict(list)
    for event in events:
        by_partition[event.partition].append(event.position)
    for partition, positions in by_partition.items():
        for position, following in pairwise(positions):
            if following < position:
                yield Violation(
                    "a broker has a later position first", (f"{broker} partition {partition}: {position}, {following}",)
                )
