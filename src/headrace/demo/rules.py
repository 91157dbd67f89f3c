"""The rules of the demo and what must come of them, counted from the flights themselves: no rule, no condition is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import as_file, files

from psycopg.rows import class_row

from headrace.db import Connection, query
from headrace.definitions import register_action, register_event_type
from headrace.demo.flights import Flight
from headrace.rules import apply, load_rules, plan

VOUCHER_MIN = 240
"""As in rules.yaml; a test compares them."""
BELIEVED_MIN = 720
"""A longer delay is refused by the handler: somebody has to look at it first."""


@dataclass(frozen=True)
class Expected:
    """How often each rule must fire, and how many of its actions must end as dead letters."""

    long_delay: int
    diverted: int
    cancelled: int
    dead: int

    @property
    def fired(self) -> int:
        return self.long_delay + self.diverted + self.cancelled


@dataclass(frozen=True)
class RuleFigures:
    """What one rule did."""

    rule: str
    action: str
    fired: int
    done: int
    dead: int


def expect(flights: Iterable[Flight]) -> Expected:
    """What must come of these flights."""
    listed = list(flights)
    delays = [flight.dep_delay_min for flight in listed if flight.dep_delay_min is not None]
    return Expected(
        long_delay=sum(delay >= VOUCHER_MIN for delay in delays),
        diverted=sum(flight.arrived is not None and flight.arr_delay_min is None for flight in listed),
        cancelled=sum(flight.departed is None for flight in listed),
        dead=sum(delay > BELIEVED_MIN for delay in delays),
    )


def apply_rules(conn: Connection) -> None:
    """Gives the demo's database its rules, from the file, with the names they use."""
    with as_file(files("headrace.demo") / "rules.yaml") as path:
        rules = load_rules(path)
    for rule in rules:
        register_event_type(conn, rule.event_type)
        register_action(conn, rule.action)
    apply(conn, plan(conn, rules, source="rules.yaml"))


def rule_figures(conn: Connection) -> list[RuleFigures]:
    with conn.cursor(row_factory=class_row(RuleFigures)) as cursor:
        return cursor.execute(query("demo/rule_facts")).fetchall()
