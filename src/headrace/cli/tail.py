"""`headrace tail`: a topic's events, as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import msgspec
import typer

from headrace.cli.output import console, json_line, say, to_json
from headrace.cli.session import Session, command
from headrace.consume import seek_position
from headrace.core import JSON, LoggedEvent, to_cloudevent
from headrace.db import Connection, Target, connect
from headrace.log import get_topic, read, tail

NEWEST = 10
LOOK_BACK_MAX = 100_000
"""How many events are looked through, backwards, for the newest that a filter lets pass."""


@dataclass(frozen=True)
class Filter:
    """Which events are shown."""

    types: tuple[str, ...] = ()
    key: str | None = None

    def passes(self, event: LoggedEvent) -> bool:
        return (not self.types or event.type in self.types) and (self.key is None or event.key == self.key)


def register(app: typer.Typer) -> None:
    command(app, "tail")(tail_)


def tail_(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)],
    start: Annotated[
        str | None, typer.Option("--from", help="earliest, latest, a position or a time.", show_default="the newest 10")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Go on with the events to come, until Ctrl-C.")] = True,
    count: Annotated[
        int | None, typer.Option("-n", min=1, help="With --from: end after so many; without: how many of the newest.")
    ] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only this type; may be given again.")] = None,
    key: Annotated[str | None, typer.Option(help="Only events of this key.")] = None,
    cloudevent: Annotated[bool, typer.Option("--cloudevent", help="Print CloudEvents 1.0, one per line.")] = False,
) -> None:
    """Show a topic's events, and follow it. With --json one event per line.

    Examples: headrace tail orders · headrace tail orders --from 2026-01-31 --no-follow --type order.placed --json
    """
    wanted = Filter(tuple(types or ()), key)
    events = _all_shards(session, topic, start, wanted, count or NEWEST, follow=follow)
    shown = islice(events, count) if start is not None else events
    try:
        for target, event in shown:
            _print(session, target, event, cloudevent=cloudevent)
    except KeyboardInterrupt:
        return


def _all_shards(
    session: Session, topic: str, start: str | None, wanted: Filter, newest: int, *, follow: bool
) -> Iterator[tuple[Target, LoggedEvent]]:
    """The events of all shards: one after the other, or as they come when following."""
    if not follow or len(session.targets) == 1:
        for target in session.targets:
            for event in _one_shard(session, target, topic, start, wanted, newest, follow=follow):
                yield target, event
        return
    arrived: queue.Queue[tuple[Target, LoggedEvent] | Exception] = queue.Queue(maxsize=1000)

    def listen(target: Target) -> None:
        try:
            for event in _one_shard(session, target, topic, start, wanted, newest, follow=True):
                arrived.put((target, event))
        except Exception as error:  # noqa: BLE001 - it is raised again where the events are read
            arrived.put(error)

    for target in session.targets:
        threading.Thread(target=listen, args=(target,), daemon=True).start()
    while True:
        found = arrived.get()
        if isinstance(found, Exception):
            raise found
        yield found


def _one_shard(
    session: Session, target: Target, topic: str, start: str | None, wanted: Filter, newest: int, *, follow: bool
) -> Iterator[LoggedEvent]:
    with connect(target) as conn:
        if start is None:
            after = get_topic(conn, topic, namespace=session.namespace).last_position
            yield from _newest(session, conn, topic, wanted, newest, after)
        else:
            after = seek_position(conn, topic, start, namespace=session.namespace)
        if follow:
            events = tail(conn, topic, after=after, namespace=session.namespace)
        elif start is not None:
            events = _to_the_end(session, conn, topic, after)
        else:
            return
        yield from (event for event in events if wanted.passes(event))


def _newest(session: Session, conn: Connection, topic: str, wanted: Filter, count: int, head: int) -> list[LoggedEvent]:
    """The newest events that pass, found by looking back in growing steps."""
    window = count
    while True:
        events = read(conn, topic, after=max(head - window, 0), limit=window, namespace=session.namespace)
        found = [event for event in events if wanted.passes(event) and event.position <= head]
        if len(found) >= count or len(events) < window or window >= LOOK_BACK_MAX:
            return found[-count:]
        window = min(window * 8, LOOK_BACK_MAX)


def _to_the_end(session: Session, conn: Connection, topic: str, after: int) -> Iterator[LoggedEvent]:
    while events := read(conn, topic, after=after, namespace=session.namespace):
        yield from events
        after = events[-1].position


def _print(session: Session, target: Target, event: LoggedEvent, *, cloudevent: bool) -> None:
    if cloudevent:
        say(to_cloudevent(event))
    elif session.json:
        json_line({"shard": target.name} | msgspec.to_builtins(event))
    else:
        _print_line(session, target, event)


def _print_line(session: Session, target: Target, event: LoggedEvent) -> None:
    shard = f"{target.name} " if len(session.targets) > 1 else ""
    when = event.emitted_at.isoformat(sep=" ", timespec="milliseconds")
    place = f"{shard}{event.partition}/{event.position}"
    payload: JSON = event.payload
    line = f"{when}  {place:>12}  {event.type}  {event.key or '–'}  {to_json(payload)}"
    console().print(line, markup=False, soft_wrap=True)
