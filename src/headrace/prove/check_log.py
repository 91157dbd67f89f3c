"""Checks of publish and log. Pure: evidence in, verdict out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from uuid import UUID

from headrace.core import LoggedEvent
from headrace.prove.evidence import Evidence, Operation
from headrace.prove.history import Sent
from headrace.prove.verdict import Verdict, Violation, judge


def _tell(one: Operation) -> str:
    state = ", ".join(one.outcomes) or "killed before it knew"
    return f"{one.producer} op {one.op}, {len(one.events)} events, {one.tries} tries: {state}"


def _place(event: LoggedEvent) -> str:
    return f"{event.topic} position {event.position}: {event.type} key {event.key} {event.payload} id {event.id}"


def _by_id(evidence: Evidence) -> Mapping[UUID, LoggedEvent]:
    return {event.id: event for events in evidence.log.values() for event in events}


def acknowledged_is_logged(evidence: Evidence) -> Verdict:
    """Every event whose transaction was acknowledged is in the log, as it was sent."""
    logged = _by_id(evidence)

    def found() -> Iterator[Violation]:
        for one in evidence.operations:
            if not one.acknowledged or not one.commits:
                continue
            for sent in one.events:
                event = logged.get(sent.id)
                if event is None:
                    yield Violation("an acknowledged event is not in the log", (_tell(one), f"missing: {_sent(sent)}"))
                elif not _same(sent, event):
                    yield Violation("an event is not what was sent", (_tell(one), f"sent: {_sent(sent)}", _place(event)))

    examined = sum(len(one.events) for one in evidence.operations if one.acknowledged)
    return judge("acknowledged-is-logged", "no acknowledged event is lost", examined, found())


def _sent(sent: Sent) -> str:
    return f"{sent.topic} {sent.type} key {sent.key} {sent.payload} id {sent.id}"


def _same(sent: Sent, event: LoggedEvent) -> bool:
    return (sent.topic, sent.type, sent.key, sent.payload) == (event.topic, event.type, event.key, event.payload)


def rolled_back_is_unseen(evidence: Evidence) -> Verdict:
    """No event of a transaction that was rolled back is in the log, nor was it seen there."""
    logged = _by_id(evidence)
    seen = {one.id: one for one in evidence.seen}
    rolled_back = [one for one in evidence.operations if not one.commits]

    def found() -> Iterator[Violation]:
        for one in rolled_back:
            for sent in one.events:
                if sent.id in logged:
                    yield Violation("a rolled back event is in the log", (_tell(one), _place(logged[sent.id])))
                elif sent.id in seen:
                    yield Violation("a rolled back event was seen", (_tell(one), str(seen[sent.id])))

    return judge("rolled-back-is-unseen", "nothing rolled back is visible", sum(len(o.events) for o in rolled_back), found())


def known_events_only(evidence: Evidence) -> Verdict:
    """Every event of the producers' topics was sent by one of them."""
    sent = {one.id for operation in evidence.operations if operation.commits for one in operation.events}
    topics = {one.topic for operation in evidence.operations for one in operation.events}
    events = [event for topic in sorted(topics) for event in evidence.log.get(topic, ())]
    found = (Violation("an event nobody sent is in the log", (_place(event),)) for event in events if event.id not in sent)
    return judge("known-events-only", "the log has only what was published", len(events), found)


def positions_without_gaps(evidence: Evidence) -> Verdict:
    """Positions rise by one from 1, and time does not go back along them."""

    def found() -> Iterator[Violation]:
        for topic, events in evidence.log.items():
            if events and events[0].position != 1:
                yield Violation(f"the log of {topic} does not begin at 1", (_place(events[0]),))
            for one, other in pairwise(events):
                if other.position != one.position + 1:
                    yield Violation("positions do not rise by one", (_place(one), _place(other)))
                elif other.appended_at < one.appended_at:
                    yield Violation(
                        "the log's time goes back", (f"{one.appended_at} {_place(one)}", f"{other.appended_at} {_place(other)}")
                    )

    return judge("positions-without-gaps", "positions rise by one, without gaps", sum(map(len, evidence.log.values())), found())


def one_event_per_id(evidence: Evidence) -> Verdict:
    """The same event id twice is one event."""

    def found() -> Iterator[Violation]:
        for events in evidence.log.values():
            times = Counter(event.id for event in events)
            for id_, count in times.items():
                if count > 1:
                    yield Violation(f"one event is in the log {count} times", tuple(_place(e) for e in events if e.id == id_))

    return judge("one-event-per-id", "the same id twice is one event", sum(map(len, evidence.log.values())), found())


def producer_order_per_key(evidence: Evidence) -> Verdict:
    """Along a key, a producer's events stand in the order it sent them."""
    topics = {one.topic for operation in evidence.operations for one in operation.events}

    def found() -> Iterator[Violation]:
        for topic in sorted(topics):
            last: dict[tuple[str | None, str | None], LoggedEvent] = {}
            for event in evidence.log.get(topic, ()):
                before = last.get((event.producer, event.key))
                if before is not None and _number(event) <= _number(before):
                    yield Violation("a producer's events of one key are out of order", (_place(before), _place(event)))
                last[event.producer, event.key] = event

    return judge("producer-order-per-key", "per key, producer order", sum(len(evidence.log.get(t, ())) for t in topics), found())


def _number(event: LoggedEvent) -> int:
    return int(event.payload["n"]) if isinstance(event.payload, dict) else 0


def live_reads_are_final(evidence: Evidence) -> Verdict:
    """What a reader saw at a position is what stands there at the end; it skipped nothing and saw nothing twice."""
    seen: dict[str, list[tuple[int, UUID, int]]] = defaultdict(list)
    for one in evidence.seen:
        seen[one.topic].append((one.position, one.id, one.digest))

    def found() -> Iterator[Violation]:
        for topic in sorted(evidence.log.keys() | seen.keys()):
            reads = seen[topic]
            at = {event.position: event for event in evidence.log.get(topic, ())}
            expected = 1
            for position, id_, digest in reads:
                if position != expected:
                    yield Violation(
                        "a reader skipped positions, or went back", (f"{topic}: {position} came where {expected} was due",)
                    )
                expected = position + 1
                event = at.get(position)
                if event is None or event.id != id_:
                    now = "nothing" if event is None else _place(event)
                    yield Violation("a position changed its event", (f"{topic} position {position} was {id_}", f"it is {now}"))
                elif evidence.digests.get((topic, position)) != digest:
                    yield Violation("an event changed after it was read", (_place(event),))
            if evidence.seen and at and expected != len(at) + 1:
                yield Violation("a reader did not come to the end", (f"{topic}: at {expected - 1} of {len(at)}",))

    return judge("live-reads-are-final", "one value per position; live reads = final reads", len(evidence.seen), found())


def sink_wrote_once(evidence: Evidence) -> Verdict:
    """Every row of every batch that a sink saw committed is in the log once; of others at most once, and all or none."""
    times = Counter(_number(event) for events in (evidence.log.get("sunk", ()),) for event in events)

    def found() -> Iterator[Violation]:
        for batch in evidence.batches:
            counts = {times[row.n] for row in batch.events}
            if counts == {1} or (counts == {0} and not batch.acknowledged):
                continue
            told = tuple(f"row {row.n}: {times[row.n]} times in the log" for row in batch.events if times[row.n] != 1)
            yield Violation(f"batch {batch.op} was not written once", (_tell(batch), *told))

    return judge("sink-wrote-once", "a batch is written exactly once", sum(len(b.events) for b in evidence.batches), found())
