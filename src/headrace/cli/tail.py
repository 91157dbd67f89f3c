"""`headrace tail`: the events of a topic, as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, cast

import msgspec
from psycopg.types.json import set_json_loads
from typer import Option, Typer

from headrace.cli.options import TopicName, Types
from headrace.cli.output import console, json_line, say, to_json
from headrace.cli.session import Session, command
from headrace.consume import seek_position
from headrace.core import LoggedEvent, safe_json, safe_line, to_cloudevent
from headrace.db import Connection, Target, connect
from headrace.lang.condition import Evaluate, Subject, decode_json, parse, to_python
from headrace.log.topics import follow_log, get_topic, read_log

group = Typer()

NEWEST = 10
SEARCH_MAX = 100_000
"""How many events are searched backwards for the newest ones that pass a filter."""


@dataclass(frozen=True)
class Reading:
    """Which events of a topic are read."""

    topic: str
    start: str | None
    """None: the newest ones."""
    newest: int
    follow: bool
    types: tuple[str, ...]
    key: str | None
    condition: Evaluate | None
    namespace: str | None

    def passes(self, event: LoggedEvent) -> bool:
        return (
            (not self.types or event.type in self.types)
            and (self.key is None or event.key == self.key)
            and (self.condition is None or self.condition(cast("Subject", event)) is True)
        )


@command(group, "tail")
def tail_(
    session: Session,
    topic: TopicName,
    start: Annotated[
        str | None, Option("--from", help="earliest, latest, a position or a time.", show_default="newest 10")
    ] = None,
    follow: Annotated[bool, Option(help="Wait for new events, until Ctrl-C.")] = True,
    count: Annotated[int | None, Option("-n", min=1, help="With --from: stop after this many; else: how many newest.")] = None,
    types: Types = None,
    key: Annotated[str | None, Option(help="Only events with this key.")] = None,
    where: Annotated[
        str | None, Option(metavar="CONDITION", help="Only events for which a condition is true, as in a rule.")
    ] = None,
    cloudevent: Annotated[bool, Option("--cloudevent", help="Print CloudEvents 1.0, one per line.")] = False,
) -> None:
    """Show the events of a topic with their ids, and follow it.

    A line is: time, partition/position, event id, type, key, payload. With --json it prints one event per line.

    Examples: headrace tail orders · headrace tail orders --where "(object -> 'total')::int > 100" ·
    headrace tail orders --from 2026-01-31 --no-follow --type order.placed --json
    """
    condition = to_python(parse(where)) if where is not None else None
    reading = Reading(topic, start, count or NEWEST, follow, tuple(types or ()), key, condition, session.namespace)
    targets = session.targets
    one_by_one = ((target, event) for target in targets for event in _read_shard(target, reading))
    events = _follow_all(targets, reading) if follow and len(targets) > 1 else one_by_one
    try:
        for target, event in islice(events, count) if start is not None else events:
            _print(session, target, event, cloudevent=cloudevent)
    except KeyboardInterrupt:
        return


def _follow_all(targets: list[Target], reading: Reading) -> Iterator[tuple[Target, LoggedEvent]]:
    """The events of all shards, in the order in which they arrive."""
    arrivals: queue.Queue[tuple[Target, LoggedEvent] | Exception] = queue.Queue(maxsize=1000)

    def listen(target: Target) -> None:
        try:
            for event in _read_shard(target, reading):
                arrivals.put((target, event))
        except Exception as error:  # noqa: BLE001 - raised again in the main thread
            arrivals.put(error)

    for target in targets:
        threading.Thread(target=listen, args=(target,), daemon=True).start()
    while True:
        arrival = arrivals.get()
        if isinstance(arrival, Exception):
            raise arrival
        yield arrival


def _read_shard(target: Target, reading: Reading) -> Iterator[LoggedEvent]:
    with connect(target) as conn:
        if reading.condition:
            # A condition compares exact numbers.
            set_json_loads(lambda data: decode_json(data if isinstance(data, str) else data.decode()), conn)
        if reading.start is None:
            after = get_topic(conn, reading.topic, namespace=reading.namespace).last_position
            yield from _newest(conn, reading, after)
        else:
            after = seek_position(conn, reading.topic, reading.start, namespace=reading.namespace)
        if reading.follow:
            yield from filter(reading.passes, follow_log(conn, reading.topic, after=after, namespace=reading.namespace))
        elif reading.start is not None:
            while events := read_log(conn, reading.topic, after=after, namespace=reading.namespace):
                yield from filter(reading.passes, events)
                after = events[-1].position


def _newest(conn: Connection, reading: Reading, head: int) -> list[LoggedEvent]:
    """The newest events that pass, searched backwards in growing steps."""
    window = reading.newest
    while True:
        events = read_log(conn, reading.topic, after=max(head - window, 0), limit=window, namespace=reading.namespace)
        matches = [event for event in events if reading.passes(event) and event.position <= head]
        if len(matches) >= reading.newest or len(events) < window or window >= SEARCH_MAX:
            return matches[-reading.newest :]
        window = min(window * 8, SEARCH_MAX)


def _print(session: Session, target: Target, event: LoggedEvent, *, cloudevent: bool) -> None:
    if cloudevent:
        say(safe_json(to_cloudevent(event)))
    elif session.json:
        json_line({"shard": target.name} | msgspec.to_builtins(event))
    else:
        shard = f"{target.name} " if len(session.targets) > 1 else ""
        time = event.emitted_at.isoformat(sep=" ", timespec="milliseconds")
        place = f"{shard}{event.partition}/{event.position}"
        line = f"{time}  {place:>12}  {event.id}  {event.type}  {event.key or '–'}  {to_json(event.payload)}"
        console().print(safe_line(line), markup=False, soft_wrap=True)
