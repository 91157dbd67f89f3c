"""Looking back: six definitions over archive and log in one read, with the start of Spark as a user waits for it; and an archive of
many days against Spark's own reader of the same files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path

from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, ratio, report
from bench.spark import folder, run_through, timed
from headrace.db import Connection, Target, connect
from headrace.demo.flights import events_in_order, last_minute, read_flights, read_weather
from headrace.log.archive import archive_topic
from headrace.log.outbox import publish_many
from headrace.log.topics import create_topic, sequence
from headrace.spark import session
from headrace.spark.backtest import backtest, file_subjects

DAYS, DAYS_ROWS = 783, 72_000
LOOKBACK_TARGET_S, ARCHIVE_TARGET = 20.0, 0.5
MANY_DAYS = """
select headrace.publish('days', 'seen', jsonb_build_object('n', n), p_key => 'k' || n %% 100,
    p_emitted_at => '2024-01-01T00:00:00Z'::timestamptz + n * interval '1 day' * %(days)s / %(rows)s)
from generate_series(1, %(rows)s::int) n"""
STEP = 20_000


@dataclass(frozen=True)
class Plan:
    flights: int | None
    """None: all flights of the demo."""
    days_rows: int
    days: int
    rounds: int


FULL = Plan(flights=None, days_rows=DAYS_ROWS, days=DAYS, rounds=3)
QUICK = Plan(flights=10_000, days_rows=5_000, days=60, rounds=1)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    sides = {name: Side(name, []) for name in ("archive and log", "Spark's Parquet reader", "archive and log, two columns")}
    with lab.database("spark_lookback", partitions=1) as target, connect(target) as conn, folder() as place:
        events = _fill(conn, plan)
        for topic in ("flights", "days"):
            list(archive_topic(target, topic, folder=place))
        conn.execute("select headrace.drop_expired(headrace.topic_id('days'), '2100-01-01')")
        conn.execute("select headrace.drop_expired(headrace.topic_id('flights'), '2100-01-01')")
        lookback_s = _look_back(conn, target)
        spark = session()
        secret = place / "address"
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        days = {"secret": str(secret), "subscribe": "days"}
        parquet = str(place / "namespace=default" / "topic=days")
        files_count = len(list(Path(parquet).rglob("*.parquet")))
        work: dict[str, Callable[[], object]] = {
            "archive and log": lambda: run_through(spark.read.format("headrace").options(**days).load()),
            "Spark's Parquet reader": lambda: run_through(spark.read.parquet(parquet)),
            "archive and log, two columns": lambda: run_through(
                spark.read.format("headrace").options(**days, columns="offset,key").load()
            ),
        }
        for number in range(plan.rounds + 1):
            for name, function in work.items():
                measured = timed(plan.days_rows, function)
                if number:
                    sides[name].rounds.append(measured)
        spark.stop()
    archive, own, narrow = sides.values()
    figures = [
        Figure(
            f"the demo's six definitions over its {events:,} events, with session start",
            lookback_s, LOOKBACK_TARGET_S, unit="s", at_most=True,
        ),
        ratio(f"archive and log of {plan.days_rows:,} rows in {plan.days} days, {files_count} files : spark.read.parquet", archive, own, ARCHIVE_TARGET),
        ratio("two columns : all", narrow, archive, 1.0),
    ]  # fmt: skip
    rounds: dict[str, object] = {**sides, "look-back": Side("look-back", [Round(events / lookback_s, 0)])}
    report("spark_lookback", surroundings(lab), figures, rounds)


def _fill(conn: Connection, plan: Plan) -> int:
    """The events of the demo, and rows of many days. Returns the number of the former."""
    create_topic(conn, "flights", clock="event")
    create_topic(conn, "days", clock="event")
    create_topic(conn, "operations")
    flights = read_flights(plan.flights)
    events = events_in_order(flights, read_weather(last_minute(flights)))
    count = 0
    while batch := list(islice(events, STEP)):
        publish_many(conn, batch)
        _drain(conn)
        count += len(batch)
    conn.execute(MANY_DAYS, {"rows": plan.days_rows, "days": plan.days})
    _drain(conn)
    conn.execute("vacuum analyze headrace_internal.log")
    return count


def _drain(conn: Connection) -> None:
    while sequence(conn):
        pass


def _look_back(conn: Connection, target: Target) -> float:
    """Seconds from nothing to the report, as the demo and `headrace backtest` need them."""
    subjects = []
    for name in ("rules.yaml", "correlators.yaml"):
        with as_file(files("headrace.demo") / name) as path:
            subjects += file_subjects(conn, path)
    assert len(subjects) == 6
    began = time.perf_counter()
    result = backtest(session(brief=True), [target], subjects, samples=0, keys=0)
    seconds = time.perf_counter() - began
    assert sum(item.would for item in result.results) > 0
    return seconds
