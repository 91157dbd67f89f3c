"""`headrace topic`: create, change, list, show and drop topics; their retention."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from headrace.archive import keep_until_archived
from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session, command
from headrace.consume import ConsumerLag, consumer_lag
from headrace.core import TopicExists
from headrace.db import Target, parse_interval, parse_time
from headrace.log import (
    Clock,
    Expired,
    Topic,
    alter_topic,
    create_topic,
    drop_expired,
    drop_topic,
    get_topic,
    list_topics,
    maintain,
)
from headrace.spark.pipeline import Engine, set_engine

group = typer.Typer(help="Topics: named logs with partitions and a retention.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Width = Literal["day", "week", "month"]
Retention = Annotated[str | None, typer.Option(help="How long events are kept, such as '30 days'.", show_default="for ever")]


@command(group, "create")
def create(
    session: Session,
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Parts that are worked on side by side; a key stays in one.")
    ] = 1,
    retention: Retention = None,
    time_partition: Annotated[Width, typer.Option(help="The log is cut, and dropped, in pieces of this width.")] = "month",
    clock: Annotated[
        Clock, typer.Option(help="Whose time the log has: the server's, or that of the events themselves.")
    ] = "server",
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave one that is there as it is.")] = False,
) -> None:
    """Create a topic, on every shard.

    Example: headrace topic create orders --partitions 4 --retention '90 days'
    """
    made = []
    for target, conn in session.shards():
        kept = parse_interval(conn, retention) if retention else None
        try:
            create_topic(
                conn,
                name,
                partitions=partitions,
                retention=kept,
                time_partition=time_partition,
                clock=clock,
                namespace=session.namespace,
            )
        except TopicExists:
            if not if_not_exists:
                raise
            continue
        made.append(target.name)
    session.done(f"topic {name} created" if made else f"topic {name} was already there", {"topic": name, "created_on": made})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", help="More partitions than now.")] = None,
    retention: Annotated[str | None, typer.Option(help="Such as '30 days'; 'forever' keeps everything.")] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--no-archive", help="Retention drops only what the archive holds.")
    ] = None,
) -> None:
    """Raise the number of partitions, or change the retention, on every shard.

    Works while the topic is in use; each key keeps its order.

    Example: headrace topic alter orders --partitions 8 --retention forever
    """
    if partitions is None and retention is None and archive is None:
        raise typer.BadParameter("say what to change: --partitions, --retention or --archive")
    for _, conn in session.shards():
        kept = parse_interval(conn, "0" if retention == "forever" else retention) if retention else None
        alter_topic(conn, name, partitions=partitions, retention=kept, namespace=session.namespace)
        if archive is not None:
            keep_until_archived(conn, name, archive=archive, namespace=session.namespace)
    changed = {"topic": name, "partitions": partitions, "retention": retention, "archive": archive}
    session.done(f"topic {name} changed", changed)


@command(group, "engine")
def engine(
    session: Session,
    name: Name,
    engine: Annotated[Engine, typer.Argument(metavar="database|spark", help="Where its rules and correlators run.")],
) -> None:
    """Move the rules and correlators of a topic to another engine, on every shard, while it is in use.

    Nothing is lost or repeated, and every correlator goes on from where its keys stand. On spark they run
    where `headrace pipeline run` does.

    Example: headrace topic engine orders spark
    """
    moved = [target.name for target, conn in session.shards() if set_engine(conn, name, engine, namespace=session.namespace)]
    told = f"topic {name} runs on {engine}" if moved else f"topic {name} ran on {engine} already"
    session.done(told, {"topic": name, "engine": engine, "moved_on": moved})


@command(group, "list")
def list_(session: Session) -> None:
    """List the topics of the namespace, with how full they are."""
    found = session.found(lambda conn: list_topics(conn, namespace=session.namespace))
    columns = [
        "topic",
        "partitions",
        "events",
        "newest position",
        "in outbox",
        "consumers",
        "retention",
        "engine",
        "last event at",
    ]
    session.show(columns, found, _row, facts=_facts)


def _row(topic: Topic) -> list[object]:
    counts = [topic.partitions, topic.events, topic.last_position, topic.waiting, topic.consumers]
    return [topic.topic, *counts, topic.retention or "for ever", topic.engine, topic.last_appended_at]


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one topic and its consumers."""
    found = [
        (target, get_topic(conn, name, namespace=session.namespace), consumer_lag(conn, topic=name, namespace=session.namespace))
        for target, conn in session.shards()
    ]
    if session.json:
        json_line([{"shard": target.name} | _facts(topic) | {"cursors": cursors} for target, topic, cursors in found])
        return
    for target, topic, cursors in found:
        _print_topic(target, topic, cursors)


def _print_topic(target: Target, topic: Topic, cursors: list[ConsumerLag]) -> None:
    facts = [
        ("namespace", topic.namespace),
        ("partitions", topic.partitions),
        ("positions", f"{topic.first_position} to {topic.last_position}" if topic.events else "none yet"),
        ("events in the log", topic.events),
        ("waiting in the outbox", topic.waiting),
        ("last event at", topic.last_appended_at),
        ("retention", topic.retention or "for ever"),
        ("kept until archived", topic.archive),
        ("time partition", topic.time_partition),
        ("rules and correlators run on", topic.engine),
    ]
    console().print(table([f"topic {topic.topic}", f"on {target}"], facts))
    if cursors:
        rows = [(one.consumer, one.partition, one.position, one.lag_events, one.lag_s, one.state) for one in cursors]
        console().print(table(["consumer", "partition", "position", "lag (events)", "lag (s)", "state"], rows))


@command(group, "drop")
def drop(
    session: Session,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also when it has consumers.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop a topic with its log and what waits in its outbox, on every shard."""
    held = sum(get_topic(conn, name, namespace=session.namespace).events for _, conn in session.shards())
    session.confirm(f"Drop topic {name} with {held} events in its log?", yes=yes)
    for _, conn in session.shards():
        drop_topic(conn, name, force=force, namespace=session.namespace)
    session.done(f"topic {name} dropped", {"topic": name, "events": held})


@command(group, "maintain", common=("dsn", "json"))
def maintain_(session: Session) -> None:
    """Apply every topic's retention now, and make time partitions ahead. A running node does it by itself."""
    _print_expired(session, session.found(maintain))


@command(group, "drop-expired")
def drop_expired_(
    session: Session,
    name: Name,
    before: Annotated[str, typer.Option(help="Drop time partitions that ended before this time.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Also what a consumer has not handled yet.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask when --force is given.")] = False,
) -> None:
    """Drop a topic's old time partitions, whatever its retention says.

    What a consumer has not handled stays, unless forced.

    Example: headrace topic drop-expired orders --before 2026-01-01
    """
    if force:
        session.confirm(f"Drop events of {name} before {before}, also those a consumer has not handled?", yes=yes)
    found = []
    for target, conn in session.shards():
        expired = drop_expired(conn, name, before=parse_time(conn, before), force=force, namespace=session.namespace)
        found += [(target, one) for one in expired]
    _print_expired(session, found)


def _print_expired(session: Session, found: list[tuple[Target, Expired]]) -> None:
    if found or session.json:
        session.show(["topic", "time partition", "events", "outcome", "kept for"], found, _expired_row)
    else:
        console().print("nothing has expired")


def _expired_row(one: Expired) -> list[object]:
    return [one.topic, one.name, one.events, "dropped" if one.dropped else "kept", one.kept_for]


def _facts(topic: Topic) -> dict[str, object]:
    return {**msgspec.to_builtins(topic), "events": topic.events}
