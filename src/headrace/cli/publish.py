"""`headrace publish`: one event from the command line, or many from a file of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO
from uuid import UUID

import msgspec
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from headrace.cli.event_line import read_event
from headrace.cli.output import console
from headrace.cli.router import router
from headrace.cli.session import Session, command
from headrace.core import Event, Invalid, RawJSON, decode, from_cloudevent

READ_AT_ONCE = 5000
"""Lines read between two looks of the progress bar."""


def register(app: typer.Typer) -> None:
    command(app, "publish")(publish)


def publish(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)],
    type_: Annotated[str | None, typer.Argument(metavar="TYPE", help="Event type.", show_default=False)] = None,
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON.", show_default="null")] = None,
    key: Annotated[str | None, typer.Option(help="Events of one key keep their order.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be given again.")] = None,
    event_id: Annotated[UUID | None, typer.Option("--id", help="Event id: the same id twice is one event.")] = None,
    file: Annotated[
        str | None, typer.Option(help="Publish every line of this file of JSON lines; - reads standard input.")
    ] = None,
    batch: Annotated[int, typer.Option(min=0, help="With --file: commit every so many events; 0: all or nothing.")] = 0,
    cloudevent: Annotated[bool, typer.Option("--cloudevent", help="The input is CloudEvents 1.0 in structured JSON.")] = False,
) -> None:
    """Publish an event, or every line of a file.

    A line of a file is an object with type, payload and, as wished, key, headers, id, emitted_at, producer.

    Examples: headrace publish orders order.placed '{"id": 7}' --key c3 · headrace publish orders --file events.jsonl
    """
    given = Event(topic=topic, type=type_ or "", key=key, headers=_headers(header or []))
    if file is not None:
        if payload is not None or event_id is not None:
            raise typer.BadParameter("with --file, payload and id come from its lines", param_hint="--file")
        _publish_file(session, given, file, batch, cloudevent=cloudevent)
        return
    if cloudevent:
        # The whole event stands in one argument; it has a type of its own.
        _publish_one(session, from_cloudevent(payload or type_ or "", topic=topic))
        return
    if type_ is None:
        raise typer.BadParameter("an event needs a TYPE", param_hint="TYPE")
    given = msgspec.structs.replace(given, payload=raw_json(payload))
    _publish_one(session, msgspec.structs.replace(given, id=event_id) if event_id else given)


def raw_json(text: str | None) -> RawJSON | None:
    """The payload as it was typed, so that every digit stays."""
    if text is None:
        return None
    decode(text)
    return msgspec.Raw(text.encode())


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    if bad := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise typer.BadParameter(f"write NAME=VALUE, not {bad!r}", param_hint="--header")
    return {name: value for name, _, value in pairs}


def _publish_one(session: Session, event: Event) -> None:
    with router(session) as routes:
        shard = routes.publish([event])[0]
    session.done(str(event.id), {"id": event.id, "topic": event.topic, "type": event.type, "shard": shard})


def _publish_file(session: Session, given: Event, file: str, batch: int, *, cloudevent: bool) -> None:
    with _opened(file) as (stream, size), _progress(session) as progress:
        task = progress.add_task(f"publishing to {given.topic}", total=size)
        events = (read_event(line, number, given, cloudevent=cloudevent) for number, line in _lines(stream))
        count = 0
        with router(session) as routes:
            for part in _parts(events, batch) if batch else [events]:
                with routes.transaction():
                    while piece := list(islice(part, READ_AT_ONCE)):
                        routes.publish(piece)
                        count += len(piece)
                        progress.update(task, completed=stream.tell() if size else count)
    session.done(f"{count} events published to {given.topic}", {"topic": given.topic, "published": count})


def _parts(events: Iterator[Event], size: int) -> Iterator[Iterator[Event]]:
    """The events in parts of a size, each read only while it is published."""
    for first in events:
        yield _chain(first, islice(events, size - 1))


def _chain(first: Event, rest: Iterable[Event]) -> Iterator[Event]:
    yield first
    yield from rest


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    # readline, not iteration: it keeps tell() right for the progress bar.
    for number, line in enumerate(iter(stream.readline, b""), start=1):
        if line.strip():
            yield number, line


@contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    if file == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(file)
    if not path.is_file():
        raise Invalid(f"there is no file {file}; give a file of JSON lines, or - for standard input")
    with path.open("rb") as stream:
        yield stream, path.stat().st_size


def _progress(session: Session) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), transient=True, disable=session.json)
