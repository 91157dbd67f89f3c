"""`headrace prove`: tries to break every promise, and says whether it could."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace.cli.output import console, json_line, note, table
from headrace.cli.session import Session, command
from headrace.core import Invalid, ProblemsFound
from headrace.prove import FAULTS, Options, Proved, prove, summary, write_report


def register(app: typer.Typer) -> None:
    command(app, "prove", common=("dsn", "json"))(prove_)


def prove_(
    session: Session,
    minutes: Annotated[
        float, typer.Option(min=0.05, help="How long the workload runs under faults, and until each kind has come once.")
    ] = 1.0,
    faults: Annotated[
        str | None, typer.Option(help="Only these, separated by commas; '' for none.", show_default="all that can be done there")
    ] = None,
    seed: Annotated[int, typer.Option(help="The plan of faults and the workload's values follow from it.")] = 1,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write a page (.html) with rates, latencies, lag and faults, or the numbers (.json); may be given again."
        ),
    ] = None,
    producers: Annotated[int, typer.Option(min=1, help="Processes that publish.")] = 2,
    nodes: Annotated[int, typer.Option(min=1, help="Node processes.")] = 2,
    rate: Annotated[float, typer.Option(min=1, help="Events per second of each producer.")] = 100,
    spark: Annotated[
        bool, typer.Option("--spark", help="With a pipeline on Spark, and its kill -9; needs Java and about 1 GB of memory.")
    ] = False,
    margin: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="How far below 95 % the rate after a fault may stay: for a machine in other use."),
    ] = 0.0,
    keep: Annotated[Path | None, typer.Option(help="Keep histories and logs of the processes in this folder.")] = None,
) -> None:
    """Run a workload under faults, then check every promise against histories that were kept outside the database.

    It starts a PostgreSQL of its own, or makes the database headrace_prove at --dsn; there it leaves out the faults that kill the
    server or take all of its connections. Exits with 6 where a promise was broken, and shows the smallest counter-example.

    Examples: headrace prove --minutes 5 --report proof.html · headrace prove --spark · headrace prove --faults cut --seed 7
    """
    for path in report or []:
        if path.suffix not in (".html", ".json") or not path.parent.is_dir():
            raise Invalid(f"no report can be written to {path}; name a file that ends in .html or .json, in a folder that exists")
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise Invalid(f"{keep} is not empty; give a new folder, so that the histories of two runs do not mix")
    options = Options(
        minutes=minutes,
        faults=None if faults is None else [name for name in faults.split(",") if name],
        seed=seed,
        dsn=session.dsn,
        producers=producers,
        nodes=nodes,
        rate=rate,
        margin=margin,
        spark=spark,
        keep=keep.absolute() if keep else None,
    )
    proved = prove(options, tell=(lambda _: None) if session.json else note)
    for path in report or []:
        write_report(proved, path)
    _tell(session, proved)
    if not proved.holds:
        broken = [one for one in proved.verdicts if not one.holds]
        told = "; ".join(f"{one.check}: {one.smallest.what} ({one.broken})" for one in broken if one.smallest)
        raise ProblemsFound(f"seed {seed}: {told}")


def _tell(session: Session, proved: Proved) -> None:
    told = summary(proved)
    if session.json:
        json_line(msgspec.to_builtins(told))
        return
    out = console()
    rows = [[one.check, one.examined, one.broken, one.word, one.note] for one in told.verdicts]
    out.print(table(["check", "examined", "broken", "", ""], rows))
    names = sorted(told.faults.keys() | told.missed.keys())
    faults = [[name, told.faults.get(name, 0), told.missed.get(name, 0), FAULTS[name].what] for name in names]
    if faults:
        out.print(table(["fault", "times", "in vain", "what it is"], faults))
    for one in told.verdicts:
        if one.smallest:
            out.print(f"{one.check}: {one.smallest.what}", markup=False, soft_wrap=True)
            for line in one.smallest.example:
                out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print(told.headline, markup=False)
    out.print(
        f"{told.operations} operations, {sum(told.faults.values())} faults, {told.minutes:.1f} minutes, seed {told.seed}; "
        f"publish p50 {told.publish.p50_ms:.1f} ms, p99 {told.publish.p99_ms:.1f} ms",
        markup=False,
    )
