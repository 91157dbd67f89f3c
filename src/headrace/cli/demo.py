"""`headrace demo`: publishes a year of flights, on a PostgreSQL of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
from rich.progress import TaskID
from rich.table import Table
from typer import Option, Typer

from headrace.cli.console import serve_demo
from headrace.cli.options import CONSOLE_PORT
from headrace.cli.output import progress_bar, table
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.demo import Demo, DemoResult, Environment, Progress, open_environment_on, open_own_environment, require_packages

group = Typer()
EXPLORE = (
    "tail flights --no-follow",
    "rule list",
    "correlator list",
    "correlator outputs overdue",
    "dead-letter groups",
    "dead-letter list",
    "prove --minutes 2 --report proof.html",
)
"""Commands to try on the database of the demo."""
SHORT_FLIGHTS = 2000
CONSOLE_URL = f"http://127.0.0.1:{CONSOLE_PORT}/"


@command(group, "demo", common=("dsn", "json"))
def demo(
    session: Session,
    flights: Annotated[int | None, Option(min=1, help="Only the first N flights.", show_default="all 336 776")] = None,
    spark: Annotated[bool, Option(help="Archive the year at the end, and backtest it on Spark.")] = True,
    short: Annotated[bool, Option("--short", help=f"The first {SHORT_FLIGHTS} flights without Spark: takes seconds.")] = False,
    console: Annotated[bool, Option("--console", help="Open the web console on the demo's database at the end.")] = False,
) -> None:
    """Publish a year of flights out of New York, and check that the numbers add up.

    Departures, arrivals and cancellations are published in transactions, sequenced into a log, and handled by two consumers
    in another process. Rules send actions for long delays, diverted and cancelled flights; correlators find aircraft whose
    delays grow or that are overdue, and airports in a storm. In February PostgreSQL and that process are killed with -9. At the
    end the year is archived as Parquet, and Spark runs the same rules and correlators over it: both must agree. The demo runs on
    an embedded PostgreSQL in .headrace/demo, or in a database of its own at --dsn; there it does not kill PostgreSQL.
    """
    flights, spark = (flights or SHORT_FLIGHTS, False) if short else (flights, spark)
    require_packages(embedded=session.dsn is None, spark=spark)
    start = time.monotonic()
    with open_environment_on(session.targets[0].dsn) if session.dsn else open_own_environment() as environment:
        result = _run(session, environment, flights, spark)
        total_s = time.monotonic() - start
        facts = msgspec.to_builtins(result) | {"adds_up": result.adds_up, "total_s": total_s}
        session.print(facts, *_tables(result, total_s), *_lines(result, environment))
        if console:
            # Here, because the demo's own server is stopped at the end of the block.
            serve_demo(session, environment.target, is_embedded=environment.folder is not None)
    if not result.adds_up:
        wrong = [f"{check.what}: {check.actual} instead of {check.expected}" for check in result.checks if not check.holds]
        raise ProblemsFound(f"the numbers do not add up: {'; '.join(wrong)}")


def _run(session: Session, environment: Environment, flights: int | None, spark: bool) -> DemoResult:
    run = Demo(environment, flights, spark)
    with progress_bar(hide=session.json) as bars:
        tasks: dict[str, TaskID] = {}
        for progress in run.run():
            for name, (done, total) in _counts(progress).items():
                tasks[name] = tasks[name] if name in tasks else bars.add_task(name)
                bars.update(tasks[name], completed=done, total=total)
    assert run.result is not None
    return run.result


def _counts(progress: Progress) -> dict[str, tuple[int, int]]:
    return {
        "published": (progress.published, progress.total),
        "in the log": (progress.in_log, progress.total),
        "handled": (progress.handled, progress.total),
        "notices of late flights": (progress.notices, max(progress.late, 1)),
        "matched by rules": (progress.matched_to, progress.total),
        "correlated": (progress.correlated_to, progress.total),
        "actions carried out": (progress.actions_ended, max(progress.actions_sent, 1)),
    }


def _tables(result: DemoResult, total_s: float) -> Iterator[Table]:
    yield table(["events", ""], _events(result))
    yield table(["how fast", "events/s", "seconds"], _speed(result, total_s))
    delay = ("mean delay (min)", "mean_delay_min")
    yield table([("busiest airports", "airport"), "departures", "arrivals", "cancelled", delay], result.busiest)
    yield table(["rule", "action", "firings", ("carried out", "done"), ("dead letters", "dead")], result.rules)
    yield table(["correlator", "token", "becomes", "outputs", "done"], result.correlators)
    if result.backtest:
        columns = [("backtest on Spark", "kind"), ("", "name"), ("database", "database"), ("Spark", "spark"), ("both", "both")]
        yield table(columns, result.backtest.comparisons)
    if result.dead_groups:
        yield table([("dead letters of", "name"), "reason", ("error", "error_group"), "dead"], result.dead_groups)


def _lines(result: DemoResult, environment: Environment) -> Iterator[str]:
    yield f"{sum(check.holds for check in result.checks)} of {len(result.checks)} checks hold: nothing lost, nothing twice."
    if environment.folder:
        yield f"To explore it: export HEADRACE_DATA={environment.folder}"
        yield from (f"  headrace {arguments}" for arguments in EXPLORE)
        yield f"To look at it in a browser: HEADRACE_DATA={environment.folder} headrace console, then open {CONSOLE_URL}"


def _events(result: DemoResult) -> list[tuple[str, object]]:
    return [
        ("flights", result.flights),
        ("in the log, without gaps", result.events),
        ("  departures", result.departures),
        ("  arrivals", result.arrivals),
        ("  cancellations", result.cancelled),
        ("  storms that began or ended", result.weather),
        ("sent twice, dropped as duplicates", result.repeated_dropped),
        ("rolled back, never visible", result.rolled_back),
        ("departures hours late, passengers notified", result.late),
    ]


def _speed(result: DemoResult, total_s: float) -> list[tuple[str, object, object]]:
    backtest = result.backtest
    on_spark: list[tuple[str, object, object]] = []
    if backtest:
        files = f"archive: {backtest.files} Parquet files, {backtest.file_bytes / 1e6:.0f} MB, checked"
        again = f"{len(backtest.comparisons)} rules and correlators again on Spark"
        on_spark = [
            (files, round(backtest.archived / backtest.archive_s), backtest.archive_s),
            (again, round(result.events / backtest.backtest_s), backtest.backtest_s),
        ]
    return [
        ("reading the flights", None, result.read_s),
        ("publish", round(result.publish_per_s), result.publish_s),
        ("sequence", round(result.sequence_per_s), result.sequence_s),
        (f"killed with -9, and restarted: {', '.join(result.killed)}", None, result.crash_s),
        ("publish to handled, all events", round(result.end_to_end_per_s), result.end_to_end_s),
        (f"one live event, commit to handled: p50 {result.live_p50_ms:.1f} ms, p99 {result.live_p99_ms:.1f} ms", None, None),
        *on_spark,
        ("whole demo", None, total_s),
    ]
