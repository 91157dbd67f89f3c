"""`headrace prove`: tries to break every promise, and reports the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from headrace.cli.output import note, table
from headrace.cli.session import Session, command
from headrace.core import Invalid, ProblemsFound
from headrace.observe.reports import require_charts
from headrace.prove import FAULTS, RELAY_KINDS, Options, RunResult, prove, summarize, write_report

group = Typer()


@command(group, "prove", common=("dsn", "json"))
def prove_(
    session: Session,
    minutes: Annotated[float, Option(min=0.05, help="Duration of the workload; longer if a planned fault has not come.")] = 1.0,
    faults: Annotated[
        str | None, Option(help="Only these, separated by commas; '' for none.", show_default="all possible")
    ] = None,
    seed: Annotated[int, Option(help="Determines the plan of faults and the workload's values.")] = 1,
    report: Annotated[
        list[Path] | None, Option(help="Write a page with charts (.html), or the numbers (.json); repeatable.")
    ] = None,
    producers: Annotated[int, Option(min=1, help="Processes that publish.")] = 2,
    nodes: Annotated[int, Option(min=1, help="Node processes.")] = 2,
    rate: Annotated[float, Option(min=1, help="Events per second of each producer.")] = 100,
    spark: Annotated[bool, Option("--spark", help="Add a pipeline on Spark, and its kill -9; needs Java and 1 GB.")] = False,
    relays: Annotated[
        str,
        Option(help=f"Relays to servers of its own, separated by commas: {', '.join(RELAY_KINDS)}.", show_default="none"),
    ] = "",
    margin: Annotated[float, Option(min=0, max=0.9, help="How far below 95 % the rate may stay after a fault.")] = 0.0,
    keep: Annotated[Path | None, Option(help="Keep histories and logs of the processes in this folder.")] = None,
) -> None:
    """Run a workload under faults, then check every promise against histories kept outside the database.

    It starts a PostgreSQL of its own, or creates the database headrace_prove at --dsn; there it omits the faults that kill the
    server or use up its connections. It exits with 6 if a promise was broken, and shows the smallest counter-example.

    Examples: headrace prove --minutes 5 --report proof.html · headrace prove --relays nats,webhook · headrace prove --faults cut --seed 7
    """
    for path in report or []:
        if path.suffix not in (".html", ".json") or not path.parent.is_dir():
            raise Invalid(f"cannot write a report to {path}; name a file that ends in .html or .json, in an existing folder")
        if path.suffix == ".html":
            require_charts()
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise Invalid(f"{keep} is not empty; name a new folder, so that the histories of two runs do not mix")
    options = Options(
        minutes=minutes,
        faults=None if faults is None else [name for name in faults.split(",") if name],
        seed=seed,
        dsn=session.targets[0].dsn if session.dsn else None,
        producers=producers,
        nodes=nodes,
        rate=rate,
        margin=margin,
        spark=spark,
        relays=[name for name in relays.split(",") if name],
        keep=keep.absolute() if keep else None,
    )
    run = prove(options, on_progress=(lambda _: None) if session.json else note)
    for path in report or []:
        write_report(run, path)
    _print(session, run)
    if not run.holds:
        broken = [f"{result.check}: {result.smallest.what} ({result.violations})" for result in run.checks if result.smallest]
        raise ProblemsFound(f"seed {seed}: {'; '.join(broken)}")


def _print(session: Session, run: RunResult) -> None:
    summary = summarize(run)
    effective, without_effect = summary.faults, summary.faults_without_effect
    faults = [
        [name, effective.get(name, 0), without_effect.get(name, 0), FAULTS[name].what]
        for name in sorted(effective.keys() | without_effect.keys())
    ]
    checks = table(["check", "examined", "violations", ("", "label"), ("", "note")], summary.checks)
    tables = [checks, table(["fault", "times", "without effect", "what it is"], faults)] if faults else [checks]
    lines: list[str] = []
    for result in summary.checks:
        if result.smallest:
            lines += [f"{result.check}: {result.smallest.what}", *(f"  {line}" for line in result.smallest.example)]
    totals = (
        f"{summary.operations} operations, {sum(effective.values())} faults, {summary.minutes:.1f} minutes, seed {summary.seed}; "
        f"publish p50 {summary.publish.p50_ms:.1f} ms, p99 {summary.publish.p99_ms:.1f} ms"
    )
    session.print(summary, *tables, *lines, summary.headline, totals)
