"""The checks: do the numbers add up, does a role of another namespace see nothing, and does Spark agree? For the last, the year is
archived, and Spark runs the same rules and correlators over it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from headrace.actions import list_dead_letters, queue_state
from headrace.consume import consumer_lag
from headrace.core import Event, HeadraceError
from headrace.correlators import list_correlators
from headrace.db import Connection, Target, connect, create_namespace, fetch_rows, fetch_value, grant_namespace, query
from headrace.demo.application import DELAYS, LATE_MIN
from headrace.demo.definitions import ExpectedFirings, ExpectedOutputs, correlator_totals, rule_totals
from headrace.demo.flights import ARRIVED, CALM, CANCELLED, DEPARTED, STORM, TOPIC
from headrace.log.archive import archive_topic, verify_archive
from headrace.log.outbox import publish
from headrace.log.topics import get_topic
from headrace.spark import session
from headrace.spark.backtest import BacktestSubject, backtest, correlator_subject, rule_subjects


@dataclass(frozen=True)
class Check:
    """A number that must be as expected."""

    what: str
    expected: int
    actual: int

    @property
    def holds(self) -> bool:
        return self.expected == self.actual


@dataclass(frozen=True)
class Airport:
    """One airport as the consumer counted it."""

    airport: str
    departures: int
    arrivals: int
    cancelled: int
    mean_delay_min: float | None


@dataclass
class PublishedCounts:
    """The published events, counted by the publisher."""

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
class ProgressCounts:
    """One row of the query demo/progress."""

    in_log: int
    handled: int
    late: int
    notices: int
    matched_to: int
    correlated_to: int
    actions_sent: int
    actions_ended: int
    pending: int


def read_progress(conn: Connection) -> ProgressCounts:
    [counts] = fetch_rows(conn, ProgressCounts, query("demo/progress"))
    return counts


@dataclass(frozen=True)
class LogTotals:
    """One row of the query demo/log_totals."""

    events: int
    first_position: int
    last_position: int
    positions: int
    ids: int
    out_of_order: int


def verify(conn: Connection, published: PublishedCounts, rolled_back: Sequence[UUID]) -> list[Check]:
    """Publishing, log and consumers: the publisher's counts against those of the database."""
    progress = read_progress(conn)
    [log] = fetch_rows(conn, LogTotals, query("demo/log_totals"))
    row = conn.execute(query("demo/airport_totals")).fetchone() or (0, 0, 0, 0)
    unwanted = conn.execute(query("demo/count_logged"), {"ids": list(rolled_back)}).fetchone() or (0,)
    behind = sum(lag.lag_events for lag in consumer_lag(conn))
    waiting = get_topic(conn, TOPIC).waiting + get_topic(conn, DELAYS).waiting
    return [
        Check("events in the log", published.events, log.events),
        Check("distinct ids", published.events, log.ids),
        Check("newest position (no gaps)", published.events, log.last_position - log.first_position + 1),
        Check("distinct positions", published.events, log.positions),
        Check("events out of order", 0, log.out_of_order),
        Check("rolled back, but in the log", 0, unwanted[0]),
        Check("departures counted", published.departures, row[0]),
        Check("arrivals counted", published.arrivals, row[1]),
        Check("cancellations counted", published.cancelled, row[2]),
        Check("minutes of delay counted", published.delay_min, row[3]),
        Check(f"departures {LATE_MIN} min late", published.late, progress.late),
        Check("notices to passengers", published.late, progress.notices),
        Check("still in the outbox", 0, waiting),
        Check("not handled yet", 0, behind),
        Check("dead letters of consumers", 0, len(list_dead_letters(conn, kind="event"))),
    ]


def verify_rules(conn: Connection, published: PublishedCounts, expected: ExpectedFirings) -> list[Check]:
    """Rules and handlers, against the counts from the flights."""
    totals = {total.rule: total for total in rule_totals(conn)}
    outcome = conn.execute(query("demo/outcome_totals"), {"topic": TOPIC}).fetchone() or (0, 0, 0)
    state = queue_state(conn)
    return [
        Check("rule long delay fired", expected.long_delay, totals["long delay"].firings),
        Check("rule diverted fired", expected.diverted, totals["diverted"].firings),
        Check("rule cancelled fired", expected.cancelled, totals["cancelled"].firings),
        Check("events matched", expected.total, outcome[0]),
        Check("events unmatched", published.events - expected.total, outcome[1]),
        Check("actions carried out", expected.total - expected.dead, sum(total.done for total in totals.values())),
        Check("effects of handlers", expected.total - expected.dead, outcome[2]),
        Check("dead letters of actions", expected.dead, state.dead),
        Check("still in the action queue", 0, state.queued),
    ]


def verify_correlators(conn: Connection, expected: ExpectedOutputs) -> list[Check]:
    """Correlators and their actions, against the counts from the events."""
    totals = correlator_totals(conn)
    outputs = {total.token: total.outputs for total in totals}
    dispatched = conn.execute("select count(*) from dispatch").fetchone() or (0,)
    return [
        Check("aircraft whose delays grow", expected.grows, outputs.get("grows", 0)),
        Check("aircraft overdue after 12 h", expected.overdue, outputs.get("overdue", 0)),
        Check("calm airports where nothing departs", expected.odd, outputs.get("odd", 0)),
        Check("airports held in a storm", expected.hold, outputs.get("hold", 0)),
        Check("correlators' actions and events done", expected.actions + expected.hold, sum(total.done for total in totals)),
        Check("effects of their handlers", expected.actions, dispatched[0]),
    ]


def busiest(conn: Connection) -> list[Airport]:
    return fetch_rows(conn, Airport, query("demo/busiest"))


def verify_isolation(conn: Connection) -> list[Check]:
    """A role with all rights in another namespace reads none of the flights and forges no event. Nothing is checked where this role may
    not create another one."""
    role = sql.Identifier(f"headrace_demo_{uuid4().hex[:8]}")
    checks: list[Check] = []
    try:
        with conn.transaction():
            conn.execute(sql.SQL("create role {}").format(role))
            conn.execute(sql.SQL("grant {} to current_user").format(role))
            create_namespace(conn, "other")
            grant_namespace(conn, role.as_string(conn).strip('"'), "other", "admin")
            conn.execute(sql.SQL("set local role {}").format(role))
            checks = [
                Check("events a role of another namespace can read", 0, fetch_value(conn, "select count(*) from headrace.log")),
                Check("events a role of another namespace can forge", 0, _forge(conn)),
            ]
            raise psycopg.Rollback
    except psycopg.errors.InsufficientPrivilege:
        return []
    return checks


def _forge(conn: Connection) -> int:
    try:
        with conn.transaction():
            publish(conn, TOPIC, "forged", {}, namespace="default")
    except HeadraceError:
        return 0
    return 1


@dataclass(frozen=True)
class Comparison:
    """One rule or correlator: how often it fired in the database, on Spark, and in both."""

    kind: str
    name: str
    database: int
    spark: int
    both: int


@dataclass(frozen=True)
class BacktestResult:
    """The numbers of archive and backtest."""

    archived: int
    files: int
    file_bytes: int
    verified: int
    archive_s: float
    comparisons: list[Comparison]
    backtest_s: float

    def checks(self, closed_events: int) -> list[Check]:
        """`closed_events`: the number of events before the month of the newest one."""
        return [
            Check("events archived as Parquet", closed_events, self.archived),
            Check("events in the archive, read again", closed_events, self.verified),
            *(Check(f"Spark agrees: {item.name}", max(item.database, item.spark), item.both) for item in self.comparisons),
        ]


def archive_and_backtest(target: Target, folder: Path) -> BacktestResult:
    """Archives the closed months, and runs rules and correlators over archive and log on Spark."""
    start = time.monotonic()
    steps = list(archive_topic(target, TOPIC, folder=folder))
    with connect(target) as conn:
        verified = sum(check.archived.events for check in verify_archive(conn, TOPIC) if check.problem is None)
        subjects = _subjects(conn)
    archive_s = time.monotonic() - start
    start = time.monotonic()
    report = backtest(session(brief=True), [target], subjects, samples=0, keys=0)
    last = steps[-1] if steps else None
    return BacktestResult(
        archived=last.written if last else 0,
        files=last.files if last else 0,
        file_bytes=last.file_bytes if last else 0,
        verified=verified,
        archive_s=archive_s,
        comparisons=[Comparison(item.kind, item.name, item.live, item.would, item.both) for item in report.results],
        backtest_s=time.monotonic() - start,
    )


def _subjects(conn: Connection) -> list[BacktestSubject]:
    with as_file(files("headrace.demo") / "rules.yaml") as path:
        rules = rule_subjects(conn, str(path))
    return [*rules, *(correlator_subject(conn, listed.correlator.name) for listed in list_correlators(conn))]
