"""`headrace replay`: events of the past, published again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import UUID, uuid4

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from headrace.archive import Replayed, RowFilter, StoredRange, read_stored_events, replay, stored_range
from headrace.cli.output import console, json_line, note
from headrace.cli.session import Session, command
from headrace.db import Connection


def register(app: typer.Typer) -> None:
    command(app, "replay")(replay_)


def replay_(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic whose past is replayed.", show_default=False)],
    into: Annotated[
        str | None, typer.Option(help="The topic that the events are published to.", show_default="the same topic")
    ] = None,
    start: Annotated[str, typer.Option("--from", help="earliest, a position or a time.")] = "earliest",
    end: Annotated[str, typer.Option("--to", help="latest, a position or a time; the range ends before it.")] = "latest",
    types: Annotated[list[str] | None, typer.Option("--type", help="Only this type; may be given again.")] = None,
    keys: Annotated[list[str] | None, typer.Option("--key", help="Only this key; may be given again.")] = None,
    same_ids: Annotated[
        bool, typer.Option("--same-ids", help="Keep the ids; events that the topic has already are left out.")
    ] = False,
    rate: Annotated[float | None, typer.Option(min=0.01, help="At most so many events per second.")] = None,
    name: Annotated[
        UUID | None, typer.Option(help="Go on with a replay that was broken off: nothing comes twice.", show_default="a new one")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(envvar="HEADRACE_ARCHIVE", help="Folder of the archive.", show_default="where it was written"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be published.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Publish past events again, in order, from the archive and the log.

    They keep type, key, payload and time, get new ids, and carry the header `headrace-replay` with topic and position of the
    original. Rules, correlators and consumers of the topic see them like any event.

    Examples: headrace replay orders --into orders.test --from 2026-01-01 --to 2026-02-01 --dry-run
    """
    if len(session.targets) > 1 and (start.isdecimal() or end.isdecimal()):
        raise typer.BadParameter("every shard has positions of its own; give times", param_hint="--from / --to")
    rows = RowFilter(tuple(types) if types else None, tuple(keys) if keys else None)
    place = str(folder) if folder else None
    found = []
    for target, conn in session.shards():
        span = stored_range(conn, topic, start=start, end=end, folder=place, namespace=session.namespace)
        found.append((target, span, _count(conn, span, rows, place)))
    total = sum(count for _, _, count in found)
    told = [
        {"shard": target.name, "from": span.first, "to": span.until, "events": count} for target, span, count in found
    ]  # fmt: skip
    if dry_run:
        session.done(f"{total} events of {topic} would be published into {into or topic}", {"events": total, "ranges": told})
        return
    session.confirm(f"Publish {total} events of {topic} into {into or topic} again?", yes=yes)
    replay_name = name or uuid4()
    if not session.json:
        note(f"If it is broken off, go on with: --name {replay_name}")
    play = partial(
        replay,
        into=into or topic,
        name=replay_name,
        same_ids=same_ids,
        rate=rate,
        rows=rows,
        folder=place,
        namespace=session.namespace,
    )
    done = _played(session, [span for _, span, _ in found], play, total)
    result = {"events": done, "into": into or topic, "name": str(replay_name), "ranges": told}
    if session.json:
        json_line(result)
    else:
        console().print(f"{done} events of {topic} published into {into or topic}", markup=False)


def _played(session: Session, spans: Sequence[StoredRange], play: Callable[..., Iterator[Replayed]], total: int) -> int:
    """Replays shard after shard under a progress bar, and says how many events that were."""
    done = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console(stderr=True), disable=session.json) as bars:
        task = bars.add_task("events", total=total)
        for span, (_, conn) in zip(spans, session.shards(), strict=True):
            before = done
            for step in play(conn, span):
                done = before + step.events
                bars.update(task, completed=done)
    return done


def _count(conn: Connection, span: StoredRange, rows: RowFilter, folder: str | None) -> int:
    if rows == RowFilter():
        return len(span)
    return sum(len(some) for some in read_stored_events(conn, span, rows=rows, folder=folder))
