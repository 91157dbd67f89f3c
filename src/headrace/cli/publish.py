"""`headrace publish`: publishes one event, or a file of JSON lines, each event to its shard, in one transaction per shard."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from uuid import UUID

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.options import TopicName
from headrace.cli.output import progress_bar
from headrace.cli.session import Session, command
from headrace.core import (
    DatabaseUnavailable,
    Event,
    HeadraceError,
    Invalid,
    PayloadTooDeep,
    RawJSON,
    ShardUnavailable,
    from_cloudevent,
    raw_json,
)
from headrace.db import Connection, Shards, connect
from headrace.log.outbox import publish_many


class Router(ExitStack):
    """Connections to all reachable shards. An event with a key goes to the shard of its key only; others to any shard."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._namespace = session.namespace
        self._shards = Shards(session.targets)
        self._conns: dict[str, Connection] = {}
        self._unreachable: dict[str, str] = {}
        for target in session.targets:
            try:
                self._conns[target.name] = self.enter_context(connect(target))
            except DatabaseUnavailable as error:
                self._unreachable[target.name] = str(error)
        if not self._conns:
            raise DatabaseUnavailable("; ".join(self._unreachable.values()))
        self._reachable = Shards([target for target in session.targets if target.name in self._conns])

    def publish(self, events: Sequence[Event]) -> list[str]:
        """Publishes events and returns the shard of each. Raises ShardUnavailable if the shard of a key is unreachable."""
        names = [self._shard_of(event) for event in events]
        for shard in dict.fromkeys(names):
            own = [event for name, event in zip(names, events, strict=True) if name == shard]
            publish_many(self._conns[shard], own, namespace=self._namespace)
        return names

    def _shard_of(self, event: Event) -> str:
        # Without a key the id decides, so that publishing the id again finds the first event.
        if event.key is None:
            return self._reachable.shard_of(str(event.id)).name
        name = self._shards.shard_of(event.key).name
        if name in self._unreachable:
            raise ShardUnavailable(f"{self._unreachable[name]}; key {event.key!r} belongs to this shard, so try again later")
        return name

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end what is published inside; an error rolls it back."""
        with ExitStack() as stack:
            for conn in self._conns.values():
                stack.enter_context(conn.transaction())
            yield


group = Typer()

LINES_PER_UPDATE = 5000
"""Lines read between two updates of the progress bar."""


@command(group, "publish")
def publish(
    session: Session,
    topic: TopicName,
    type_: Annotated[str | None, Argument(metavar="TYPE", help="Event type.", show_default=False)] = None,
    payload: Annotated[str | None, Argument(metavar="PAYLOAD", help="JSON.", show_default="null")] = None,
    key: Annotated[str | None, Option(help="Events with the same key keep their order.")] = None,
    header: Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="Header; repeatable.")] = None,
    event_id: Annotated[UUID | None, Option("--id", help="Event id. Publishing an id twice gives one event.")] = None,
    file: Annotated[str | None, Option(help="File of JSON lines; - reads standard input.")] = None,
    batch: Annotated[int, Option(min=0, help="With --file: events per transaction; 0 for one transaction.")] = 0,
    cloudevent: Annotated[bool, Option("--cloudevent", help="The input is CloudEvents 1.0 in structured JSON.")] = False,
) -> None:
    """Publish an event, or every line of a file.

    A line is an object with type and payload, and optionally key, headers, id, emitted_at and producer.

    Examples: headrace publish orders order.placed '{"id": 7}' --key c3 · headrace publish orders --file events.jsonl
    """
    event = Event(topic=topic, type=type_ or "", key=key, headers=_headers(header or []))
    if file is not None:
        if payload is not None or event_id is not None:
            raise BadParameter("with --file, payload and id come from the lines of the file", param_hint="--file")
        _publish_file(session, event, file, batch, cloudevent=cloudevent)
        return
    if cloudevent:
        # The whole event, with its own type, is in one argument.
        event = from_cloudevent(payload or type_ or "", topic=topic)
    elif type_ is None:
        raise BadParameter("an event needs a TYPE", param_hint="TYPE")
    else:
        event = msgspec.structs.replace(event, payload=None if payload is None else raw_json(payload), id=event_id or event.id)
    with Router(session) as router:
        shard = router.publish([event])[0]
    session.done(str(event.id), {"id": event.id, "topic": event.topic, "type": event.type, "shard": shard})


def _headers(options: list[str]) -> dict[str, str]:
    pairs = [option.partition("=") for option in options]
    if bad := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise BadParameter(f"write NAME=VALUE, not {bad!r}", param_hint="--header")
    return {name: value for name, _, value in pairs}


def _publish_file(session: Session, defaults: Event, file: str, batch: int, *, cloudevent: bool) -> None:
    with _open(file) as (stream, size), progress_bar(hide=session.json, count="percent") as progress:
        task = progress.add_task(f"publishing to {defaults.topic}", total=size)
        events = (_read_event(line, number, defaults, cloudevent=cloudevent) for number, line in _lines(stream))
        count = 0
        with Router(session) as router:
            for part in _batches(events, batch) if batch else [events]:
                for published in _publish_batch(router, part):
                    count += published
                    progress.update(task, completed=stream.tell() if size else count)
    session.done(f"{count} events published to {defaults.topic}", {"topic": defaults.topic, "published": count})


def _publish_batch(router: Router, events: Iterator[Event]) -> Iterator[int]:
    """Publishes events in one transaction per shard; yields how many were published since the last time."""
    with router.transaction():
        while some := list(islice(events, LINES_PER_UPDATE)):
            router.publish(some)
            yield len(some)


def _batches(events: Iterator[Event], size: int) -> Iterator[Iterator[Event]]:
    for first in events:
        yield chain([first], islice(events, size - 1))


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    # readline, not iteration: with it, tell() stays correct for the progress bar.
    for number, line in enumerate(iter(stream.readline, b""), start=1):
        if line.strip():
            yield number, line


@contextmanager
def _open(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    if file == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(file)
    if not path.is_file():
        raise Invalid(f"there is no file {file}; name a file of JSON lines, or - for standard input")
    with path.open("rb") as stream:
        yield stream, path.stat().st_size


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of events. An unknown member is an error."""

    type: str = ""
    payload: RawJSON = msgspec.Raw(b"null")
    key: str | None = None
    headers: dict[str, Any] | None = None
    id: UUID | None = None
    emitted_at: datetime | None = None
    producer: str | None = None


def _read_event(line: bytes, number: int, defaults: Event, *, cloudevent: bool) -> Event:
    """The event of a line; members that the line lacks come from `defaults`. Errors name the line."""
    try:
        if cloudevent:
            return from_cloudevent(line, topic=defaults.topic)
        return _event(msgspec.json.decode(line, type=_Line), defaults)
    except RecursionError:
        raise PayloadTooDeep(f"line {number}: payload is nested too deeply; flatten it, or store it elsewhere") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"line {number}: {error}; a line is an object with type, payload and other members of an event") from None
    except HeadraceError as error:
        raise type(error)(f"line {number}: {error}") from None


def _event(line: _Line, defaults: Event) -> Event:
    event = msgspec.structs.replace(
        defaults,
        type=line.type or defaults.type,
        # A copy: the buffer of the line is not kept.
        payload=line.payload.copy(),
        # An empty key is kept, so that it is reported as an error.
        key=defaults.key if line.key is None else line.key,
        headers=line.headers if line.headers is not None else defaults.headers,
        emitted_at=line.emitted_at,
        producer=line.producer or defaults.producer,
        id=line.id or Event(topic="", type="").id,
    )
    if not event.type:
        raise Invalid("the event has no type; add it to the line, or as TYPE on the command line")
    return event
