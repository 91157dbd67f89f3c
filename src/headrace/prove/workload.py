"""Workload: names of topics and consumers, and the transactions of producers. `definitions` has rules and correlators.

Promises: transaction number k of a producer is the same in every run of a seed, event ids included."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from headrace.prove.evidence import SentEvent

ORDERS, STEPS, ALERTS, TICKS, TROUBLE, EXPIRING, SINK = "orders", "steps", "alerts", "ticks", "trouble", "expiring", "sink"
TRIPS = "trips"
"""Its rules and correlators run on Spark if the run has a pipeline, else in the database."""
PEOPLE, RETURNS, GREET, PERSON = "people", "people-returned", "greet", "person"
"""Two topics, a rule with its action, and a correlator that hold data to be erased. No other check looks at them."""
PERSONAL = "@erased.example"
"""In every payload and key of these topics. Everything that has it is erased during the run."""
PARTITIONS = 4
COMPLETE_TOPICS = (ORDERS, STEPS, TRIPS, ALERTS, TICKS, TROUBLE, SINK)
"""The topics whose log is kept from position 1 to the end."""
POISON = "poison"
SCHEDULE = "every-second"
CRON = "* * * * * *"
ATTEMPTS_MAX = 5
EXPIRING_DAYS, EXPIRING_PER_DAY_MIN, EXPIRING_PER_MINUTE = 6, 3, 65
"""Old events per day: enough to keep their slow consumer behind for more than half of the run."""
LEDGER, CAREFUL, CAUTIOUS, LAGGARD = "ledger", "careful", "cautious", "laggard"
RELAY = "copy"
RELAYED = f"relay.{RELAY}"
"""The consumer of a relay that copies its events into a table, through the proxy."""
CONSUMERS = {LEDGER: ORDERS, RELAYED: ORDERS, CAREFUL: TROUBLE, CAUTIOUS: TROUBLE, LAGGARD: EXPIRING}
"""The consumers and their topics. Two get poison, one event by event and one in batches; the last is slow on purpose."""

LATER, MEND = "later", "mend"
"""Actions of the sender: one with a delay and a unique key, and one that fails until it was redriven. Their checks are their own."""
SHIP = "ship"
"""The rule and the action whose handler asks for the order of each key."""
TYPES = {ORDERS: ("placed", "placed", "placed", "returned"), STEPS: tuple("abc"), TRIPS: ("out", "back", "out", "back", "lost")}
"""The event types that producers publish."""
SHARES = (62, 28, 10)
LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
"""The times that events bring with them are later, by seconds to years."""


@dataclass(frozen=True)
class Transaction:
    """A producer's transaction: it publishes the events by one method, may stay open for a while, and commits or rolls back."""

    op: int
    events: tuple[SentEvent, ...]
    method: str
    commits: bool
    hold_s: float


def make_transaction(seed: int, producer: str, op: int) -> Transaction:
    """Transaction number `op` of a producer."""
    draw = random.Random(f"{seed}:{producer}:{op}")
    count = draw.choice((1, 1, 2, 3, 5, 8, 13))
    events = tuple(_event(draw, producer, op * 16 + index) for index in range(count))
    is_held = draw.random() < 0.03
    return Transaction(
        op, events, draw.choice(("sql", "python", "copy")), draw.random() >= 0.03, draw.uniform(0.02, 0.3) if is_held else 0.0
    )


def _event(draw: random.Random, producer: str, n: int) -> SentEvent:
    (topic,) = draw.choices(tuple(TYPES), weights=SHARES)
    type_ = draw.choice(TYPES[topic])
    return SentEvent(
        id=UUID(int=draw.getrandbits(128), version=4),
        topic=topic,
        type=type_,
        key=f"{producer}-{draw.randrange(6)}",
        n=n,
        amount=draw.randrange(1000),
        color=draw.choice(("red", "green", "blue")),
        headers={"source": producer, "number": str(n)} if n % 2 else {},
        emitted_at=LONG_AGO + timedelta(microseconds=n * 10**6 + 1) if n % 3 else None,
    )
