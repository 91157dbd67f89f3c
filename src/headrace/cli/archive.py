"""`headrace archive`: closed time partitions of the log as Parquet files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from typer import BadParameter, Option, Typer
from typer.core import TyperGroup

from headrace.cli.options import ArchiveFolder, DryRun, OptionalTopic, TopicName
from headrace.cli.output import Column, progress_bar
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.db import Connection, Target, connect, parse_time
from headrace.log.archive import ArchiveProgress, archive_topic, list_archive, list_closed_partitions, verify_archive

if TYPE_CHECKING:
    from typer._click import Command, Context


class TopicOrCommand(TyperGroup):
    """`headrace archive orders` means `headrace archive run orders`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        known = not args or args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["run", *args])


group = Typer(help="The archive: closed time partitions of the log as Parquet files.", cls=TopicOrCommand)


@command(group, "run")
def run(
    session: Session,
    name: TopicName,
    folder: ArchiveFolder = None,
    before: Annotated[str | None, Option(help="Only what ended before this time.", show_default="all closed ones")] = None,
    iceberg: Annotated[bool, Option("--iceberg", help="Make the files an Apache Iceberg table too, from now on.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Write closed time partitions to Parquet files, check and record them.

    The files are compared with the log before they are recorded. Run it again to continue with what is missing. After
    `headrace topic alter TOPIC --archive`, retention drops only archived events. `headrace archive TOPIC` is short for this.

    Example: headrace archive orders --folder /srv/archive --before 2026-01-01
    """
    results = []
    for target in session.targets:
        with connect(target) as conn:
            until = parse_time(conn, before) if before else None
            partitions = list_closed_partitions(conn, name, before=until, namespace=session.namespace)
            due = [partition for partition in partitions if not partition.archived]
            # Without work no folder is needed.
            root = None if dry_run or not (due or iceberg) else folder or _recorded_folder(session, conn, name)
        result: dict[str, object] = {"partitions": len(due), "events": sum(partition.events for partition in due)}
        if root is not None:
            end = _archive(session, target, name, root, until, iceberg=iceberg)
            result |= {"files": end.files, "file_bytes": end.file_bytes, "folder": str(root)}
        results.append((target, result))
    events = "events to archive" if dry_run else "events archived"
    columns: list[Column] = [("time partitions", "partitions"), (events, "events"), "files", ("bytes", "file_bytes")]
    session.show(columns, results, facts=dict)


def _recorded_folder(session: Session, conn: Connection, topic: str) -> Path:
    files = list_archive(conn, topic, namespace=session.namespace)
    if not files:
        raise BadParameter("set the folder of the archive with --folder or HEADRACE_ARCHIVE", param_hint="--folder")
    return Path(files[-1].folder)


def _archive(
    session: Session, target: Target, topic: str, folder: Path, before: datetime | None, *, iceberg: bool
) -> ArchiveProgress:
    end = ArchiveProgress(0, 0, 0, 0)
    with progress_bar(hide=session.json) as progress:
        task = progress.add_task(f"events of {target.name}", total=None)
        for end in archive_topic(target, topic, folder=folder, before=before, iceberg=iceberg, namespace=session.namespace):
            progress.update(task, completed=end.written, total=end.total)
    return end


@command(group, "list")
def list_(session: Session, name: OptionalTopic = None) -> None:
    """List archived files by topic and day."""
    files = session.collect(session.bind(list_archive, name))
    columns: list[Column] = [
        "topic",
        ("day", lambda file: file.day.isoformat()),
        ("positions", lambda file: f"{file.first_position} to {file.last_position}"),
        "events",
        ("bytes", "file_bytes"),
        ("in the log too", "in_log"),
        "archived_at",
        ("file", lambda file: str(Path(file.folder) / file.file)),
    ]
    session.show(columns, files)


@command(group, "verify")
def verify(session: Session, name: OptionalTopic = None, folder: ArchiveFolder = None) -> None:
    """Read archived files again and compare them with their records.

    It compares count and checksum. The exit code is 6 when a file is missing or differs.
    """
    results = session.collect(session.bind(verify_archive, name, folder=folder))
    problems = [result.problem for _, result in results if result.problem]
    events = sum(result.archived.events for _, result in results if not result.problem)
    session.print(
        [{"shard": target.name, **msgspec.to_builtins(result.archived), "problem": result.problem} for target, result in results],
        f"{len(results) - len(problems)} of {len(results)} files are as recorded: {events} events",
    )
    if problems:
        raise ProblemsFound("the archive differs from its records: " + "; ".join(problems))
