"""`headrace backtest`: what a rule or a pattern would have done in the past."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from headrace.cli.output import console, json_line, note, table
from headrace.cli.session import Session, command
from headrace.db import connect
from headrace.report import require_charts
from headrace.spark import session as spark_session
from headrace.spark.backtest import (
    BacktestSubject,
    DayCounts,
    Report,
    Result,
    backtest,
    correlator_subject,
    html_report,
    read_only,
    rule_subjects,
)

BARS_MAX = 40
BAR_WIDTH = 40


def register(app: typer.Typer) -> None:
    command(app, "backtest")(backtest_)


def backtest_(
    session: Session,
    rule: Annotated[str | None, typer.Option(help="Name of a rule, or a file of rules.", show_default=False)] = None,
    correlator: Annotated[
        str | None, typer.Option(help="Name of a correlator, or a file with a pattern.", show_default=False)
    ] = None,
    start: Annotated[str, typer.Option("--from", help="earliest, a position or a time.")] = "earliest",
    end: Annotated[str, typer.Option("--to", help="latest, a position or a time; the range ends before it.")] = "latest",
    topic: Annotated[str | None, typer.Option(help="Topic of a pattern in a file.", show_default="the live one's")] = None,
    key: Annotated[str | None, typer.Option(help="Key of a pattern in a file.", show_default="the live one's")] = None,
    name: Annotated[
        str | None, typer.Option(help="Correlator to compare a pattern in a file with.", show_default="name of the file")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, max=1000, help="Outputs to show, of each kind.")] = 5,
    keys: Annotated[int, typer.Option(min=0, max=1000, help="Keys to show.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts to this file.", show_default=False)] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[2], spark://…, sc://…")] = "local[2]",
    secret: Annotated[
        str | None, typer.Option(help="Secret by which a cluster finds the databases.", show_default="created for a local run")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="where it was written"),
    ] = None,
) -> None:
    """Run a rule or a pattern over archive and log, and compare it with what the live one did.

    It fires, sends and publishes nothing: all sessions are read-only.

    Examples: headrace backtest --rule rules.yaml --from 2026-01-01 --html report.html
    """
    if (rule is None) == (correlator is None):
        raise typer.BadParameter("give one of --rule and --correlator")
    if html is not None:
        require_charts()
    subjects = _subjects(session, rule, correlator, topic, key, name)
    report = backtest(
        spark_session(master=master),
        session.targets,
        subjects,
        start=start,
        end=end,
        samples=samples,
        keys=keys,
        secret=secret,
        folder=str(folder) if folder else None,
        namespace=session.namespace,
    )
    if html is not None:
        html.write_text(html_report(report), encoding="utf-8")
        note(f"report written to {html}")
    if session.json:
        json_line(_as_json(report))
        return
    _print(report)


def _subjects(
    session: Session, rule: str | None, correlator: str | None, topic: str | None, key: str | None, name: str | None
) -> list[BacktestSubject]:
    with connect(read_only(session.targets[0])) as conn:
        if rule is not None:
            return rule_subjects(conn, rule, namespace=session.namespace)
        assert correlator is not None
        return [correlator_subject(conn, correlator, topic=topic, key=key, name=name, namespace=session.namespace)]


def _as_json(report: Report) -> dict[str, object]:
    totals = [{"would": result.would, "live": result.live, "both": result.both} for result in report.results]
    results = [msgspec.to_builtins(result) | total for result, total in zip(report.results, totals, strict=True)]
    summary: dict[str, object] = msgspec.to_builtins(report)
    return summary | {"results": results}


def _print(report: Report) -> None:
    out = console()
    for result in report.results:
        out.print(f"{result.kind} {result.name} on {result.topic}", style="bold", markup=False)
        out.print(result.definition, markup=False, soft_wrap=True)
        out.print(table(["", "outputs"], result.totals))
        if result.days:
            out.print(table(["from", "both", "only would fire", "only fires now", ""], _days(result.days)))
        counts = ["would fire", "fires now", "both"]
        if result.tokens:
            out.print(table(["token", *counts], [(row.token, row.would, row.live, row.both) for row in result.tokens]))
        if result.keys:
            out.print(table(["key", *counts], [(row.key, row.would, row.live, row.both) for row in result.keys]))
        if result.samples:
            out.print(table(["sample", "position", "time", "key", "token", "evidence"], _samples(result)))
    for line in report.notes:
        out.print(line, markup=False)
    archived = f", {report.archived} of them archived" if report.archived else ""
    out.print(f"{report.events} events{archived} in {report.seconds:.1f} s; nothing was fired.", markup=False)


def _days(days: Sequence[DayCounts]) -> list[tuple[str, int, int, int, Text]]:
    """A row per day, or per several days if there are too many: both, only would fire, only fires now, and a bar of all."""
    width = max(1, -(-((days[-1].day - days[0].day).days + 1) // BARS_MAX))
    rows: dict[date, list[int]] = {}
    for day in days:
        first = days[0].day + timedelta(days=(day.day - days[0].day).days // width * width)
        counts = rows.setdefault(first, [0, 0, 0])
        for index, count in enumerate((day.both, day.would - day.both, day.live - day.both)):
            counts[index] += count
    largest = max(sum(counts) for counts in rows.values())
    return [
        (str(first), both, would, live, Text("█" * round((both + would + live) / largest * BAR_WIDTH), style="blue"))
        for first, (both, would, live) in rows.items()
    ]


def _samples(result: Result) -> list[tuple[object, ...]]:
    labels = {"both": "both", "would": "would fire", "live": "fires now"}
    rows: list[tuple[object, ...]] = []
    for sample in result.samples:
        evidence = "\n".join(f"{event.position} {event.type} {event.payload[:200]}" for event in sample.evidence)
        rows.append((labels[sample.status], sample.position, sample.time, sample.key, sample.token, evidence))
    return rows
