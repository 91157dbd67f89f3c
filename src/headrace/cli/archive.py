"""`headrace archive`: closed time partitions become Parquet files; what is archived, and whether it still is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from typer.core import TyperGroup

from headrace.archive import Archived, Progress, archive, closed_partitions, list_archive, verify_archive
from headrace.cli.output import console, json_line
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.db import Connection, Target, connect, parse_time

if TYPE_CHECKING:
    from typer._click import Command, Context


class TopicOrCommand(TyperGroup):
    """`headrace archive orders` means `headrace archive run orders`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        known = not args or args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["run", *args])


group = typer.Typer(help="Archive: closed time partitions of the log as Parquet files.", cls=TopicOrCommand)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
SomeName = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only this topic.", show_default=False)]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="where this topic's is"),
]


@command(group, "run")
def run(
    session: Session,
    name: Name,
    folder: Folder = None,
    before: Annotated[
        str | None, typer.Option(help="Time partitions that ended before this time.", show_default="all closed ones")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be archived.")] = False,
) -> None:
    """Write a topic's closed time partitions to Parquet, check the files against the log, and record them.

    Run again, it goes on with what is missing. A topic with `headrace topic alter TOPIC --archive` keeps everything until then.

    `headrace archive TOPIC` is the same.

    Example: headrace archive orders --folder /srv/archive --before 2026-01-01
    """
    done = []
    for target in session.targets:
        with connect(target) as conn:
            until = parse_time(conn, before) if before else None
            due = [one for one in closed_partitions(conn, name, before=until, namespace=session.namespace) if not one.archived]
            # Nothing to do needs no folder.
            root = None if dry_run or not due else _folder(session, conn, name, folder)
        result = {"shard": target.name, "partitions": len(due), "events": sum(one.events for one in due)}
        if root is not None:
            end = _shown(session, target, archive(target, name, folder=root, before=until, namespace=session.namespace))
            result |= {"files": end.files, "file_bytes": end.file_bytes, "folder": str(root)}
        done.append((target, result))
    if session.json:
        json_line([result for _, result in done])
        return
    verb = "to archive" if dry_run else "archived"
    columns = ["time partitions", f"events {verb}", "files", "bytes"]
    session.rows(columns, ((t, [r["partitions"], r["events"], r.get("files"), r.get("file_bytes")]) for t, r in done))


def _folder(session: Session, conn: Connection, topic: str, given: Path | None) -> Path:
    if given is not None:
        return given
    known = list_archive(conn, topic, namespace=session.namespace)
    if not known:
        raise typer.BadParameter("say where the archive is: --folder or HEADRACE_ARCHIVE", param_hint="--folder")
    return Path(known[-1].folder)


def _shown(session: Session, target: Target, steps: Iterator[Progress]) -> Progress:
    end = Progress(0, 0, 0, 0)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console(stderr=True), disable=session.json) as bars:
        task = bars.add_task(f"events of {target.name}", total=None)
        for end in steps:
            bars.update(task, completed=end.written, total=end.total)
    return end


@command(group, "list")
def list_(session: Session, name: SomeName = None) -> None:
    """List what is archived, by topic and day."""
    found = session.found(lambda conn: list_archive(conn, name, namespace=session.namespace))
    columns = ["topic", "day", "positions", "events", "bytes", "in the log too", "archived at", "file"]
    session.show(columns, found, _row)


def _row(one: Archived) -> list[object]:
    positions = f"{one.first_position} to {one.last_position}"
    counts = [positions, one.events, one.file_bytes, one.in_log, one.archived_at]
    return [one.topic, one.day.isoformat(), *counts, str(Path(one.folder) / one.file)]


@command(group, "verify")
def verify(session: Session, name: SomeName = None, folder: Folder = None) -> None:
    """Read every archived file again and compare it with what was recorded: count and checksum.

    Exits with 6 where a file is missing or differs.
    """
    looked = session.found(lambda conn: verify_archive(conn, name, folder=folder, namespace=session.namespace))
    wrong = [one.problem for _, one in looked if one.problem]
    if session.json:
        json_line([_as_json(target, one.archived) | {"problem": one.problem} for target, one in looked])
    else:
        events = sum(one.archived.events for _, one in looked if not one.problem)
        console().print(f"{len(looked) - len(wrong)} of {len(looked)} files hold what was recorded: {events} events")
    if wrong:
        raise ProblemsFound("the archive is not what was recorded: " + "; ".join(wrong))


def _as_json(target: Target, one: Archived) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(one)
    return {"shard": target.name} | shown
