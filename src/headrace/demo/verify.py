"""The proof: do the numbers add up?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from headrace.actions import queue_state
from headrace.consume import consumer_lag, list_dead_letters
from headrace.core import Event
from headrace.db import Connection, query
from headrace.demo.application import DELAYS, LATE_MIN
from headrace.demo.correlators import Correlated, correlator_figures
from headrace.demo.flights import ARRIVED, CALM, CANCELLED, DEPARTED, STORM, TOPIC
from headrace.demo.rules import Expected, rule_figures
from headrace.demo.watch import look
from headrace.log import get_topic


@dataclass(frozen=True)
class Proof:
    """One thing that must hold: what it should be and what it is."""

    what: str
    expected: int
    found: int

    @property
    def holds(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True)
class Airport:
    """One airport as the consumer has counted it."""

    airport: str
    departures: int
    arrivals: int
    cancelled: int
    mean_delay_min: float | None


@dataclass
class Tally:
    """What was published, counted by the publisher."""

    departures: int = 0
    arrivals: int = 0
    cancelled: int = 0
    weather: int = 0
    delay_min: int = 0
    late: int = 0
    repeated: int = 0

    @property
    def events(self) -> int:
        return self.departures + self.arrivals + self.cancelled + self.weather

    def count(self, event: Event) -> None:
        self.departures += event.type == DEPARTED
        self.arrivals += event.type == ARRIVED
        self.cancelled += event.type == CANCELLED
        self.weather += event.type in (CALM, STORM)
        if event.type == DEPARTED and isinstance(event.payload, dict):
            delay_min = event.payload["delay_min"]
            assert isinstance(delay_min, int)
            self.delay_min += delay_min
            self.late += delay_min >= LATE_MIN


@dataclass(frozen=True)
class LogFacts:
    """One row of queries/demo/log_facts.sql."""

    events: int
    first_position: int
    last_position: int
    positions: int
    ids: int
    out_of_order: int


def _log_facts(conn: Connection) -> LogFacts:
    with conn.cursor(row_factory=class_row(LogFacts)) as cursor:
        facts = cursor.execute(query("demo/log_facts")).fetchone()
    assert facts is not None
    return facts


def verify(conn: Connection, tally: Tally, rolled_back: Sequence[UUID]) -> list[Proof]:
    """Everything the demo promises, counted at both ends."""
    seen = look(conn)
    log = _log_facts(conn)
    row = conn.execute(query("demo/airport_facts")).fetchone() or (0, 0, 0, 0)
    unwanted = conn.execute(query("demo/seen"), {"ids": list(rolled_back)}).fetchone() or (0,)
    behind = sum(one.lag_events for one in consumer_lag(conn))
    waiting = get_topic(conn, TOPIC).waiting + get_topic(conn, DELAYS).waiting
    return [
        Proof("events in the log", tally.events, log.events),
        Proof("distinct ids", tally.events, log.ids),
        Proof("newest position (no gaps)", tally.events, log.last_position - log.first_position + 1),
        Proof("distinct positions", tally.events, log.positions),
        Proof("events out of order", 0, log.out_of_order),
        Proof("rolled back, yet in the log", 0, unwanted[0]),
        Proof("departures counted", tally.departures, row[0]),
        Proof("arrivals counted", tally.arrivals, row[1]),
        Proof("cancellations counted", tally.cancelled, row[2]),
        Proof("minutes of delay counted", tally.delay_min, row[3]),
        Proof(f"departures {LATE_MIN} min late", tally.late, seen.late),
        Proof("notices to passengers", tally.late, seen.told),
        Proof("left in the outbox", 0, waiting),
        Proof("not handled yet", 0, behind),
        Proof("dead letters of consumers", 0, len(list_dead_letters(conn))),
    ]


def verify_rules(conn: Connection, tally: Tally, expected: Expected) -> list[Proof]:
    """What rules and handlers did, against what the flights themselves say."""
    found = {one.rule: one for one in rule_figures(conn)}
    outcome = conn.execute(query("demo/outcome_facts")).fetchone() or (0, 0, 0)
    state = queue_state(conn)
    return [
        Proof("rule long delay fired", expected.long_delay, found["long delay"].fired),
        Proof("rule diverted fired", expected.diverted, found["diverted"].fired),
        Proof("rule cancelled fired", expected.cancelled, found["cancelled"].fired),
        Proof("events matched", expected.fired, outcome[0]),
        Proof("events unmatched", tally.events - expected.fired, outcome[1]),
        Proof("actions carried out", expected.fired - expected.dead, sum(one.done for one in found.values())),
        Proof("effects of handlers", expected.fired - expected.dead, outcome[2]),
        Proof("dead letters of actions", expected.dead, state.dead),
        Proof("left in the action queue", 0, state.due + state.in_flight + state.delayed),
    ]


def verify_correlators(conn: Connection, expected: Correlated) -> list[Proof]:
    """What correlators pushed and what came of it, against a count by hand."""
    figures = correlator_figures(conn)
    pushed = {one.token: one.pushed for one in figures}
    dispatched = conn.execute("select count(*) from dispatch").fetchone() or (0,)
    return [
        Proof("aircraft whose delays grow", expected.grows, pushed.get("grows", 0)),
        Proof("aircraft overdue after 12 h", expected.overdue, pushed.get("overdue", 0)),
        Proof("calm airports where nothing leaves", expected.odd, pushed.get("odd", 0)),
        Proof("airports held in a storm", expected.hold, pushed.get("hold", 0)),
        Proof("correlators' actions and events done", expected.actions + expected.hold, sum(one.done for one in figures)),
        Proof("effects of their handlers", expected.actions, dispatched[0]),
    ]


def busiest(conn: Connection) -> list[Airport]:
    with conn.cursor(row_factory=class_row(Airport)) as cursor:
        return cursor.execute(query("demo/busiest")).fetchall()
