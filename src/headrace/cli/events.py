"""Commands on events: `headrace tail` shows them as they come, `headrace trace` the history of one, `headrace replay` publishes past
ones again, and `headrace asyncapi` describes them."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, cast
from uuid import UUID, uuid4

import msgspec
from psycopg.types.json import set_json_loads
from rich.table import Table
from typer import BadParameter, Option, Typer

from headrace.cli.consumer import IDLE
from headrace.cli.options import ArchiveFolder, DryRun, EventId, From, Keys, To, TopicName, Types, Where, Yes
from headrace.cli.output import Column, console, first_line, json_line, note, progress_bar, say, table, to_json
from headrace.cli.session import Session, command, facts_table
from headrace.consume import seek_position
from headrace.core import LoggedEvent, UnknownEvent, safe_json, safe_line, to_cloudevent
from headrace.db import Connection, Target, connect
from headrace.definitions.schemas import describe_namespace
from headrace.lang.condition import Evaluate, Subject, decode_json, parse, to_python
from headrace.log.archive import RowFilter, find_stored_range, read_stored_events, replay
from headrace.log.topics import follow_log, get_topic, read_log
from headrace.observe.history import ActionHistory, ConsumerProgress, EventHistory, event_history

group = Typer()

NEWEST = 10
SEARCH_MAX = 100_000
"""How many events are searched backwards for the newest ones that pass a filter."""
ERROR: Column = ("error", lambda failure: first_line(failure.error))
FAILING = ("stopped", "retrying", "waiting")
ANSWERS = {True: "true", False: "false", None: "unknown"}


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
    where: Where = None,
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
            _print_event(session, target, event, cloudevent=cloudevent)
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


def _print_event(session: Session, target: Target, event: LoggedEvent, *, cloudevent: bool) -> None:
    if cloudevent:
        say(safe_json(to_cloudevent(event)))
    elif session.json:
        json_line({"shard": target.name} | msgspec.to_builtins(event))
    else:
        shard = f"{target.name} " if len(session.targets) > 1 else ""
        time = event.emitted_at.isoformat(sep=" ", timespec="milliseconds")
        position = f"{shard}{event.partition}/{event.position}"
        line = f"{time}  {position:>12}  {event.id}  {event.type}  {event.key or '–'}  {to_json(event.payload)}"
        console().print(safe_line(line), markup=False, soft_wrap=True)


@command(group, "trace")
def trace(session: Session, event_id: EventId) -> None:
    """Show the history of an event, from the log to the end of its actions.

    It lists the place in the log, the id of the publisher's trace, the consumers that have handled it and those that have not,
    the rules that were evaluated and fired, what correlators and their timers produced, and the actions with attempts and results.

    Example: headrace trace 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f
    """
    histories: list[tuple[Target, EventHistory]] = []
    for target, conn in session.shards():
        try:
            histories += [(target, history) for history in event_history(conn, event_id, namespace=session.namespace)]
        except UnknownEvent:
            if not histories and target == session.targets[-1]:
                raise
    tables = [table for target, history in histories for table in _history_tables(target, history)]
    session.print([_history_json(target, history) for target, history in histories], *tables)


def _history_json(target: Target, history: EventHistory) -> dict[str, object]:
    facts: dict[str, object] = {"shard": target.name, **msgspec.to_builtins(history)}
    facts |= {"looks": facts.pop("evaluations"), "pushed": facts.pop("outputs")}
    actions = [{**msgspec.to_builtins(action), "state": action.state} for action in history.actions]
    return facts | {"outcome": history.outcome, "trace_id": history.trace_id, "actions": actions}


def _history_tables(target: Target, history: EventHistory) -> Iterator[Table]:
    yield facts_table(f"event {history.event_id}", target, _history_facts(history))
    if history.obstacles:
        yield table([("fails", "what"), ERROR, "failures", "retry_at"], history.obstacles)
    if history.consumers:
        error = ("error", lambda consumer: first_line(consumer.error) if consumer.state in FAILING else None)
        yield table(["consumer", ("state", _consumer_state), ("cursor at", "position"), "retry_at", error], history.consumers)
    if history.evaluations:
        answer = ("answer", lambda rule: ANSWERS[rule.answer] if rule.event_type == history.type else "another type")
        yield table([("rule evaluated", "rule"), "version", "event_type", "condition", answer, "fired"], history.evaluations)
    if history.outputs:
        by = ("by", lambda output: "timer" if output.timer else "this event")
        yield table(["correlator", "version", "key", "token", by, ("became", "name"), ("at", "fired_at")], history.outputs)
    if history.actions:
        headings = ["action", "sent by", "fired at", "state", "failed attempts", "ended at", "took (s)", "id"]
        yield table(headings, map(_action_row, history.actions))
    attempts = [attempt for action in history.actions for attempt in action.attempts]
    if attempts:
        yield table(
            [("failed action", "action"), "attempt", "failed_at", ERROR, ("followed by", "follows"), "retry_at"], attempts
        )


def _consumer_state(consumer: ConsumerProgress) -> str:
    return IDLE if consumer.state == "idle" else consumer.state


def _history_facts(history: EventHistory) -> dict[str, object]:
    fields = ("type", "key", "payload", "headers", "emitted_at", "appended_at", "producer", "outcome")
    trace = {} if history.trace_id is None else {"trace": history.trace_id}
    position = f"{history.position} (partition {history.partition})"
    return {
        "topic": f"{history.topic} (namespace {history.namespace})",
        "position": "not in the log yet" if history.position is None else position,
        **{field: getattr(history, field) for field in fields},
        **trace,
    }


def _action_row(action: ActionHistory) -> list[object]:
    firing = action.firing
    state = f"dead letter {action.dead_letter_id}" if action.state == "dead" else action.state
    end = [action.results[-1].ended_at, action.results[-1].duration_s] if action.results else [None, None]
    sender = f"{firing.rule}, version {firing.version}"
    return [firing.action, sender, firing.fired_at, state, len(action.attempts), *end, firing.action_id]


@command(group, "replay")
def replay_(
    session: Session,
    topic: TopicName,
    into: Annotated[str | None, Option(help="Topic to publish to.", show_default="the same topic")] = None,
    start: From = "earliest",
    end: To = "latest",
    types: Types = None,
    keys: Keys = None,
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


@command(group, "asyncapi")
def asyncapi(
    session: Session,
    format: Annotated[Literal["json", "yaml"], Option(help="Form of the document.")] = "json",
    output: Annotated[Path | None, Option(metavar="FILE", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Print an AsyncAPI 3 document of the namespace: topics as channels, event types as messages, with their schemas.

    Example: headrace asyncapi --format yaml --output events.yaml
    """
    with connect(session.targets[0]) as conn:
        document = describe_namespace(conn, namespace=session.namespace)
    text = json.dumps(document, indent=2, ensure_ascii=False, default=float) + "\n"
    if format == "yaml":
        import yaml

        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    elif session.json:
        session.print(json.loads(text))
    else:
        sys.stdout.write(text)
