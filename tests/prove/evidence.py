"""Hand-made evidence: a small run in which every promise held, to be broken one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from headrace.core import LoggedEvent
from headrace.prove.evidence import (
    Consumed,
    Effect,
    Evidence,
    Fallen,
    Fired,
    Ledger,
    Letter,
    Operation,
    Pushed,
    Result,
    Sample,
    Ticked,
)
from headrace.prove.history import Began, Left, Seen, Sent
from headrace.prove.reader import digest

START = datetime(2026, 1, 1, tzinfo=UTC)


def uid(n: int) -> UUID:
    return UUID(int=n)


def sent(n: int, *, topic: str = "orders", type: str = "placed", key: str = "p-0", amount: int = 0) -> Sent:
    return Sent(id=uid(n), topic=topic, type=type, key=key, n=n, amount=amount, color="green")


def logged(one: Sent, position: int, *, producer: str = "p") -> LoggedEvent:
    at = START + timedelta(seconds=position)
    return LoggedEvent(position, 0, one.id, one.topic, one.type, one.key, dict(one.payload), {}, at, at, producer)


ORDERS = [sent(1), sent(2, amount=900), sent(3)]
STEPS = [sent(11, topic="steps", type="a"), sent(12, topic="steps", type="b"), sent(13, topic="steps", type="c")]
TROUBLE = [sent(21, topic="trouble", type="poison", key="t"), sent(22, topic="trouble", type="fine", key="t")]
ROWS = (sent(100, topic="sunk"), sent(101, topic="sunk"))
TRIPS = [sent(31, topic="trips", type="out", amount=700), sent(32, topic="trips", type="back")]
ALERT, HOME = uid(500), uid(501)
CHARGE, NOTIFY, EXPLODE, FARE, REMIND = uid(600), uid(601), uid(602), uid(603), uid(604)


def _log() -> dict[str, list[LoggedEvent]]:
    listed = {"orders": ORDERS, "steps": STEPS, "trips": TRIPS, "trouble": TROUBLE, "sunk": list(ROWS)}
    log = {topic: [logged(one, place) for place, one in enumerate(sents, 1)] for topic, sents in listed.items()}
    log["alerts"] = [
        logged(replace_id(sent(n, topic="alerts", type=type_), id_), n) for n, type_, id_ in ((1, "y", ALERT), (2, "home", HOME))
    ]
    log["ticks"] = [logged(replace_id(sent(1, topic="ticks", type="tick"), uid(700 + n)), n) for n in (1, 2)]
    return log


def replace_id(one: Sent, id_: UUID) -> Sent:
    return Sent(id=id_, topic=one.topic, type=one.type, key=one.key, n=one.n)


def whole() -> Evidence:
    """Everything as it should be."""
    log = _log()
    at = {event.id: event.appended_at for events in log.values() for event in events}
    return Evidence(
        operations=[
            Operation(producer="p", op=1, events=tuple(ORDERS), outcomes=("unknown", "ok")),
            Operation(producer="p", op=2, events=(sent(9),), commits=False, outcomes=("rolled_back",)),
            Operation(producer="p", op=3, events=(*STEPS, *TRIPS, *TROUBLE), outcomes=("ok",)),
        ],
        batches=[Operation(producer="sink", op=1, events=ROWS, outcomes=("ok", "ok"))],
        log=log,
        digests={(topic, event.position): digest(event) for topic, events in log.items() for event in events},
        seen=[
            Seen(at=1.0, topic=topic, position=event.position, id=event.id, digest=digest(event))
            for topic, events in log.items()
            for event in events
        ],
        consumed=[Consumed(n, "ledger", 0, n, uid(n)) for n in (1, 2, 3)],
        letters=[
            letter
            for consumer in ("careful", "cautious")
            for letter in (
                Letter(consumer, 1, uid(21), "poison", "t", "dead", 2),
                Letter(consumer, 2, uid(22), "fine", "t", "behind", 0),
            )
        ],
        effects=[
            Effect(1, CHARGE, "charge", 1),
            Effect(2, NOTIFY, "notify", 1),
            Effect(3, FARE, "charge", 1),
            Effect(4, REMIND, "remind", 1),
        ],
        results=[
            Result(CHARGE, "charge", "done", 1),
            Result(NOTIFY, "notify", "done", 1),
            Result(EXPLODE, "explode", "dead", 2),
            Result(FARE, "charge", "done", 1),
            Result(REMIND, "remind", "done", 1),
        ],
        fired=[
            Fired("big", "orders", 2, uid(2), CHARGE),
            Fired("trouble", "trouble", 1, uid(21), EXPLODE),
            Fired("far", "trips", 1, uid(31), FARE),
        ],
        pushed=[
            Pushed("wide", "p-0", "x", at[uid(12)], 2, "action", NOTIFY),
            Pushed("wide", "p-0", "y", at[uid(13)], 3, "event", ALERT),
            Pushed("timed", "p-0", "late", at[uid(11)] + timedelta(milliseconds=300), None, None, uid(800)),
            Pushed("trip", "p-0", "home", at[uid(32)], 2, "event", HOME),
            Pushed("overdue", "p-0", "overdue", at[uid(31)] + timedelta(milliseconds=400), None, "action", REMIND),
        ],
        ledger=Ledger(2, 2, 1, 2),
        ticks=[Ticked(START + timedelta(seconds=n), "fired", uid(700 + n)) for n in (1, 2)],
        planned_ticks=[START + timedelta(seconds=n) for n in (1, 2)],
        handlings=[
            Began(at=1.0, node="n1", action_id=CHARGE, attempt=1),
            Left(at=2.0, node="n1", action_id=CHARGE, attempt=1),
            Began(at=3.0, node="n2", action_id=CHARGE, attempt=2),
            Left(at=4.0, node="n2", action_id=CHARGE, attempt=2),
        ],
        fallen=[Fallen("kill-node", 20.0, 21.0), Fallen("shard-down", 40.0, 45.0)],
        samples=[Sample(float(at), at * 100, at * 100, 0, 0, 0) for at in range(60)],
        drained_at=START + timedelta(hours=1),
        left_over={"events in the outbox": 0},
    )


def but(**changed: object) -> Evidence:
    """The same with something else."""
    return replace(whole(), **changed)  # type: ignore[arg-type]


def without(topic: str, position: int) -> dict[str, list[LoggedEvent]]:
    log = _log()
    log[topic] = [event for event in log[topic] if event.position != position]
    return log


def at_place(event: LoggedEvent, place: LoggedEvent) -> LoggedEvent:
    """An event where another one stands."""
    return msgspec.structs.replace(event, position=place.position, emitted_at=place.emitted_at, appended_at=place.appended_at)


def swapped(topic: str, one: int, other: int) -> dict[str, list[LoggedEvent]]:
    """Two events of a topic at each other's positions."""
    log = _log()
    events = {event.position: event for event in log[topic]}
    first, second = events[one], events[other]
    events[one] = at_place(second, first)
    events[other] = at_place(first, second)
    log[topic] = [events[position] for position in sorted(events)]
    return log
