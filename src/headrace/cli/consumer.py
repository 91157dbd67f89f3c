"""`headrace consumer`: consumers, their lag, and moving their cursors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Literal

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace import consume
from headrace.cli.options import DryRun, OptionalTopic, TopicName, Where, Yes
from headrace.cli.output import Column, console, first_line, json_line, note, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import LoggedEvent, UnknownConsumer
from headrace.db import Connection, Target
from headrace.log.topics import get_topic

group = Typer(help="Consumers: named readers of a topic, each with its cursors.")

Name = Annotated[str, Argument(metavar="CONSUMER", help="Name of the consumer.", show_default=False)]
OptionalName = Annotated[str | None, Argument(metavar="CONSUMER", help="Only this consumer.", show_default=False)]
OnePartition = Annotated[int | None, Option("--partition", min=0, help="Only this partition.", show_default=False)]
Start = Literal["earliest", "latest"]
OrderedBy = Literal["partition", "topic"]
OnFailure = Literal["retry", "stop", "dead-letter"]
IDLE = "idle: no node runs it"
STATE: Column = ("state", lambda cursor: IDLE if cursor.state == "idle" else cursor.state)
PARTITION: Column = ("partition", lambda cursor: "all" if cursor.partition < 0 else cursor.partition)


@command(group, "list")
def list_(session: Session, topic: OptionalTopic = None) -> None:
    """List consumers with their lag over all partitions."""
    summaries = session.collect(
        lambda conn: [
            _summary(list(cursors))
            for _, cursors in groupby(_lags(session, conn, topic, None), key=attrgetter("topic", "consumer"))
        ]
    )
    session.show(["topic", "consumer", "cursors", "lag_events", "lag_s", "state"], summaries, facts=dict)


def _summary(cursors: Sequence[consume.ConsumerLag]) -> dict[str, object]:
    stopped = sum(cursor.state == "stopped" for cursor in cursors)
    retrying = sum(cursor.retry_at is not None and cursor.state == "running" for cursor in cursors)
    paused = cursors[0].state == "paused"
    states = ["paused"] if paused else [f"{stopped} stopped"] * bool(stopped) + [f"{retrying} retrying"] * bool(retrying)
    states += [IDLE] * (cursors[0].nodes == 0 and not paused)
    return {
        "topic": cursors[0].topic,
        "consumer": cursors[0].consumer,
        "cursors": len(cursors),
        "lag_events": sum(cursor.lag_events for cursor in cursors),
        "lag_s": max(cursor.lag_s for cursor in cursors),
        "nodes": cursors[0].nodes,
        "state": ", ".join(states) or "running",
    }


@command(group, "lag")
def lag_(session: Session, topic: OptionalTopic = None, consumer: OptionalName = None) -> None:
    """Show the lag of consumers per partition, with state and last error."""
    lags = session.collect(lambda conn: _lags(session, conn, topic, consumer))
    if consumer and not lags:
        raise UnknownConsumer(f"topic {topic!r} has no consumer {consumer!r}; see: headrace consumer list")
    columns: list[Column] = ["topic", "consumer", PARTITION, "position", "lag_events", "lag_s", "session_limit_s"]
    session.show([*columns, STATE, "attempts", "retry_at", ("error", lambda lag: first_line(lag.error))], lags)


def _lags(session: Session, conn: Connection, topic: str | None, consumer: str | None) -> list[consume.ConsumerLag]:
    if topic is not None:
        get_topic(conn, topic, namespace=session.namespace)  # An unknown topic is an error, not an empty list.
    return consume.consumer_lag(conn, topic=topic, consumer=consumer, namespace=session.namespace)


@command(group, "create")
def create(
    session: Session,
    topic: TopicName,
    name: Name,
    start: Annotated[Start, Option(help="Where it starts.")] = "earliest",
    ordered_by: Annotated[OrderedBy, Option(help="One cursor per partition, or one for the topic.")] = "partition",
    on_failure: Annotated[OnFailure, Option(help="What happens when its handler fails.")] = "retry",
    attempts: Annotated[int | None, Option(help="Attempts per event.", show_default="set by the policy")] = None,
    where: Where = None,
) -> None:
    """Create a consumer before a node runs it, on every shard.

    From then on it misses no event, and retention keeps events for it. A node that runs it later continues at its cursor and
    sets the failure policy and the condition of its code.

    Examples: headrace consumer create orders billing --start latest ·
    headrace consumer create orders audit --where "(object -> 'total')::int > 1000"
    """
    consumer = consume.Consumer(
        topic=topic,
        name=name,
        handler=_no_handler,
        ordered_by=ordered_by,
        start=start,
        failure=_policy(on_failure, attempts),
        namespace=session.namespace,
        where=where,
    )
    session.on_every_shard(lambda conn: consume.create_consumer(conn, consumer))
    session.done(f"consumer {name} of topic {topic} created", {"topic": topic, "consumer": name})


def _policy(policy: OnFailure, attempts: int | None) -> consume.Failure:
    if policy == "stop":
        return consume.Failure.stop()
    if policy == "retry":
        return consume.Failure.retry(attempts=attempts)
    return consume.Failure.dead_letter(attempts=attempts) if attempts else consume.Failure.dead_letter()


def _no_handler(_event: LoggedEvent, _conn: Connection) -> None:
    """Stands in for the handler, which only a node has."""


@command(group, "show")
def show(session: Session, topic: TopicName, name: Name) -> None:
    """Show the settings of one consumer, the state of its condition, and its lag per partition."""
    parts, facts = [], []
    for target, conn in session.shards():
        settings = consume.get_consumer(conn, topic, name, namespace=session.namespace)
        cursors = consume.consumer_lag(conn, topic=topic, consumer=name, namespace=session.namespace)
        labels = msgspec.to_builtins(settings)
        facts.append({"shard": target.name} | labels | {"cursors": cursors})
        parts.append(facts_table(f"consumer {labels.pop('consumer')}", target, labels))
        parts.append(table([PARTITION, "position", "lag_events", "lag_s", STATE], cursors))
    session.print(facts, *parts)


@command(group, "seek")
def seek_(
    session: Session,
    topic: TopicName,
    name: Name,
    to: Annotated[str, Argument(metavar="TO", help="earliest, latest, the next position, or a time.", show_default=False)],
    partition: OnePartition = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move the cursors of a consumer, or that of one partition, after showing how many events that is.

    Moving back handles events again; moving forward skips events. It waits until running handlers have finished. Only this
    consumer is affected: `headrace replay` publishes past events again, as new events for everybody.

    Examples: headrace consumer seek orders billing 2026-01-31T12:00:00Z · headrace consumer seek orders billing latest --yes ·
    headrace consumer seek orders billing 4711 --partition 3
    """
    seek = partial(consume.seek_consumer, topic=topic, consumer=name, target=to, partition=partition, namespace=session.namespace)
    preview = session.collect(partial(seek, preview=True))
    if dry_run or not session.json:
        _print_seek(session, preview, moved=False)
    if dry_run:
        return
    session.confirm(f"Move consumer {name} of topic {topic}?", yes=yes)
    moves = session.collect(seek)
    if session.json:
        _print_seek(session, moves, moved=True)
    else:
        several = len(session.targets) > 1
        for target, move in moves:
            moved = "all" if move.partition < 0 else move.partition
            subject = f"{target.name}, partition {moved}" if several else f"partition {moved}"
            note(f"{subject}: position {move.from_position} → {move.to_position}")
        note(f"consumer {name} of topic {topic} moved")


def _print_seek(session: Session, moves: list[tuple[Target, consume.Seek]], *, moved: bool) -> None:
    again = sum(max(move.events, 0) for _, move in moves)
    skipped = sum(max(-move.events, 0) for _, move in moves)
    if session.json:
        partitions = [{"shard": target.name} | msgspec.to_builtins(move) for target, move in moves]
        json_line({"moved": moved, "handled_again": again, "skipped": skipped, "partitions": partitions})
        return
    events: Column = ("events", lambda move: abs(move.events))
    meaning: Column = ("", lambda move: "handled again" if move.events > 0 else "skipped" if move.events < 0 else "unchanged")
    session.show([PARTITION, "from_position", "to_position", events, meaning], moves)
    console().print(f"{again} events will be handled again, {skipped} skipped")


@command(group, "skip")
def skip(session: Session, topic: TopicName, name: Name, partition: OnePartition = None, yes: Yes = False) -> None:
    """Skip the event at which a partition is stuck: it becomes a dead letter, and the partition goes on.

    A partition is stuck while it has stopped, or waits for a retry. Name it if several are. Edit and redrive the dead letter
    later, or discard it.

    Example: headrace consumer skip orders billing --partition 3
    """
    if len(session.targets) > 1:
        raise BadParameter("partitions of each shard are stuck by themselves; choose one shard with --dsn")
    which = f"partition {partition}" if partition is not None else "the stuck partition"
    session.confirm(f"Move the event at which {which} of {name} is stuck to the dead letters?", yes=yes)
    [skipped] = session.on_every_shard(session.bind(consume.skip_event, topic, name, partition=partition))
    letter = f"{topic}/{name}/{skipped.position}"
    facts = {"topic": topic, "consumer": name, "letter": letter} | msgspec.to_builtins(skipped)
    session.done(f"event {skipped.position} ({skipped.type}) skipped; see: headrace dead-letter show {letter}", facts)


@command(group, "resume")
def resume_(session: Session, topic: TopicName, name: Name) -> None:
    """Let a paused consumer go on, and retry partitions that have stopped, or wait for a retry, at once."""
    count = sum(session.on_every_shard(session.bind(consume.resume_consumer, topic, name)))
    session.done(f"{count} partitions of {name} resumed", {"topic": topic, "consumer": name, "resumed": count})


@command(group, "drop")
def drop(session: Session, topic: TopicName, name: Name, yes: Yes = False) -> None:
    """Drop a consumer with its cursors and dead letters. Events stay in the log."""
    session.confirm(f"Drop consumer {name} of topic {topic} with its cursors and dead letters?", yes=yes)
    session.on_every_shard(session.bind(consume.drop_consumer, topic, name))
    session.done(f"consumer {name} of topic {topic} dropped", {"topic": topic, "consumer": name})
