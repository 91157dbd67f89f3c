"""`headrace consumer`: how far consumers have come, and moving them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Literal

import msgspec
import typer

from headrace.cli.output import console, json_line, note
from headrace.cli.session import Session, command
from headrace.consume import (
    Consumer,
    ConsumerLag,
    Failure,
    Seek,
    consumer_lag,
    create_consumer,
    drop_consumer,
    resume_consumer,
    seek_consumer,
)
from headrace.core import LoggedEvent, UnknownConsumer
from headrace.db import Connection, Target
from headrace.log import get_topic

group = typer.Typer(help="Consumers: named readers of a topic, each with its cursors.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.", show_default=False)]
SomeTopic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only of this topic.", show_default=False)]
SomeName = Annotated[str | None, typer.Argument(metavar="CONSUMER", help="Only this consumer.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Start = Literal["earliest", "latest"]
OrderedBy = Literal["partition", "topic"]
OnFailure = Literal["retry", "stop", "dead-letter"]


@command(group, "list")
def list_(session: Session, topic: SomeTopic = None) -> None:
    """List consumers, each with its lag over all partitions."""
    found = session.found(lambda conn: _summaries(_lags(session, conn, topic, None)))
    columns = ["topic", "consumer", "cursors", "lag (events)", "lag (s)", "state"]
    session.show(columns, found, lambda summary: list(summary.values()), facts=lambda summary: summary)


def _summaries(lags: Sequence[ConsumerLag]) -> list[dict[str, object]]:
    return [_summary(list(cursors)) for _, cursors in groupby(lags, key=lambda one: (one.topic, one.consumer))]


def _summary(cursors: Sequence[ConsumerLag]) -> dict[str, object]:
    stopped = sum(one.state == "stopped" for one in cursors)
    retrying = sum(one.retry_at is not None and one.state == "running" for one in cursors)
    states = [f"{stopped} stopped"] * bool(stopped) + [f"{retrying} retrying"] * bool(retrying)
    return {
        "topic": cursors[0].topic,
        "consumer": cursors[0].consumer,
        "cursors": len(cursors),
        "lag_events": sum(one.lag_events for one in cursors),
        "lag_s": max(one.lag_s for one in cursors),
        "state": ", ".join(states) or "running",
    }


@command(group, "lag")
def lag_(session: Session, topic: SomeTopic = None, consumer: SomeName = None) -> None:
    """Show per partition how far consumers are behind, in events and in seconds, and why one does not move."""
    found = session.found(lambda conn: _lags(session, conn, topic, consumer))
    if consumer and not found:
        raise UnknownConsumer(f"topic {topic!r} has no consumer {consumer!r}; see: headrace consumer list")
    columns = ["topic", "consumer", "partition", "position", "lag (events)", "lag (s)", "state", "attempts", "retry at", "error"]
    session.show(columns, found, _lag_row)


def _lags(session: Session, conn: Connection, topic: str | None, consumer: str | None) -> list[ConsumerLag]:
    if topic is not None:
        get_topic(conn, topic, namespace=session.namespace)  # An unknown one is an error, not an empty list.
    return consumer_lag(conn, topic=topic, consumer=consumer, namespace=session.namespace)


def _lag_row(one: ConsumerLag) -> list[object]:
    last_line = one.error.strip().rsplit("\n", 1)[-1] if one.error else None
    partition = "all" if one.partition < 0 else one.partition
    place = [one.topic, one.consumer, partition, one.position, one.lag_events, one.lag_s]
    return [*place, one.state, one.attempts, one.retry_at, last_line]


@command(group, "create")
def create(
    session: Session,
    topic: Topic,
    name: Name,
    start: Annotated[Start, typer.Option(help="Where it begins.")] = "earliest",
    ordered_by: Annotated[OrderedBy, typer.Option(help="One cursor per partition, or one over the topic.")] = "partition",
    on_failure: Annotated[OnFailure, typer.Option(help="What happens when its handler fails.")] = "retry",
    attempts: Annotated[int | None, typer.Option(help="How often an event is tried.", show_default="by policy")] = None,
) -> None:
    """Create a consumer before a node runs it, so that nothing is dropped or missed until then.

    A node that runs it later keeps its place, and sets the failure policy of its code.

    Example: headrace consumer create orders billing --start latest
    """
    described = Consumer(
        topic=topic,
        name=name,
        handler=_nobody,
        ordered_by=ordered_by,
        start=start,
        failure=_policy(on_failure, attempts),
        namespace=session.namespace,
    )
    for _, conn in session.shards():
        create_consumer(conn, described)
    session.done(f"consumer {name} of topic {topic} created", {"topic": topic, "consumer": name})


def _policy(policy: OnFailure, attempts: int | None) -> Failure:
    if policy == "stop":
        return Failure.stop()
    if policy == "retry":
        return Failure.retry(attempts=attempts)
    return Failure.dead_letter(attempts=attempts) if attempts else Failure.dead_letter()


def _nobody(_event: LoggedEvent, _conn: Connection) -> None:
    """The handler of a consumer that is only described here; a node has the real one."""


@command(group, "seek")
def seek_(
    session: Session,
    topic: Topic,
    name: Name,
    to: Annotated[
        str, typer.Argument(metavar="TO", help="earliest, latest, the position handled next, or a time.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would mean.")] = False,
    yes: Yes = False,
) -> None:
    """Move a consumer's cursors, after showing how many events that is.

    Moving back handles events again; moving forward skips them. It waits for handlers that run.

    Examples: headrace consumer seek orders billing 2026-01-31T12:00:00Z · headrace consumer seek orders billing latest --yes
    """
    preview = _seek(session, topic, name, to, preview=True)
    if dry_run:
        _print_seek(session, preview, moved=False)
        return
    if not session.json:
        _print_seek(session, preview, moved=False)
    session.confirm(f"Move consumer {name} of topic {topic}?", yes=yes)
    moved = _seek(session, topic, name, to, preview=False)
    if session.json:
        _print_seek(session, moved, moved=True)
    else:
        note(f"consumer {name} of topic {topic} moved")


def _seek(session: Session, topic: str, name: str, to: str, *, preview: bool) -> list[tuple[Target, Seek]]:
    return session.found(lambda conn: seek_consumer(conn, topic, name, to, preview=preview, namespace=session.namespace))


def _print_seek(session: Session, moves: list[tuple[Target, Seek]], *, moved: bool) -> None:
    again = sum(max(one.events, 0) for _, one in moves)
    skipped = sum(max(-one.events, 0) for _, one in moves)
    if session.json:
        partitions = [{"shard": target.name} | msgspec.to_builtins(one) for target, one in moves]
        json_line({"moved": moved, "handled_again": again, "skipped": skipped, "partitions": partitions})
        return
    columns = ["partition", "from position", "to position", "events", ""]
    session.rows(columns, ((target, _seek_row(one)) for target, one in moves))
    console().print(f"{again} events will be handled again, {skipped} skipped")


def _seek_row(one: Seek) -> list[object]:
    meaning = "handled again" if one.events > 0 else "skipped" if one.events < 0 else "stays"
    partition = "all" if one.partition < 0 else one.partition
    return [partition, one.from_position, one.to_position, abs(one.events), meaning]


@command(group, "resume")
def resume_(session: Session, topic: Topic, name: Name) -> None:
    """Let partitions that stopped, or wait for a retry, try again at once."""
    count = sum(resume_consumer(conn, topic, name, namespace=session.namespace) for _, conn in session.shards())
    session.done(f"{count} partitions of {name} go on", {"topic": topic, "consumer": name, "resumed": count})


@command(group, "drop")
def drop(session: Session, topic: Topic, name: Name, yes: Yes = False) -> None:
    """Drop a consumer with its cursors and dead letters. The events stay in the log."""
    session.confirm(f"Drop consumer {name} of topic {topic} with its place and its dead letters?", yes=yes)
    for _, conn in session.shards():
        drop_consumer(conn, topic, name, namespace=session.namespace)
    session.done(f"consumer {name} of topic {topic} dropped", {"topic": topic, "consumer": name})
