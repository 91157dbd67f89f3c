"""Checks of relays: what their targets have, compared with the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

from headrace.core import LoggedEvent
from headrace.prove.checks.result import CheckResult, Violation, check_result
from headrace.prove.evidence import Evidence, RelayedEvent
from headrace.prove.workload import ORDERS

ONCE = "a target that can tell a repetition has every event of the log exactly once, in order per partition"
AT_LEAST_ONCE = "every other target has every event of the log, in order per key, and repeated only after a fault"


def relayed_once(evidence: Evidence) -> CheckResult:
    """The target has every position once, with its event, and in order within a partition."""
    logged = _logged(evidence)

    def violations() -> Iterator[Violation]:
        for relay, events in _targets(evidence, "exactly once"):
            yield from _other_events(relay, events, logged)
            counts = Counter(event.position for event in events)
            for position in logged:
                if counts[position] != 1:
                    yield Violation(f"a target has an event {counts[position]} times", (f"{relay} {ORDERS} {position}",))
            yield from _disorder(relay, events, {event.position: f"partition {event.partition}" for event in events})

    return check_result("relayed-once", ONCE, sum(len(events) for _, events in _targets(evidence, "exactly once")), violations())


def relayed_at_least_once(evidence: Evidence) -> CheckResult:
    """The target has every position with its event; first occurrences are in order within a key; nothing is repeated before a fault."""
    logged = _logged(evidence)

    def violations() -> Iterator[Violation]:
        for relay, events in _targets(evidence, "at least once"):
            yield from _other_events(relay, events, logged)
            first: dict[int, RelayedEvent] = {}
            fault_at = min((fault.started_at for fault in evidence.faults), default=inf)
            for event in events:
                if event.position in first and not _may_repeat(event, fault_at):
                    yield Violation("a target has an event twice, without a fault", (f"{relay} {event}",))
                first.setdefault(event.position, event)
            for position in logged:
                if position not in first:
                    yield Violation("a target does not have an event", (f"{relay} {ORDERS} {position}",))
            keys = {position: f"key {event.key}" for position, event in logged.items() if event.key is not None}
            yield from _disorder(relay, list(first.values()), keys)

    examined = sum(len(events) for _, events in _targets(evidence, "at least once"))
    return check_result("relayed-at-least-once", AT_LEAST_ONCE, examined, violations())


def _logged(evidence: Evidence) -> dict[int, LoggedEvent]:
    return {event.position: event for event in evidence.log.get(ORDERS, ())}


def _targets(evidence: Evidence, delivery: str) -> Iterator[tuple[str, Sequence[RelayedEvent]]]:
    return ((relay, relayed.events) for relay, relayed in evidence.relayed.items() if relayed.delivery == delivery)


def _other_events(relay: str, events: Sequence[RelayedEvent], logged: Mapping[int, LoggedEvent]) -> Iterator[Violation]:
    for event in events:
        original = logged.get(event.position)
        if original is None or (str(original.id), original.partition) != (event.event_id, event.partition):
            yield Violation("a target has another event than the log", (f"{relay} {event}", f"the log has {original}"))


def _may_repeat(event: RelayedEvent, fault_at: float) -> bool:
    """Had a fault begun when the repetition came? Where the target does not tell its time, a fault at any time counts."""
    return fault_at < inf if event.at is None else fault_at <= event.at


def _disorder(relay: str, events: Sequence[RelayedEvent], groups: Mapping[int, str]) -> Iterator[Violation]:
    """Events of one group, in the order of the target, whose positions fall."""
    positions: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.position in groups:
            positions[groups[event.position]].append(event.position)
    for group, ordered in positions.items():
        for position, following in pairwise(ordered):
            if following < position:
                yield Violation("a target has a later position first", (f"{relay} {group}: {position}, {following}",))
