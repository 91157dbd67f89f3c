"""`headrace replay`: publishes past events again."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID, uuid4

from typer import BadParameter, Option, Typer

from headrace.cli.options import ArchiveFolder, DryRun, From, To, TopicName, Types, Yes
from headrace.cli.output import note, progress_bar
from headrace.cli.session import Session, command
from headrace.log.archive import RowFilter, find_stored_range, read_stored_events, replay

group = Typer()


@command(group, "replay")
def replay_(
    session: Session,
    topic: TopicName,
    into: Annotated[str | None, Option(help="Topic to publish to.", show_default="the same topic")] = None,
    start: From = "earliest",
    end: To = "latest",
    types: Types = None,
    keys: Annotated[list[str] | None, Option("--key", help="Only this key; repeatable.")] = None,
    same_ids: Annotated[bool, Option("--same-ids", help="Keep the ids, and skip events that the topic already has.")] = False,
    rate: Annotated[float | None, Option(min=0.01, help="Limit, in events per second.")] = None,
    name: Annotated[
        UUID | None, Option(help="Continue an interrupted replay without repetition.", show_default="a new one")
    ] = None,
    folder: ArchiveFolder = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Publish past events again, in order, from the archive and the log.

    They keep type, key, payload and time, get new ids, and carry the header `headrace-replay` with topic and position of the
    original. Rules, correlators and consumers of the topic handle them like any other event. To let one consumer handle past
    events again, without new events: `headrace consumer seek`.

    Example: headrace replay orders --into orders.test --from 2026-01-01 --to 2026-02-01 --dry-run
    """
    if len(session.targets) > 1 and (start.isdecimal() or end.isdecimal()):
        raise BadParameter("each shard has its own positions; use times", param_hint="--from / --to")
    rows = RowFilter(tuple(types) if types else None, tuple(keys) if keys else None)
    archive_folder = str(folder) if folder else None
    into = into or topic
    ranges, summary = [], []
    for target, conn in session.shards():
        span = find_stored_range(conn, topic, start=start, end=end, folder=archive_folder, namespace=session.namespace)
        ranges.append(span)
        stored = [span] if rows == RowFilter() else read_stored_events(conn, span, rows=rows, folder=archive_folder)
        count = sum(map(len, stored))
        summary.append({"shard": target.name, "from": span.first, "to": span.until, "events": count})
    total = sum(int(str(part["events"])) for part in summary)
    if dry_run:
        session.done(f"{total} events of {topic} would be published to {into}", {"events": total, "ranges": summary})
        return
    session.confirm(f"Publish {total} events of {topic} again, to {into}?", yes=yes)
    name = name or uuid4()
    if not session.json:
        note(f"To continue after an interruption, add: --name {name}")
    done = 0
    with progress_bar(hide=session.json) as progress:
        task = progress.add_task("events", total=total)
        for span, (_, conn) in zip(ranges, session.shards(), strict=True):
            before = done
            for step in replay(
                conn,
                span,
                into=into,
                name=name,
                same_ids=same_ids,
                rate=rate,
                rows=rows,
                folder=archive_folder,
                namespace=session.namespace,
            ):
                done = before + step.events
                progress.update(task, completed=done)
    result = {"events": done, "into": into, "name": str(name), "ranges": summary}
    session.done(f"{done} events of {topic} published to {into}", result)
