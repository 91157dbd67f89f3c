"""The look back: the year is archived, and Spark runs the same rules and correlators over it. Both must agree."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from headrace.archive import archive, verify_archive
from headrace.correlators import list_correlators
from headrace.db import Connection, Target, connect
from headrace.demo.flights import TOPIC
from headrace.demo.verify import Proof
from headrace.spark import session
from headrace.spark.backtest import Subject, backtest, correlator_subject, rule_subjects


@dataclass(frozen=True)
class Agreement:
    """One rule or correlator: what the database did, what Spark finds, and what both have."""

    kind: str
    name: str
    database: int
    spark: int
    both: int


@dataclass(frozen=True)
class LookedBack:
    """What became of the archive and of the backtest."""

    archived: int
    files: int
    file_bytes: int
    verified: int
    archive_s: float
    agreements: list[Agreement]
    backtest_s: float

    def proofs(self, closed_events: int) -> list[Proof]:
        """`closed_events`: how many events there are before the month of the newest one."""
        return [
            Proof("events archived as Parquet", closed_events, self.archived),
            Proof("events in the archive, read again", closed_events, self.verified),
            *(Proof(f"Spark agrees: {one.name}", max(one.database, one.spark), one.both) for one in self.agreements),
        ]


def look_back(target: Target, folder: Path) -> LookedBack:
    """Archives the closed months, and runs rules and correlators over archive and log on Spark."""
    began = time.monotonic()
    steps = list(archive(target, TOPIC, folder=folder))
    with connect(target) as conn:
        verified = sum(one.archived.events for one in verify_archive(conn, TOPIC) if one.problem is None)
        subjects = _subjects(conn)
    archive_s = time.monotonic() - began
    began = time.monotonic()
    report = backtest(session(), [target], subjects, samples=0, keys=0)
    last = steps[-1] if steps else None
    return LookedBack(
        archived=last.written if last else 0,
        files=last.files if last else 0,
        file_bytes=last.file_bytes if last else 0,
        verified=verified,
        archive_s=archive_s,
        agreements=[Agreement(one.kind, one.name, one.live, one.would, one.both) for one in report.results],
        backtest_s=time.monotonic() - began,
    )


def _subjects(conn: Connection) -> list[Subject]:
    with as_file(files("headrace.demo") / "rules.yaml") as path:
        rules = rule_subjects(conn, str(path))
    return [*rules, *(correlator_subject(conn, one.correlator.name) for one in list_correlators(conn))]
