"""`headrace demo`: a year of flights through headrace, on a PostgreSQL of its own."""

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
from headrace.demo import Demo, Figures, Progress, Stage, own_stage, stage_on

BARS = ("published", "in the log", "handled", "late flights told", "looked at by rules", "by correlators", "actions carried out")


def register(app: typer.Typer) -> None:
    command(app, "demo", common=("dsn", "json"))(demo)


def demo(
    session: Session,
    flights: Annotated[int | None, typer.Option(min=1, help="Only the first so many.", show_default="all 336 776")] = None,
    spark: Annotated[bool, typer.Option(help="End with an archive and a look back on Spark.")] = True,
) -> None:
    """Play a year of flights out of New York through headrace, and check that the numbers add up.

    Departures, arrivals and cancellations are published in transactions, sequenced into a log, and handled by two consumers
    in another process; rules send actions for long delays, diverted and cancelled flights, and correlators find aircraft whose
    delays grow or that are overdue, and airports in a storm. In February PostgreSQL and that process are killed with -9. At the
    end the year is archived as Parquet, and Spark runs the same rules and correlators over it: both must agree. It runs on an
    embedded PostgreSQL in .headrace/demo, or in a database of its own at --dsn, where PostgreSQL is left alive.
    """
    began = time.monotonic()
    with stage_on(session.dsn) if session.dsn else own_stage() as stage:
        figures = _play(session, stage, flights, spark)
    total_s = time.monotonic() - began
    if session.json:
        json_line(msgspec.to_builtins(figures) | {"adds_up": figures.adds_up, "total_s": total_s})
    else:
        _print(figures, stage, total_s)
    if not figures.adds_up:
        wrong = [f"{proof.what}: {proof.found} instead of {proof.expected}" for proof in figures.proofs if not proof.holds]
        raise ProblemsFound(f"the numbers do not add up: {'; '.join(wrong)}")


def _play(session: Session, stage: Stage, flights: int | None, spark: bool) -> Figures:
    played = Demo(stage, flights, spark)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console(stderr=True), disable=session.json) as bars:
        tasks = {name: bars.add_task(name, total=None) for name in BARS}
        for progress in played.play():
            for (name, task), (done, total) in zip(tasks.items(), _counts(progress), strict=True):
                bars.update(task, description=name, completed=done, total=total)
    assert played.figures is not None
    return played.figures


def _counts(progress: Progress) -> list[tuple[int, int | None]]:
    return [
        (progress.published, progress.total),
        (progress.in_log, progress.total),
        (progress.handled, progress.total),
        (progress.told, max(progress.late, 1)),
        (progress.ruled, progress.total),
        (progress.correlated, progress.total),
        (progress.ended, max(progress.fired, 1)),
    ]


def _print(figures: Figures, stage: Stage, total_s: float) -> None:
    out = console()
    out.print(table(["what happened", ""], _happened(figures)))
    out.print(table(["how fast", "events/s", "seconds"], _speed(figures, total_s)))
    airports = [[a.airport, a.departures, a.arrivals, a.cancelled, a.mean_delay_min] for a in figures.busiest]
    out.print(table(["busiest airports", "departures", "arrivals", "cancelled", "mean delay (min)"], airports))
    rules = [[one.rule, one.action, one.fired, one.done, one.dead] for one in figures.rules]
    out.print(table(["rule", "action", "fired", "carried out", "dead letters"], rules))
    if back := figures.looked_back:
        agreed = [[one.kind, one.name, one.database, one.spark, one.both] for one in back.agreements]
        out.print(table(["Spark, looking back", "", "database", "Spark", "both"], agreed))
    found = [[one.correlator, one.token, one.becomes, one.pushed, one.done] for one in figures.correlators]
    out.print(table(["correlator", "token", "becomes", "pushed", "done"], found))
    if figures.dead_groups:
        groups = [[one.action, one.reason, one.error_group, one.dead] for one in figures.dead_groups]
        out.print(table(["dead letters of", "reason", "error", "dead"], groups))
    out.print(
        f"{sum(proof.holds for proof in figures.proofs)} of {len(figures.proofs)} checks hold: nothing lost, nothing twice."
    )
    if stage.folder:
        out.print(f"Look around: export HEADRACE_DATA={stage.folder}", markup=False, soft_wrap=True)
        for words in (
            "tail flights --no-follow",
            "rule list",
            "correlator list",
            "correlator outputs overdue",
            "dead-letter groups",
            "dead-letter list",
            "prove --minutes 2 --report proof.html",
        ):
            out.print(f"  headrace {words}", markup=False)


def _happened(figures: Figures) -> list[tuple[str, object]]:
    return [
        ("flights", figures.flights),
        ("events in the log, without gaps", figures.events),
        ("  departures", figures.departures),
        ("  arrivals", figures.arrivals),
        ("  cancellations", figures.cancelled),
        ("  storms that began or ended", figures.weather),
        ("sent twice, dropped as duplicates", figures.repeated_dropped),
        ("rolled back, never seen", figures.rolled_back),
        ("departures hours late, passengers told", figures.late),
    ]


def _speed(figures: Figures, total_s: float) -> list[tuple[str, object, object]]:
    return [
        ("reading the flights", None, figures.read_s),
        ("publish", round(figures.publish_per_s), figures.publish_s),
        ("sequence", round(figures.sequence_per_s), figures.sequence_s),
        (f"killed with -9, and back: {', '.join(figures.killed)}", None, figures.crash_s),
        ("publish to handled, all of it", round(figures.end_to_end_per_s), figures.end_to_end_s),
        (f"one live event, commit to handled: p50 {figures.live_p50_ms:.1f} ms, p99 {figures.live_p99_ms:.1f} ms", None, None),
        *_back_speed(figures),
        ("whole demo", None, total_s),
    ]


def _back_speed(figures: Figures) -> list[tuple[str, object, object]]:
    back = figures.looked_back
    if back is None:
        return []
    written = f"archive: {back.files} Parquet files, {back.file_bytes / 1e6:.0f} MB, checked"
    return [
        (written, round(back.archived / back.archive_s), back.archive_s),
        (
            f"{len(back.agreements)} rules and correlators again on Spark",
            round(figures.events / back.backtest_s),
            back.backtest_s,
        ),
    ]
