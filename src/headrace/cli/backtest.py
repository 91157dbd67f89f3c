"""`headrace backtest`: what a rule or a pattern would have done with the past."""

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
from headrace.spark import session as spark_session
from headrace.spark.backtest import (
    Day,
    Report,
    Result,
    Subject,
    backtest,
    correlator_subject,
    html_report,
    read_only,
    rule_subjects,
)

BARS_MAX = 40
BAR_WIDTH = 60


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
        str | None, typer.Option(help="Correlator to compare a pattern in a file with.", show_default="called as the file")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, max=1000, help="Outputs shown, of each kind.")] = 5,
    keys: Annotated[int, typer.Option(min=0, max=1000, help="Keys shown.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts to this file.", show_default=False)] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[2], spark://…, sc://…")] = "local[2]",
    secret: Annotated[
        str | None, typer.Option(help="Secret by which a cluster finds the databases.", show_default="made for a local run")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="where it was written"),
    ] = None,
) -> None:
    """Run a rule or a pattern over archive and log, and compare with what the live one did.

    Nothing is fired, sent or published: all sessions are read-only.

    Examples: headrace backtest --rule rules.yaml --from 2026-01-01 --html report.html
    """
    if (rule is None) == (correlator is None):
        raise typer.BadParameter("give one of --rule and --correlator")
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
) -> list[Subject]:
    with connect(read_only(session.targets[0])) as conn:
        if rule is not None:
            return rule_subjects(conn, rule, namespace=session.namespace)
        assert correlator is not None
        return [correlator_subject(conn, correlator, topic=topic, key=key, name=name, namespace=session.namespace)]


def _as_json(report: Report) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(report)
    totals = [{"would": one.would, "live": one.live, "both": one.both} for one in report.results]
    results = shown["results"]
    assert isinstance(results, list | tuple)
    return shown | {"results": [one | total for one, total in zip(results, totals, strict=True)]}


def _print(report: Report) -> None:
    out = console()
    for result in report.results:
        out.print(f"{result.kind} {result.name} on {result.topic}", style="bold", markup=False)
        out.print(result.definition, markup=False, soft_wrap=True)
        out.print(table(["", "outputs"], _totals(result)))
        if result.days:
            out.print(table(["from", "outputs", ""], _bars(result.days)))
        if result.tokens:
            rows = [(one.token, one.would, one.live, one.both) for one in result.tokens]
            out.print(table(["token", "would fire", "fires now", "both"], rows))
        if result.keys:
            out.print(table(["key", "would fire", "fires now", "both"], [(k.key, k.would, k.live, k.both) for k in result.keys]))
        if result.samples:
            out.print(table(["sample", "position", "time", "key", "token", "evidence"], _samples(result)))
    for told in report.notes:
        out.print(told, markup=False)
    archived = f", {report.archived} of them archived" if report.archived else ""
    out.print(f"{report.events} events{archived} in {report.seconds:.1f} s; nothing was fired.", markup=False)


def _totals(result: Result) -> list[tuple[str, int]]:
    if not result.compared:
        return [("would fire", result.would)]
    only = [("only would fire", result.would - result.both), ("only fires now", result.live - result.both)]
    return [("fires now", result.live), ("would fire", result.would), ("both", result.both), *only]


def _bars(days: Sequence[Day]) -> list[tuple[str, int, Text]]:
    """A bar per day, or per run of days where there are too many."""
    width = max(1, -(-((days[-1].day - days[0].day).days + 1) // BARS_MAX))
    runs: dict[date, list[int]] = {}
    for day in days:
        begins = days[0].day + timedelta(days=(day.day - days[0].day).days // width * width)
        sums = runs.setdefault(begins, [0, 0, 0])
        for place, count in enumerate((day.both, day.would - day.both, day.live - day.both)):
            sums[place] += count
    most = max(sum(sums) for sums in runs.values())
    return [(str(begins), sum(sums), _bar(sums, most)) for begins, sums in runs.items()]


def _bar(sums: Sequence[int], most: int) -> Text:
    bar = Text()
    for count, style, sign in zip(sums, ("blue", "green", "yellow"), "█▓░", strict=True):
        bar.append(sign * round(count / most * BAR_WIDTH), style=style)
    return bar


def _samples(result: Result) -> list[tuple[object, ...]]:
    words = {"both": "both", "would": "would fire", "live": "fires now"}
    rows: list[tuple[object, ...]] = []
    for one in result.samples:
        evidence = "\n".join(f"{event.position} {event.type} {event.payload[:200]}" for event in one.evidence)
        rows.append((words[one.status], one.position, one.time, one.key, one.token, evidence))
    return rows
