"""Hand-made evidence: a small run in which every promise held, and changes that break one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from headrace.core import LoggedEvent
from headrace.prove.evidence import (
    ActionResult,
    ConsumedEvent,
    DeadLetter,
    Delivery,
    Effect,
    ErasedData,
    Evidence,
    FaultRecord,
    Firing,
    HandlerEnded,
    HandlerStarted,
    Operation,
    Output,
    Paused,
    PipelineTotals,
    ReadEvent,
    RelayedEvent,
    RelayedEvents,
    Sample,
    SentAction,
    SentEvent,
    Tick,
)
from headrace.prove.processes.clients import digest

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = {"started_at": START.timestamp(), "ended_at": START.timestamp() + 60}
"""When the events of the good evidence were published."""


def make_id(n: int) -> UUID:
    return UUID(int=n)


def sent_event(n: int, *, topic: str = "orders", type: str = "placed", key: str = "p-0", amount: int = 0) -> SentEvent:
    return SentEvent(id=make_id(n), topic=topic, type=type, key=key, n=n, amount=amount, color="green")


def logged_event(sent: SentEvent, position: int, *, producer: str = "p") -> LoggedEvent:
    at = START + timedelta(seconds=position)
    return LoggedEvent(position, 0, sent.id, sent.topic, sent.type, sent.key, dict(sent.payload), {}, at, at, producer)


ORDERS = [sent_event(1, type="returned"), sent_event(2, amount=900), sent_event(3, type="returned")]
STEPS = [
    sent_event(11, topic="steps", type="a"),
    sent_event(12, topic="steps", type="b"),
    sent_event(13, topic="steps", type="c"),
]
TROUBLE = [sent_event(21, topic="trouble", type="poison", key="t"), sent_event(22, topic="trouble", type="fine", key="t")]
ROWS = (sent_event(100, topic="sink"), sent_event(101, topic="sink"))
TRIPS = [sent_event(31, topic="trips", type="out", amount=700), sent_event(32, topic="trips", type="back")]
ALERT, HOME = make_id(500), make_id(501)
CHARGE, NOTIFY, EXPLODE, FARE, REMIND = make_id(600), make_id(601), make_id(602), make_id(603), make_id(604)
SHIPPED = (make_id(605), make_id(606))
LATER, SENT_AGAIN, MENDED = make_id(607), make_id(608), make_id(609)


def _log() -> dict[str, list[LoggedEvent]]:
    listed = {"orders": ORDERS, "steps": STEPS, "trips": TRIPS, "trouble": TROUBLE, "sink": list(ROWS)}
    log = {topic: [logged_event(sent, position) for position, sent in enumerate(sents, 1)] for topic, sents in listed.items()}
    log["alerts"] = [
        logged_event(replace_id(sent_event(n, topic="alerts", type=type_), id_), n)
        for n, type_, id_ in ((1, "y", ALERT), (2, "home", HOME))
    ]
    log["ticks"] = [logged_event(replace_id(sent_event(1, topic="ticks", type="tick"), make_id(700 + n)), n) for n in (1, 2)]
    return log


def replace_id(sent: SentEvent, event_id: UUID) -> SentEvent:
    return SentEvent(id=event_id, topic=sent.topic, type=sent.type, key=sent.key, n=sent.n)


def relayed_events(*positions: int, delivery: Delivery = "exactly once", at: float | None = None) -> RelayedEvents:
    """What a target has: events of the topic of orders, by position."""
    return RelayedEvents(delivery, [RelayedEvent(0, n, str(make_id(n)), at) for n in positions])


def good_evidence() -> Evidence:
    """Evidence of a run in which every promise held."""
    log = _log()
    at = {event.id: event.appended_at for events in log.values() for event in events}
    return Evidence(
        operations=[
            Operation(producer="p", op=1, events=tuple(ORDERS), outcomes=("unknown", "ok"), **TIMES),
            Operation(producer="p", op=2, events=(sent_event(9),), commits=False, outcomes=("rolled_back",)),
            Operation(producer="p", op=3, events=(*STEPS, *TRIPS, *TROUBLE), outcomes=("ok",), **TIMES),
        ],
        batches=[Operation(producer="sink", op=1, events=ROWS, outcomes=("ok", "ok"))],
        log=log,
        digests={(topic, event.position): digest(event) for topic, events in log.items() for event in events},
        reads=[
            ReadEvent(at=1.0, topic=topic, position=event.position, id=event.id, digest=digest(event))
            for topic, events in log.items()
            for event in events
        ],
        consumed=[ConsumedEvent(n, consumer, 0, n, make_id(n)) for consumer in ("ledger", "relay.copy") for n in (1, 2, 3)],
        relayed={
            "nats": relayed_events(1, 2, 3),
            "webhook": relayed_events(1, 2, 3, delivery="at least once"),
        },
        dead_letters=[
            dead_letter
            for consumer in ("careful", "cautious")
            for dead_letter in (
                DeadLetter(consumer, 1, make_id(21), "poison", "t", "dead", 2),
                DeadLetter(consumer, 2, make_id(22), "fine", "t", "behind", 0),
            )
        ],
        effects=[
            Effect(1, CHARGE, "charge", 1),
            Effect(2, NOTIFY, "notify", 1),
            Effect(3, FARE, "charge", 1),
            Effect(4, REMIND, "remind", 1),
            *(Effect(n, shipped, "ship", 1) for n, shipped in enumerate(SHIPPED, 5)),
            Effect(7, LATER, "later", 1),
            Effect(8, MENDED, "mend", 1),
        ],
        action_results=[
            ActionResult(CHARGE, "charge", "done", 1),
            ActionResult(NOTIFY, "notify", "done", 1),
            ActionResult(EXPLODE, "explode", "dead", 2),
            ActionResult(FARE, "charge", "done", 1),
            ActionResult(REMIND, "remind", "done", 1),
            *(ActionResult(shipped, "ship", "done", 1) for shipped in SHIPPED),
            ActionResult(LATER, "later", "done", 1),
            ActionResult(MENDED, "mend", "dead", 2),
            ActionResult(MENDED, "mend", "done", 1),
        ],
        firings=[
            Firing("big", "orders", 2, make_id(2), CHARGE),
            Firing("trouble", "trouble", 1, make_id(21), EXPLODE),
            Firing("far", "trips", 1, make_id(31), FARE),
            *(Firing("ship", "orders", n, make_id(n), shipped) for n, shipped in zip((1, 3), SHIPPED, strict=True)),
        ],
        outputs=[
            Output("wide", "p-0", "x", at[make_id(12)], 2, "action", NOTIFY),
            Output("wide", "p-0", "y", at[make_id(13)], 3, "event", ALERT),
            Output("timed", "p-0", "late", at[make_id(11)] + timedelta(milliseconds=300), None, None, make_id(800)),
            Output("trip", "p-0", "home", at[make_id(32)], 2, "event", HOME),
            Output("overdue", "p-0", "overdue", at[make_id(31)] + timedelta(milliseconds=400), None, "action", REMIND),
        ],
        pipeline=PipelineTotals(2, 2, 1, 2),
        erased=ErasedData({"people": [1, 2, 3], "people-returned": []}, 0, [], 1),
        ticks=[Tick(START + timedelta(seconds=n), "fired", make_id(700 + n)) for n in (1, 2)],
        expected_ticks=[START + timedelta(seconds=n) for n in (1, 2)],
        handler_records=[
            HandlerStarted(at=1.0, node="n1", action_id=CHARGE, attempt=1),
            HandlerEnded(at=2.0, node="n1", action_id=CHARGE, attempt=1),
            HandlerStarted(at=3.0, node="n2", action_id=CHARGE, attempt=2),
            HandlerEnded(at=4.0, node="n2", action_id=CHARGE, attempt=2),
            HandlerStarted(at=12.0, node="n2", action_id=LATER, attempt=1),
            HandlerEnded(at=12.1, node="n2", action_id=LATER, attempt=1),
        ],
        sent_actions=[
            SentAction(at=8.0, action="later", ids=(LATER, SENT_AGAIN), not_before=10.0),
            SentAction(at=8.0, action="mend", ids=(MENDED,)),
        ],
        pauses=[Paused(at=9.0, until=11.0, action="later")],
        faults=[FaultRecord("kill-node", 20.0, 21.0), FaultRecord("shard-down", 40.0, 45.0)],
        samples=[Sample(float(at), at * 100, at * 100, 0, 0, 0) for at in range(60)],
        finished_at=START + timedelta(hours=1),
        unfinished={"events in the outbox": 0},
    )


def evidence_with(**changes: object) -> Evidence:
    """Good evidence with changes."""
    return replace(good_evidence(), **changes)  # type: ignore[arg-type]


def log_without(topic: str, position: int) -> dict[str, list[LoggedEvent]]:
    log = _log()
    log[topic] = [event for event in log[topic] if event.position != position]
    return log


def move_to(event: LoggedEvent, other: LoggedEvent) -> LoggedEvent:
    """An event at the position of another one."""
    return msgspec.structs.replace(event, position=other.position, emitted_at=other.emitted_at, appended_at=other.appended_at)


def log_with_swapped(topic: str, position: int, other: int) -> dict[str, list[LoggedEvent]]:
    """A log in which two events of a topic have swapped their positions."""
    log = _log()
    events = {event.position: event for event in log[topic]}
    first, second = events[position], events[other]
    events[position] = move_to(second, first)
    events[other] = move_to(first, second)
    log[topic] = [events[place] for place in sorted(events)]
    return log
