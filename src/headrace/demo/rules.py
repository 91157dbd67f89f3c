"""The rules of the demo, and how often they must fire, counted from the flights without any rule or condition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import as_file, files

from psycopg.rows import class_row

from headrace.db import Connection, query
from headrace.definitions import apply, plan, register_action, register_event_type
from headrace.demo.flights import Flight
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
    with conn.cursor(row_factory=class_row(RuleTotals)) as cursor:
        return cursor.execute(query("demo/rule_totals")).fetchall()
