"""The year again: it is archived, and Spark runs the same rules and correlators over it. Both must agree."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from headrace.correlators import list_correlators
from headrace.db import Connection, Target, connect
from headrace.demo.flights import TOPIC
from headrace.demo.verify import Check
from headrace.log.archive import archive_topic, verify_archive
from headrace.spark import session
from headrace.spark.backtest import BacktestSubject, backtest, correlator_subject, rule_subjects


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
