"""`headrace backtest`: what a rule or a pattern would have done in the past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
from rich.table import Table
from rich.text import Text
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.options import ArchiveFolder, From, To
from headrace.cli.output import Column, note, table
from headrace.cli.session import Session, command
from headrace.db import connect
from headrace.observe.reports import require_charts
from headrace.spark import backtest, session as spark_session

group = Typer()

BARS_MAX = 40
BAR_WIDTH = 40
LABELS = {"both": "both", "would": "would fire", "live": "fires now"}


@command(group, "backtest")
def backtest_(
    session: Session,
    files: Annotated[
        list[Path] | None, Argument(help="Files of rules and correlators.", show_default=False, exists=True, dir_okay=False)
    ] = None,
    rule: Annotated[str | None, Option(help="Name of a rule, or a file of rules.", show_default=False)] = None,
    correlator: Annotated[str | None, Option(help="Name of a correlator, or a file with a pattern.", show_default=False)] = None,
    start: From = "earliest",
    end: To = "latest",
    topic: Annotated[str | None, Option(help="Topic of a pattern in a file.", show_default="the live one's")] = None,
    key: Annotated[str | None, Option(help="Key of a pattern in a file.", show_default="the live one's")] = None,
    name: Annotated[
        str | None, Option(help="Correlator to compare a file's pattern with.", show_default="name of the file")
    ] = None,
    samples: Annotated[int, Option(min=0, max=1000, help="Outputs to show, of each kind.")] = 5,
    keys: Annotated[int, Option(min=0, max=1000, help="Keys to show.")] = 10,
    html: Annotated[Path | None, Option(help="Write a report with charts to this file.", show_default=False)] = None,
    master: Annotated[str, Option(help="Where Spark runs: local[2], spark://…, sc://…")] = "local[2]",
    secret: Annotated[
        str | None, Option(help="Secret with the databases, for a cluster.", show_default="created if local")
    ] = None,
    folder: ArchiveFolder = None,
) -> None:
    """Run rules and patterns over archive and log, and compare them with what the live ones did.

    Archive and log are read once for all of them. It fires, sends and publishes nothing: all sessions are read-only.

    Examples: headrace backtest rules.yaml correlators.yaml --from 2026-01-01 --html report.html
    """
    if not files and rule is None and correlator is None:
        raise BadParameter("give files of rules and correlators, --rule or --correlator")
    if html is not None:
        require_charts()
    namespace = session.namespace
    with connect(backtest.read_only(session.targets[0])) as conn:
        subjects = [subject for file in files or () for subject in backtest.file_subjects(conn, file, namespace=namespace)]
        if rule is not None:
            subjects += backtest.rule_subjects(conn, rule, namespace=namespace)
        if correlator is not None:
            own = {"topic": topic, "key": key, "name": name}
            subjects.append(backtest.correlator_subject(conn, correlator, **own, namespace=namespace))
    report = backtest.backtest(
        spark_session(master=master, brief=True),
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
        html.write_text(backtest.html_report(report), encoding="utf-8")
        note(f"report written to {html}")
    totals = [{"would": result.would, "live": result.live, "both": result.both} for result in report.results]
    results = [msgspec.to_builtins(result) | total for result, total in zip(report.results, totals, strict=True)]
    session.print(msgspec.to_builtins(report) | {"results": results}, *_parts(report))


def _parts(report: backtest.Report) -> Iterator[str | Text | Table]:
    counts: list[Column] = [("would fire", "would"), ("fires now", "live"), "both"]
    for result in report.results:
        yield Text(f"{result.kind} {result.name} on {result.topic}", style="bold")
        yield result.definition
        yield table(["", "outputs"], result.totals)
        if result.days:
            yield table(["from", "both", "only would fire", "only fires now", ""], _days(result.days))
        if result.tokens:
            yield table(["token", *counts], result.tokens)
        if result.keys:
            yield table(["key", *counts], result.keys)
        if result.samples:
            label: Column = ("sample", lambda sample: LABELS[sample.status])
            yield table([label, "position", "time", "key", "token", ("evidence", _evidence)], result.samples)
    yield from report.notes
    archived = f", {report.archived} of them archived" if report.archived else ""
    yield f"{report.events} events{archived} in {report.seconds:.1f} s; nothing was fired."


def _days(days: Sequence[backtest.DayCounts]) -> list[tuple[str, int, int, int, Text]]:
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


def _evidence(sample: backtest.Sample) -> str:
    return "\n".join(f"{event.position} {event.type} {event.payload[:200]}" for event in sample.evidence)
