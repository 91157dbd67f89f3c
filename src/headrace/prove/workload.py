"""Workload: topics, rules, correlators, schedule, and which transactions the producers make.

Promises: transaction number k of a producer is the same in every run of a seed, event ids included."""

from __future__ import annotations

import random
from dataclasses import dataclass
from uuid import UUID

from headrace.correlators import ActionOutput, Correlator, EventOutput, Output, create_correlator
from headrace.db import Connection, query
from headrace.log import create_topic
from headrace.prove.history import Sent
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.spark.pipeline import set_engine

ORDERS, STEPS, ALERTS, TICKS, TROUBLE, EXPIRING, SUNK = "orders", "steps", "alerts", "ticks", "trouble", "expiring", "sunk"
TRIPS = "trips"
"""Its rules and correlators run on Spark where the run has a pipeline, in the database where it has none."""
PARTITIONS = 4
PUBLISHED = (ORDERS, STEPS, TRIPS, TROUBLE)
"""The topics that producers write to."""
WHOLE = (ORDERS, STEPS, TRIPS, ALERTS, TICKS, TROUBLE, SUNK)
"""The topics whose log is there from position 1 to the end."""
POISON = "poison"
SCHEDULE = "every-second"
CRON = "* * * * * *"
ATTEMPTS_MAX = 5
EXPIRING_DAYS, EXPIRING_PER_DAY_MIN, EXPIRING_PER_MINUTE = 6, 20, 65
"""Old events by day: so many that their slow consumer is behind for more than half of the run."""
LEDGER, CAREFUL, CAUTIOUS, LAGGARD = "ledger", "careful", "cautious", "laggard"
CONSUMERS = {LEDGER: ORDERS, CAREFUL: TROUBLE, CAUTIOUS: TROUBLE, LAGGARD: EXPIRING}
"""The consumers and their topics. Two meet poison, one event by event and one in batches; the last is slow on purpose."""

RULES = (
    Rule(name="big", topic=ORDERS, event_type="placed", action="charge", condition="(object -> 'amount')::int >= 800"),
    Rule(
        name="red",
        topic=ORDERS,
        event_type="placed",
        action="paint",
        condition="object ->> 'color' = 'red' and (object -> 'amount')::int % 3 = 0",
    ),
    Rule(
        name="odd",
        topic=ORDERS,
        event_type="returned",
        action="inspect",
        condition="key like '%-1' or object ->> 'color' = 'blue'",
    ),
    Rule(name="trouble", topic=TROUBLE, event_type=POISON, action="explode"),
    Rule(name="far", topic=TRIPS, event_type="out", action="charge", condition="(object -> 'amount')::int >= 500"),
    Rule(name="lost", topic=TRIPS, event_type="lost", action="inspect", condition="object ->> 'color' in ('red', 'blue')"),
)


@dataclass(frozen=True)
class Pattern:
    """The pattern of a correlator, over a topic."""

    topic: str
    text: str


PATTERNS = {
    "simple": Pattern(STEPS, "repeat {push(x) {do {sequential {a, b, a}} unless {c}}}"),
    "timed": Pattern(STEPS, "repeat {push(late) {sequential {a, fail {within 300 ms {b}}}}}"),
    "wide": Pattern(STEPS, "parallel {repeat {push(x) {sequential {a, b}}}, repeat {push(y) {accumulate {b, c}}}}"),
    "trip": Pattern(TRIPS, "repeat {push(home) {do {sequential {out, back}} unless {lost}}}"),
    "overdue": Pattern(TRIPS, "repeat {push(overdue) {sequential {out, fail {within 400 ms {back}}}}}"),
}
OUTPUTS: dict[str, Output] = {
    "x": ActionOutput(action="notify"),
    "y": EventOutput(event="y", topic=ALERTS),
    "late": ActionOutput(action="remind"),
    "home": EventOutput(event="home", topic=ALERTS),
    "overdue": ActionOutput(action="remind"),
}
ACTIONS = ("charge", "paint", "inspect", "notify", "remind", "explode")
TYPES = {ORDERS: ("placed", "placed", "placed", "returned"), STEPS: tuple("abc"), TRIPS: ("out", "back", "out", "back", "lost")}
"""What producers publish."""
SHARES = (62, 28, 10)


@dataclass(frozen=True)
class Transaction:
    """What a producer does: these events, by one of the ways in, then commit or roll back, perhaps after holding it open."""

    op: int
    events: tuple[Sent, ...]
    way: str
    commits: bool
    hold_s: float


def transaction(seed: int, producer: str, op: int) -> Transaction:
    """The transaction number `op` of a producer."""
    draw = random.Random(f"{seed}:{producer}:{op}")
    count = draw.choice((1, 1, 2, 3, 5, 8, 13))
    events = tuple(_event(draw, producer, op * 16 + place) for place in range(count))
    held = draw.random() < 0.03
    return Transaction(
        op, events, draw.choice(("sql", "python", "copy")), draw.random() >= 0.03, draw.uniform(0.02, 0.3) if held else 0.0
    )


def _event(draw: random.Random, producer: str, n: int) -> Sent:
    (topic,) = draw.choices(tuple(TYPES), weights=SHARES)
    type_ = draw.choice(TYPES[topic])
    return Sent(
        id=UUID(int=draw.getrandbits(128), version=4),
        topic=topic,
        type=type_,
        key=f"{producer}-{draw.randrange(6)}",
        n=n,
        amount=draw.randrange(1000),
        color=draw.choice(("red", "green", "blue")),
    )


def furnish(conn: Connection, *, minutes: float, spark: bool = False) -> None:
    """Gives a migrated database everything the workload needs. With `spark` a pipeline is to run the topic of trips."""
    conn.execute(query("prove/tables"))
    for topic in (ORDERS, STEPS, TRIPS):
        create_topic(conn, topic, partitions=PARTITIONS)
    for topic in (ALERTS, TICKS, TROUBLE, SUNK):
        create_topic(conn, topic)
    for rule in RULES:
        create_rule(conn, rule)
    for name, pattern in PATTERNS.items():
        wanted = {token: output for token, output in OUTPUTS.items() if f"push({token})" in pattern.text}
        create_correlator(conn, Correlator(name=name, topic=pattern.topic, key="key", pattern=pattern.text, outputs=wanted))
    create_schedule(conn, SCHEDULE, cron=CRON, topic=TICKS, type="tick", missed="all", missed_max=1000, grace_s=5)
    if spark:
        set_engine(conn, TRIPS, "spark")
    _fill_expiring(conn, max(EXPIRING_PER_DAY_MIN, round(minutes * EXPIRING_PER_MINUTE)))


def _fill_expiring(conn: Connection, per_day: int) -> None:
    """Days of a log that retention may drop as soon as its slow consumer has passed them, and not before."""
    for day in range(EXPIRING_DAYS, 0, -1):
        conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"-{day + 2} days",))
        if day == EXPIRING_DAYS:
            create_topic(conn, EXPIRING, time_partition="day")
        conn.execute(query("prove/fill_expiring"), {"topic": EXPIRING, "events": per_day})
        while conn.execute("select * from headrace.sequence()").fetchall():
            pass
    conn.execute("select set_config('headrace.clock_shift', '', false)")
    # Before retention: what no consumer has asked for may go at once.
    conn.execute("select headrace.create_consumer(%s, %s)", (EXPIRING, LAGGARD))
    conn.execute("update headrace.topic set retention = '1 day' where topic = %s", (EXPIRING,))
