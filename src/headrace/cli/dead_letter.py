"""`headrace dead-letter`: what could not be handled, of the action queue and of consumers."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from headrace import actions, consume
from headrace.cli.consumer import Yes
from headrace.cli.letter import EventLetter, read_letters
from headrace.cli.output import console, json_line, shown, table, to_json
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command
from headrace.core import NotFound, UnknownConsumer, UnknownDeadLetter
from headrace.db import Connection, Target
from headrace.log import get_topic

group = typer.Typer(help="Dead letters: actions and events put aside because they could not be handled.")

LISTED = "A number names an action's dead letter, TOPIC/CONSUMER/POSITION an event's, TOPIC/CONSUMER all of a consumer."
Letter = Annotated[str, typer.Argument(metavar="LETTER", help=LISTED, show_default=False)]
SomeLetters = Annotated[list[str] | None, typer.Argument(metavar="LETTER…", help=LISTED, show_default=False)]
OfAction = Annotated[str | None, typer.Option("--action", help="Only of this action.")]
OfConsumer = Annotated[str | None, typer.Option("--consumer", metavar="TOPIC[/CONSUMER]", help="Only of this topic's consumers.")]
OfError = Annotated[str | None, typer.Option("--error", help="Only actions with this kind of error, as `groups` shows it.")]
All = Annotated[bool, typer.Option("--all", help="All of the action queue.")]


@command(group, "list")
def list_(
    session: Session,
    action: OfAction = None,
    consumer: OfConsumer = None,
    error: OfError = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also those redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many of a kind per shard.")] = 100,
) -> None:
    """List dead letters: actions that failed for good or nobody handles, and events that a consumer could not handle.

    An event `behind` another waits for that earlier event of its key.
    """
    action_letters: list[tuple[Target, actions.DeadLetter]] = []
    events: list[tuple[Target, consume.DeadLetter]] = []
    for target, conn in session.shards():
        if consumer is None:
            found = _of_actions(session, conn, action, error, ended=ended, limit=limit)
            action_letters += [(target, one) for one in found]
        if action is None and error is None:
            events += [(target, one) for one in _of_consumers(session, conn, consumer, ended=ended, limit=limit)]
    if session.json:
        json_line([_action_json(*one) for one in action_letters] + [_event_json(*one) for one in events])
        return
    columns = ["dead letter", "of", "key", "reason", "attempts", "since", "error"]
    rows = [(target, _action_row(one)) for target, one in action_letters] + [(target, _event_row(one)) for target, one in events]
    session.rows(columns, rows)


def _of_actions(
    session: Session, conn: Connection, action: str | None, error: str | None, *, ended: bool, limit: int
) -> list[actions.DeadLetter]:
    return [
        letter
        for redriven in ((False, True) if ended else (False,))
        for letter in actions.list_dead_letters(
            conn, action=action, error=error, redriven=redriven, limit=limit, namespace=session.namespace
        )
    ]


def _of_consumers(
    session: Session, conn: Connection, consumer: str | None, *, ended: bool, limit: int
) -> list[consume.DeadLetter]:
    topic, _, name = (consumer or "").partition("/")
    if topic:
        get_topic(conn, topic, namespace=session.namespace)  # An unknown one is an error, not an empty list.
    if name and not consume.consumer_lag(conn, topic=topic, consumer=name, namespace=session.namespace):
        raise UnknownConsumer(f"topic {topic!r} has no consumer {name!r}; see: headrace consumer list")
    return consume.list_dead_letters(
        conn, topic=topic or None, consumer=name or None, ended=ended, limit=limit, namespace=session.namespace
    )


def _action_row(one: actions.DeadLetter) -> list[object]:
    reason = f"{one.reason}, redriven" if one.redriven_at else one.reason
    return [str(one.dead_letter_id), f"action {one.action}", one.key, reason, one.attempts, one.buried_at, _last_line(one.error)]


def _event_row(one: consume.DeadLetter) -> list[object]:
    letter = EventLetter(one.topic, one.consumer, one.position)
    reason = one.reason if one.state == "dead" else one.state
    return [str(letter), f"event {one.type}", one.key, reason, one.attempts, one.buried_at, _last_line(one.error)]


def _last_line(error: str | None) -> str | None:
    return error.strip().rsplit("\n", 1)[-1] if error else None


def _action_json(target: Target, one: actions.DeadLetter) -> dict[str, object]:
    return {"shard": target.name, "kind": "action", "letter": str(one.dead_letter_id), **msgspec.to_builtins(one)}


def _event_json(target: Target, one: consume.DeadLetter) -> dict[str, object]:
    letter = EventLetter(one.topic, one.consumer, one.position)
    return {"shard": target.name, "kind": "event", "letter": str(letter), **msgspec.to_builtins(one)}


@command(group, "groups")
def groups(session: Session) -> None:
    """Count dead letters by what they are of, reason and kind of error, the most frequent first."""
    rows: list[tuple[Target, list[object]]] = []
    for target, conn in session.shards():
        for one in actions.group_dead_letters(conn, namespace=session.namespace):
            rows.append((target, [f"action {one.action}", one.reason, one.error_group, one.dead, str(one.example_id)]))
        rows += [(target, row) for row in _event_groups(session, conn)]
    names = ["of", "reason", "error", "dead", "example"]
    if session.json:
        json_line([{"shard": target.name} | dict(zip(names, row, strict=True)) for target, row in rows])
        return
    session.rows(names, rows)


def _event_groups(session: Session, conn: Connection) -> list[list[object]]:
    letters = consume.list_dead_letters(conn, limit=100_000, namespace=session.namespace)
    counted = Counter((f"{one.topic}/{one.consumer}", one.reason, _last_line(one.error)) for one in letters)
    example = {
        (f"{one.topic}/{one.consumer}", one.reason, _last_line(one.error)): f"{one.topic}/{one.consumer}/{one.position}"
        for one in letters
    }
    return [[f"events of {kind[0]}", *kind[1:], count, example[kind]] for kind, count in counted.most_common()]


@command(group, "show")
def show(session: Session, letter: Letter) -> None:
    """Show one dead letter with everything known about it.

    Examples: headrace dead-letter show 17 · headrace dead-letter show orders/billing/4711
    """
    named = read_letters(session, [letter])
    for target, conn in session.shards():
        found: actions.DeadLetter | consume.DeadLetter | None = (
            actions.show_dead_letter(conn, named.actions[0], namespace=session.namespace)
            if named.actions
            else _find_event(session, conn, named.events[0])
        )
        if found is not None:
            _print(session, target, found)
            return
    raise UnknownDeadLetter(f"there is no dead letter {letter}; see: headrace dead-letter list")


def _find_event(session: Session, conn: Connection, letter: EventLetter) -> consume.DeadLetter | None:
    if letter.position is None:
        raise typer.BadParameter(f"{letter} names a consumer; add the position: {letter}/POSITION")
    some = _of_consumers(session, conn, f"{letter.topic}/{letter.consumer}", ended=True, limit=100_000)
    return next((one for one in some if one.position == letter.position), None)


def _print(session: Session, target: Target, found: actions.DeadLetter | consume.DeadLetter) -> None:
    shown_as_json = _action_json(target, found) if isinstance(found, actions.DeadLetter) else _event_json(target, found)
    if session.json:
        json_line(shown_as_json)
        return
    facts = [
        (name.replace("_", " "), to_json(value) if isinstance(value, dict | list) else shown(value))
        for name, value in shown_as_json.items()
    ]
    console().print(table(["dead letter", ""], facts))


@command(group, "edit")
def edit(
    session: Session,
    letter: Letter,
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="JSON.", show_default=False)],
) -> None:
    """Change what a redrive of an action's dead letter will send. The original payload is kept.

    Example: headrace dead-letter edit 17 '{"to": "ada@example.com"}'
    """
    named = read_letters(session, [letter])
    if not named.actions:
        raise typer.BadParameter("an event is in the log and never changes; only an action's dead letter can be edited")
    for _, conn in session.shards():
        actions.edit_dead_letter(conn, named.actions[0], raw_json(payload), namespace=session.namespace)
    session.done(f"dead letter {letter} changed; redrive it: headrace dead-letter redrive {letter}", {"letter": letter})


@command(group, "redrive")
def redrive(
    session: Session, letters: SomeLetters = None, action: OfAction = None, error: OfError = None, all_: All = False
) -> None:
    """Have dead letters handled again: those named, or actions by name or kind of error. The originals are kept.

    An event is redriven with what waits behind it, in order.

    Examples: headrace dead-letter redrive 17 18 · headrace dead-letter redrive --action MAIL ·
    headrace dead-letter redrive orders/billing
    """
    named = read_letters(session, letters or [])
    _refuse_unchosen(letters, action, error, all_=all_)
    count = 0
    for _, conn in session.shards():
        if named.actions or not named.events:
            ids = named.actions or None
            count += actions.redrive(conn, ids=ids, action=action, error=error, namespace=session.namespace)
        for one in named.events:
            count += consume.redrive(conn, one.topic, one.consumer, position=one.position, namespace=session.namespace)
    _refuse_none(count, letters)
    session.done(f"{count} dead letters are tried again", {"redriven": count})


@command(group, "discard")
def discard(session: Session, letters: SomeLetters = None, yes: Yes = False) -> None:
    """Give dead letters of consumers up. They stay on record; their keys go on.

    Examples: headrace dead-letter discard orders/billing/4711 · headrace dead-letter discard orders/billing --yes
    """
    named = read_letters(session, letters or [])
    if not named.events:
        raise typer.BadParameter("name events, as TOPIC/CONSUMER or TOPIC/CONSUMER/POSITION; actions are deleted by `purge`")
    session.confirm(f"Discard the dead letters {', '.join(map(str, named.events))}?", yes=yes)
    count = sum(
        consume.discard(conn, one.topic, one.consumer, position=one.position, namespace=session.namespace)
        for _, conn in session.shards()
        for one in named.events
    )
    _refuse_none(count, letters)
    session.done(f"{count} dead letters discarded", {"discarded": count})


@command(group, "purge")
def purge(
    session: Session,
    letters: SomeLetters = None,
    action: OfAction = None,
    error: OfError = None,
    all_: All = False,
    redriven: Annotated[bool, typer.Option("--redriven", help="The originals kept after a redrive.")] = False,
    yes: Yes = False,
) -> None:
    """Delete dead letters of actions for good: those named, by action, by kind of error, or all.

    Examples: headrace dead-letter purge 17 --yes · headrace dead-letter purge --all --redriven
    """
    named = read_letters(session, letters or [])
    if named.events:
        raise typer.BadParameter("events stay in the log; give them up with `discard`")
    _refuse_unchosen(letters, action, error, all_=all_)
    session.confirm("Delete these dead letters for good?", yes=yes)
    ids = named.actions or None
    count = sum(
        actions.purge(conn, ids=ids, action=action, error=error, redriven=redriven, namespace=session.namespace)
        for _, conn in session.shards()
    )
    _refuse_none(count, letters)
    session.done(f"{count} dead letters deleted", {"purged": count})


def _refuse_unchosen(letters: list[str] | None, action: str | None, error: str | None, *, all_: bool) -> None:
    """Nothing named must not mean everything."""
    if sum((bool(letters), bool(action or error), all_)) != 1:
        raise typer.BadParameter("say which: name dead letters, or --action, or --error, or --all")


def _refuse_none(count: int, letters: list[str] | None) -> None:
    if letters and count == 0:
        raise NotFound(f"there is no open dead letter {', '.join(letters)}; see: headrace dead-letter list")
