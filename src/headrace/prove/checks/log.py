"""Checks of publish, log and erasures, and of relays: what their targets have, compared with the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from uuid import UUID

from headrace.core import LoggedEvent
from headrace.prove.checks.result import Findings, Violation, check
from headrace.prove.evidence import Evidence, Operation, RelayedEvent, SentEvent
from headrace.prove.workload import ORDERS


@check("nothing is left of an erased key, and positions stay")
def erased_is_gone(evidence: Evidence) -> Findings:
    """Nothing of an erased key is left in log, outbox, queue, state or outputs, and the positions have no gap."""
    erased = evidence.erased
    if erased is None:
        return 0
    for table in erased.remains:
        yield Violation("data of an erased key is left", (table,))
    if erased.payloads:
        yield Violation("events of an erased key have a payload", (f"{erased.payloads} events",))
    for topic, positions in erased.positions.items():
        for before, after in pairwise((0, *positions)):
            if after != before + 1:
                yield Violation("an erasure left a gap", (f"{topic}: {before}", f"{topic}: {after}"))
    return erased.erasures


CLOCK_S = 1.0
"""How far the clocks of server and producers may differ."""


def _describe_operation(operation: Operation) -> str:
    outcomes = ", ".join(operation.outcomes) or "killed before it knew"
    return f"{operation.producer} op {operation.op}, {len(operation.events)} events, {operation.attempts} attempts: {outcomes}"


def _describe_event(event: LoggedEvent) -> str:
    return f"{event.topic} position {event.position}: {event.type} key {event.key} {event.payload} id {event.id}"


def _describe_sent(sent: SentEvent) -> str:
    return f"{sent.topic} {sent.type} key {sent.key} {sent.payload} id {sent.id}"


def _events_by_id(evidence: Evidence) -> Mapping[UUID, LoggedEvent]:
    return {event.id: event for events in evidence.log.values() for event in events}


@check("no acknowledged event is lost")
def acknowledged_is_logged(evidence: Evidence) -> Findings:
    """Every event of an acknowledged transaction is in the log, as it was sent."""
    logged = _events_by_id(evidence)
    for operation in evidence.operations:
        if not operation.acknowledged or not operation.commits:
            continue
        for sent in operation.events:
            event, described = logged.get(sent.id), _describe_operation(operation)
            if event is None:
                yield Violation("an acknowledged event is not in the log", (described, f"missing: {_describe_sent(sent)}"))
            elif not _is_same(sent, event):
                example = (described, f"sent: {_describe_sent(sent)}", _describe_event(event))
                yield Violation("an event in the log differs from the event sent", example)
    return sum(len(operation.events) for operation in evidence.operations if operation.acknowledged)


def _is_same(sent: SentEvent, event: LoggedEvent) -> bool:
    return (sent.topic, sent.type, sent.key, sent.payload) == (event.topic, event.type, event.key, event.payload)


@check("an event keeps its headers and its time")
def events_as_sent(evidence: Evidence) -> Findings:
    """An event in the log has the headers, the producer and the time of its publisher; a time that the database set is that of the
    transaction."""
    sent = {
        sent.id: (sent, operation) for operation in evidence.operations if operation.acknowledged for sent in operation.events
    }
    logged = [event for topic in _published_topics(evidence) for event in evidence.log.get(topic, ()) if event.id in sent]
    for event in logged:
        original, operation = sent[event.id]
        emitted_s = event.emitted_at.timestamp()
        if event.headers != original.headers:
            example = (f"sent: {original.headers}, in the log: {event.headers}", _describe_event(event))
            yield Violation("an event has other headers", example)
        if original.emitted_at not in (None, event.emitted_at):
            example = (f"sent: {original.emitted_at}, in the log: {event.emitted_at}", _describe_event(event))
            yield Violation("an event has another time", example)
        elif original.emitted_at is None and not operation.started_at - CLOCK_S <= emitted_s <= operation.ended_at + CLOCK_S:
            period = f"{operation.started_at:.3f} to {operation.ended_at:.3f}"
            example = (f"published from {period}, in the log: {emitted_s:.3f}", _describe_event(event))
            yield Violation("an event has a time outside of its transaction", example)
    return len(logged)


@check("no rolled back event is visible")
def rolled_back_is_invisible(evidence: Evidence) -> Findings:
    """No event of a rolled back transaction is in the log, nor was it ever read there."""
    logged = _events_by_id(evidence)
    reads = {read.id: read for read in evidence.reads}
    rolled_back = [operation for operation in evidence.operations if not operation.commits]
    for operation in rolled_back:
        for sent in operation.events:
            described = _describe_operation(operation)
            if sent.id in logged:
                yield Violation("a rolled back event is in the log", (described, _describe_event(logged[sent.id])))
            elif sent.id in reads:
                yield Violation("a rolled back event was read", (described, str(reads[sent.id])))
    return sum(len(operation.events) for operation in rolled_back)


@check("the log has only what was published")
def known_events_only(evidence: Evidence) -> Findings:
    """Every event in the producers' topics was sent by a producer."""
    sent_ids = {sent.id for operation in evidence.operations if operation.commits for sent in operation.events}
    events = [event for topic in _published_topics(evidence) for event in evidence.log.get(topic, ())]
    for event in events:
        if event.id not in sent_ids:
            yield Violation("the log has an event that nobody sent", (_describe_event(event),))
    return len(events)


def _published_topics(evidence: Evidence) -> list[str]:
    return sorted({sent.topic for operation in evidence.operations for sent in operation.events})


@check("positions rise by one, without gaps")
def positions_without_gaps(evidence: Evidence) -> Findings:
    """Positions rise by one from 1, and the log's time never goes back."""
    for topic, events in evidence.log.items():
        if events and events[0].position != 1:
            yield Violation(f"the log of {topic} does not begin at 1", (_describe_event(events[0]),))
        for event, following in pairwise(events):
            example = (_describe_event(event), _describe_event(following))
            if following.position != event.position + 1:
                yield Violation("positions do not rise by one", example)
            elif following.appended_at < event.appended_at:
                yield Violation(
                    "the log's time goes back", (f"{event.appended_at} {example[0]}", f"{following.appended_at} {example[1]}")
                )
    return sum(map(len, evidence.log.values()))


@check("the same id twice is one event")
def one_event_per_id(evidence: Evidence) -> Findings:
    """The same event id twice is one event."""
    for events in evidence.log.values():
        copies: dict[UUID, list[LoggedEvent]] = defaultdict(list)
        for event in events:
            copies[event.id].append(event)
        for same in copies.values():
            if len(same) > 1:
                yield Violation(f"an event is in the log {len(same)} times", tuple(map(_describe_event, same)))
    return sum(map(len, evidence.log.values()))


@check("per key, producer order")
def producer_order_per_key(evidence: Evidence) -> Findings:
    """A producer's events of one key are in the log in the order it sent them."""
    topics = _published_topics(evidence)
    for topic in topics:
        last: dict[tuple[str | None, str | None], LoggedEvent] = {}
        for event in evidence.log.get(topic, ()):
            before = last.get((event.producer, event.key))
            if before is not None and _number(event) <= _number(before):
                example = (_describe_event(before), _describe_event(event))
                yield Violation("a producer's events of one key are out of order", example)
            last[event.producer, event.key] = event
    return sum(len(evidence.log.get(topic, ())) for topic in topics)


def _number(event: LoggedEvent) -> int:
    return int(event.payload["n"]) if isinstance(event.payload, dict) else 0


@check("one value per position; live reads equal final reads")
def live_reads_are_final(evidence: Evidence) -> Findings:
    """What a reader read at a position is still there at the end; it skipped nothing and read nothing twice."""
    reads: dict[str, list[tuple[int, UUID, int]]] = defaultdict(list)
    for read in evidence.reads:
        reads[read.topic].append((read.position, read.id, read.digest))
    for topic in sorted(evidence.log.keys() | reads.keys()):
        events = {event.position: event for event in evidence.log.get(topic, ())}
        expected = 1
        for position, event_id, digest in reads[topic]:
            if position != expected:
                yield Violation("a reader skipped positions, or went back", (f"{topic}: read {position}, expected {expected}",))
            expected = position + 1
            event = events.get(position)
            if event is None or event.id != event_id:
                current = "nothing" if event is None else _describe_event(event)
                example = (f"{topic} position {position} was {event_id}", f"it is {current}")
                yield Violation("a position changed its event", example)
            elif evidence.digests.get((topic, position)) != digest:
                yield Violation("an event changed after it was read", (_describe_event(event),))
        if evidence.reads and events and expected != len(events) + 1:
            yield Violation("a reader did not reach the end", (f"{topic}: at {expected - 1} of {len(events)}",))
    return len(evidence.reads)


@check("a batch is written exactly once")
def sink_writes_once(evidence: Evidence) -> Findings:
    """Every row of a batch that the sink knows is committed is in the log once; other batches are there once or not at all."""
    times = Counter(_number(event) for event in evidence.log.get("sink", ()))
    for batch in evidence.batches:
        counts = {times[row.n] for row in batch.events}
        if counts == {1} or (counts == {0} and not batch.acknowledged):
            continue
        rows = tuple(f"row {row.n}: {times[row.n]} times in the log" for row in batch.events if times[row.n] != 1)
        yield Violation(f"batch {batch.op} was not written once", (_describe_operation(batch), *rows))
    return sum(len(batch.events) for batch in evidence.batches)


ONCE = "a target that can tell a repetition has every event of the log exactly once, in order per partition"
AT_LEAST_ONCE = "every other target has every event of the log, in order per key, and repeated only after a fault"


@check(ONCE)
def relayed_once(evidence: Evidence) -> Findings:
    """The target has every position once, with its event, and in order within a partition."""
    logged = _logged(evidence)
    for relay, events in _targets(evidence, "exactly once"):
        yield from _other_events(relay, events, logged)
        counts = Counter(event.position for event in events)
        for position in logged:
            if counts[position] != 1:
                yield Violation(f"a target has an event {counts[position]} times", (f"{relay} {ORDERS} {position}",))
        yield from _disorder(relay, events, {event.position: f"partition {event.partition}" for event in events})
    return sum(len(events) for _, events in _targets(evidence, "exactly once"))


@check(AT_LEAST_ONCE)
def relayed_at_least_once(evidence: Evidence) -> Findings:
    """The target has every position with its event; first occurrences are in order within a key; nothing is repeated before a fault."""
    logged = _logged(evidence)
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
    return sum(len(events) for _, events in _targets(evidence, "at least once"))


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
