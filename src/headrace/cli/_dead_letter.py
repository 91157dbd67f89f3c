"""`headrace dead-letter`: events a consumer could not handle."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from headrace.cli._consumer import Name, SomeName, SomeTopic, Topic, Yes
from headrace.cli._output import json_line
from headrace.cli._session import Session, command
from headrace.consume import DeadLetter, discard, list_dead_letters, redrive
from headrace.core import NotFound
from headrace.log import get_topic

group = typer.Typer(help="Dead letters: events put aside because their handler failed.")

Position = Annotated[int | None, typer.Option("--position", help="Only the one at this position.", show_default="all")]


@command(group, "list")
def list_(
    session: Session,
    topic: SomeTopic = None,
    consumer: SomeName = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also those redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many per shard.")] = 100,
) -> None:
    """List dead letters: `dead` could not be handled, `behind` waits for an earlier event of its key."""
    found = []
    for target, conn in session.shards():
        if topic is not None:
            get_topic(conn, topic, namespace=session.namespace)  # An unknown one is an error, not an empty list.
        given = {"topic": topic, "consumer": consumer, "namespace": session.namespace}
        found += [(target, letter) for letter in list_dead_letters(conn, ended=ended, limit=limit, **given)]
    if session.json:
        json_line([{"shard": target.name} | _as_json(letter) for target, letter in found])
        return
    columns = ["topic", "consumer", "position", "type", "key", "state", "attempts", "since", "error"]
    session.rows(columns, ((target, _row(letter)) for target, letter in found))


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(letter)
    return shown


def _row(letter: DeadLetter) -> list[object]:
    last_line = letter.error.strip().rsplit("\n", 1)[-1] if letter.error else letter.reason
    place = [letter.topic, letter.consumer, letter.position, letter.type, letter.key]
    return [*place, letter.state, letter.attempts, letter.buried_at, last_line]


@command(group, "redrive")
def redrive_(session: Session, topic: Topic, consumer: Name, position: Position = None) -> None:
    """Have dead letters handled again, in order: all, or one with what waits behind it.

    Example: headrace dead-letter redrive orders billing --position 4711
    """
    count = sum(redrive(conn, topic, consumer, position=position, namespace=session.namespace) for _, conn in session.shards())
    _refuse_none(count, topic, consumer, position)
    session.done(f"{count} dead letters are tried again", {"topic": topic, "consumer": consumer, "redriven": count})


@command(group, "discard")
def discard_(session: Session, topic: Topic, consumer: Name, position: Position = None, yes: Yes = False) -> None:
    """Give dead letters up: all, or one. They stay on record."""
    what = "all dead letters" if position is None else f"the dead letter at position {position}"
    session.confirm(f"Discard {what} of consumer {consumer} of topic {topic}?", yes=yes)
    count = sum(discard(conn, topic, consumer, position=position, namespace=session.namespace) for _, conn in session.shards())
    _refuse_none(count, topic, consumer, position)
    session.done(f"{count} dead letters discarded", {"topic": topic, "consumer": consumer, "discarded": count})


def _refuse_none(count: int, topic: str, consumer: str, position: int | None) -> None:
    if position is not None and count == 0:
        raise NotFound(
            f"consumer {consumer!r} of topic {topic!r} has no open dead letter at position {position}; "
            "see: headrace dead-letter list"
        )
