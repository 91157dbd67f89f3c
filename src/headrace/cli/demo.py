"""`headrace demo`: publishes a year of flights, on a PostgreSQL of its own."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.demo import Demo, DemoResult, Environment, Progress, open_environment_on, open_own_environment

BARS = ("published", "in the log", "handled", "notices of late flights", "matched by rules", "correlated", "actions carried out")


def register(app: typer.Typer) -> None:
    command(app, "demo", common=("dsn", "json"))(demo)


def demo(
    session: Session,
    flights: Annotated[int | None, typer.Option(min=1, help="Only the first N flights.", show_default="all 336 776")] = None,
    spark: Annotated[bool, typer.Option(help="Archive the year at the end, and backtest it on Spark.")] = True,
) -> None:
    """Publish a year of flights out of New York, and check that the numbers add up.

    Departures, arrivals and cancellations are published in transactions, sequenced into a log, and handled by two consumers
    in another process. Rules send actions for long delays, diverted and cancelled flights; correlators find aircraft whose
    delays grow or that are overdue, and airports in a storm. In February PostgreSQL and that process are killed with -9. At the
    end the year is archived as Parquet, and Spark runs the same rules and correlators over it: both must agree. The demo runs on
    an embedded PostgreSQL in .headrace/demo, or in a database of its own at --dsn; there it does not kill PostgreSQL.
    """
    start = time.monotonic()
    with open_environment_on(session.dsn) if session.dsn else open_own_environment() as environment:
        result = _run(session, environment, flights, spark)
    total_s = time.monotonic() - start
    if session.json:
        json_line(msgspec.to_builtins(result) | {"adds_up": result.adds_up, "total_s": total_s})
    else:
        _print(result, environment, total_s)
    if not result.adds_up:
        wrong = [f"{check.what}: {check.actual} instead of {check.expected}" for check in result.checks if not check.holds]
        raise ProblemsFound(f"the numbers do not add up: {'; '.join(wrong)}")


def _run(session: Session, environment: Environment, flights: int | None, spark: bool) -> DemoResult:
    run = Demo(environment, flights, spark)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console(stderr=True), disable=session.json) as bars:
        tasks = {name: bars.add_task(name, total=None) for name in BARS}
        for progress in run.run():
            for (name, task), (done, total) in zip(tasks.items(), _counts(progress), strict=True):
                bars.update(task, description=name, completed=done, total=total)
    assert run.result is not None
    return run.result


def _counts(progress: Progress) -> list[tuple[int, int | None]]:
    return [
        (progress.published, progress.total),
        (progress.in_log, progress.total),
        (progress.handled, progress.total),
        (progress.notices, max(progress.late, 1)),
        (progress.matched_to, progress.total),
        (progress.correlated_to, progress.total),
        (progress.actions_ended, max(progress.actions_sent, 1)),
    ]


def _print(result: DemoResult, environment: Environment, total_s: float) -> None:
    out = console()
    out.print(table(["events", ""], _events(result)))
    out.print(table(["how fast", "events/s", "seconds"], _speed(result, total_s)))
    airports = [[a.airport, a.departures, a.arrivals, a.cancelled, a.mean_delay_min] for a in result.busiest]
    out.print(table(["busiest airports", "departures", "arrivals", "cancelled", "mean delay (min)"], airports))
    rules = [[rule.rule, rule.action, rule.firings, rule.done, rule.dead] for rule in result.rules]
    out.print(table(["rule", "action", "firings", "carried out", "dead letters"], rules))
    correlators = [[total.correlator, total.token, total.becomes, total.outputs, total.done] for total in result.correlators]
    out.print(table(["correlator", "token", "becomes", "outputs", "done"], correlators))
    if result.backtest:
        compared = [[item.kind, item.name, item.database, item.spark, item.both] for item in result.backtest.comparisons]
        out.print(table(["backtest on Spark", "", "database", "Spark", "both"], compared))
    if result.dead_groups:
        groups = [[group.name, group.reason, group.error_group, group.dead] for group in result.dead_groups]
        out.print(table(["dead letters of", "reason", "error", "dead"], groups))
    out.print(f"{sum(check.holds for check in result.checks)} of {len(result.checks)} checks hold: nothing lost, nothing twice.")
    if environment.folder:
        out.print(f"To explore it: export HEADRACE_DATA={environment.folder}", markup=False, soft_wrap=True)
        for arguments in (
            "tail flights --no-follow",
            "rule list",
            "correlator list",
            "correlator outputs overdue",
            "dead-letter groups",
            "dead-letter list",
            "prove --minutes 2 --report proof.html",
        ):
            out.print(f"  headrace {arguments}", markup=False)


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
    return [
        ("reading the flights", None, result.read_s),
        ("publish", round(result.publish_per_s), result.publish_s),
        ("sequence", round(result.sequence_per_s), result.sequence_s),
        (f"killed with -9, and restarted: {', '.join(result.killed)}", None, result.crash_s),
        ("publish to handled, all events", round(result.end_to_end_per_s), result.end_to_end_s),
        (f"one live event, commit to handled: p50 {result.live_p50_ms:.1f} ms, p99 {result.live_p99_ms:.1f} ms", None, None),
        *_backtest_speed(result),
        ("whole demo", None, total_s),
    ]


def _backtest_speed(result: DemoResult) -> list[tuple[str, object, object]]:
    backtest = result.backtest
    if backtest is None:
        return []
    archive = f"archive: {backtest.files} Parquet files, {backtest.file_bytes / 1e6:.0f} MB, checked"
    return [
        (archive, round(backtest.archived / backtest.archive_s), backtest.archive_s),
        (
            f"{len(backtest.comparisons)} rules and correlators again on Spark",
            round(result.events / backtest.backtest_s),
            backtest.backtest_s,
        ),
    ]
