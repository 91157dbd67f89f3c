"""The rules and correlators of the demo, and what they must fire and push, counted from the events without any rule or pattern."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.resources import as_file, files

from headrace.core import Event
from headrace.correlators import CORRELATORS, ActionOutput, load_correlators
from headrace.db import Connection, fetch_rows, query
from headrace.definitions import apply, plan, register_action, register_event_type
from headrace.demo.flights import ARRIVED, CALM, CANCELLED, DEPARTED, STORM, Flight
from headrace.rules import RULES, load_rules

VOUCHER_MIN = 240
"""As in rules.yaml; a test compares them."""
BELIEVED_MIN = 720
"""The handler fails for a longer delay: a person has to check it first."""


@dataclass(frozen=True)
class ExpectedFirings:
    """How often each rule must fire, and how many of its actions must end as dead letters."""

    long_delay: int
    diverted: int
    cancelled: int
    dead: int

    @property
    def total(self) -> int:
        return self.long_delay + self.diverted + self.cancelled


@dataclass(frozen=True)
class RuleTotals:
    """How often a rule fired, and how its actions ended."""

    rule: str
    action: str
    firings: int
    done: int
    dead: int


def expected_firings(flights: Iterable[Flight]) -> ExpectedFirings:
    """How often the rules must fire for these flights."""
    flights = list(flights)
    delays = [flight.dep_delay_min for flight in flights if flight.dep_delay_min is not None]
    return ExpectedFirings(
        long_delay=sum(delay >= VOUCHER_MIN for delay in delays),
        diverted=sum(flight.arrived is not None and flight.arr_delay_min is None for flight in flights),
        cancelled=sum(flight.departed is None for flight in flights),
        dead=sum(delay > BELIEVED_MIN for delay in delays),
    )


def apply_rules(conn: Connection) -> None:
    """Applies the rules of the file, and registers the event types and actions they use."""
    with as_file(files("headrace.demo") / "rules.yaml") as path:
        rules = load_rules(path)
    for rule in rules:
        register_event_type(conn, rule.event_type)
        register_action(conn, rule.action)
    apply(conn, plan(conn, rules, kinds=(RULES,), source="rules.yaml"))


def rule_totals(conn: Connection) -> list[RuleTotals]:
    return fetch_rows(conn, RuleTotals, query("demo/rule_totals"))


BANDS = ((15, 44), (45, 89), (90, 100_000))
"""Minutes of delay of the first, second and third departure, as in correlators.yaml."""
OVERDUE = timedelta(hours=12)
ODD, HOLD = 5, 20


@dataclass(frozen=True)
class ExpectedOutputs:
    """How often each token must be pushed."""

    grows: int = 0
    overdue: int = 0
    odd: int = 0
    hold: int = 0

    @property
    def actions(self) -> int:
        return self.grows + self.overdue + self.odd


@dataclass(frozen=True)
class CorrelatorTotals:
    """How often a correlator pushed a token, and how many of its actions or events are done."""

    correlator: str
    token: str
    becomes: str
    outputs: int
    done: int


@dataclass
class OutputCounter:
    """Counts, event by event, what the correlators must push."""

    _legs: dict[str, int] = field(default_factory=dict)
    _airborne: dict[str, datetime] = field(default_factory=dict)
    _storm: dict[str, bool] = field(default_factory=dict)
    _cancelled: dict[str, int] = field(default_factory=dict)
    _grows: int = 0
    _overdue: int = 0
    _odd: int = 0
    _hold: int = 0

    def count(self, event: Event) -> None:
        assert isinstance(event.payload, dict) and event.emitted_at is not None
        aircraft, airport, delay = (event.payload.get(name) for name in ("tailnum", "origin", "delay_min"))
        if isinstance(aircraft, str):
            if event.type == DEPARTED and isinstance(delay, int):
                self._count_leg(aircraft, delay)
            self._count_flight(aircraft, event.type, event.emitted_at)
        self._count_airport(str(airport), event.type)

    def _count_leg(self, aircraft: str, delay: int) -> None:
        leg = self._legs.get(aircraft, 0)
        low, high = BANDS[leg]
        leg = leg + 1 if low <= delay <= high else 0
        self._grows += leg == len(BANDS)
        self._legs[aircraft] = leg % len(BANDS)

    def _count_flight(self, aircraft: str, type: str, at: datetime) -> None:
        since = self._airborne.get(aircraft)
        if since is not None and at >= since + OVERDUE:
            self._overdue += 1
            self._airborne.pop(aircraft)
            since = None
        if type == ARRIVED:
            self._airborne.pop(aircraft, None)
        elif type == DEPARTED and since is None:
            self._airborne[aircraft] = at

    def _count_airport(self, airport: str, type: str) -> None:
        storm = self._storm.get(airport, False)
        if type in (CALM, STORM):
            if (type == STORM) != storm:
                self._storm[airport], self._cancelled[airport] = type == STORM, 0
        elif type == CANCELLED:
            self._cancelled[airport] = self._cancelled.get(airport, 0) + 1
            self._hold += storm and self._cancelled[airport] == HOLD
            if not storm and self._cancelled[airport] == ODD:
                self._odd += 1
                self._cancelled[airport] = 0
        elif type == DEPARTED and not storm:
            self._cancelled[airport] = 0

    def total(self, now: datetime | None) -> ExpectedOutputs:
        """The counts when the log has reached a time: an aircraft in the air for too long is overdue by then."""
        late = sum(now is not None and now >= since + OVERDUE for since in self._airborne.values())
        return ExpectedOutputs(self._grows, self._overdue + late, self._odd, self._hold)


def expected_outputs(events: Iterable[Event]) -> ExpectedOutputs:
    """What the correlators must push for these events."""
    counter, now = OutputCounter(), None
    for event in events:
        counter.count(event)
        now = event.emitted_at
    return counter.total(now)


def create_correlators(conn: Connection) -> None:
    """Applies the correlators of the file, and registers the actions they use."""
    with as_file(files("headrace.demo") / "correlators.yaml") as path:
        correlators = load_correlators(path)
    for correlator in correlators:
        for output in correlator.outputs.values():
            if isinstance(output, ActionOutput):
                register_action(conn, output.action)
    apply(conn, plan(conn, correlators, kinds=(CORRELATORS,), source="correlators.yaml"))


def correlator_totals(conn: Connection) -> list[CorrelatorTotals]:
    return fetch_rows(conn, CorrelatorTotals, query("demo/correlator_totals"))
