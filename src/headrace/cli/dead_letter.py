"""`headrace dead-letter`: what could not be handled, of the action queue and of consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from headrace.actions import (
    DeadLetter,
    DeadLetterId,
    discard,
    edit_dead_letter,
    get_dead_letter,
    group_dead_letters,
    list_dead_letters,
    redrive,
)
from headrace.cli.options import Yes
from headrace.cli.output import console, format_value, json_line, table, to_json
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command
from headrace.core import Invalid, NotFound, UnknownDeadLetter
from headrace.db import Target

group = typer.Typer(help="Dead letters: actions and events that could not be handled.")

LETTER_HELP = "A number for an action, TOPIC/CONSUMER/POSITION for an event, TOPIC/CONSUMER for all events of a consumer."
Letter = Annotated[str, typer.Argument(metavar="LETTER", help=LETTER_HELP, show_default=False)]
SomeLetters = Annotated[list[str] | None, typer.Argument(metavar="LETTER…", help=LETTER_HELP, show_default=False)]
OfAction = Annotated[str | None, typer.Option("--action", help="Only of this action.")]
OfConsumer = Annotated[str | None, typer.Option("--consumer", metavar="TOPIC[/CONSUMER]", help="Only of this topic's consumers.")]
OfError = Annotated[str | None, typer.Option("--error", help="Only actions with this kind of error, as `groups` shows it.")]
All = Annotated[bool, typer.Option("--all", help="All of the action queue.")]

ACTION_FIELDS = ("key", "payload", "edited", "reason", "error", "error_group", "traceback", "attempts", "buried_at")
EVENT_FIELDS = ("key", "payload", "headers", "state", "reason", "error", "attempts", "buried_at")


@command(group, "list")
def list_(
    session: Session,
    action: OfAction = None,
    consumer: OfConsumer = None,
    error: OfError = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also those redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many of each kind per shard.")] = 100,
) -> None:
    """List dead letters: actions that failed for good or that no node handles, and events that a consumer could not handle.

    An event with reason `behind` waits for an earlier event of its key.
    """
    letters = session.collect(
        lambda conn: list_dead_letters(
            conn, action=action, consumer=consumer, error=error, ended=ended, limit=limit, namespace=session.namespace
        )
    )
    letters.sort(key=lambda pair: pair[1].kind)  # With several shards: all actions, then all events.
    columns = ["dead letter", "of", "key", "reason", "attempts", "since", "error"]
    session.show(columns, letters, _row, facts=_facts)


def _row(letter: DeadLetter) -> list[object]:
    reason = letter.reason
    if letter.kind == "action" and letter.redriven_at:
        reason = f"{reason}, redriven"
    elif letter.kind == "event" and letter.state != "dead":
        reason = letter.state
    error = letter.error.strip().rsplit("\n", 1)[-1] if letter.error else None
    return [letter.id, f"{letter.kind} {letter.name}", letter.key, reason, letter.attempts, letter.buried_at, error]


def _facts(letter: DeadLetter) -> dict[str, object]:
    """The JSON of a dead letter: actions and events each have their own fields."""
    values = msgspec.to_builtins(letter)
    start: dict[str, object] = {"kind": letter.kind, "letter": letter.id}
    if letter.kind == "action":
        start |= {"dead_letter_id": int(letter.id), "action_id": values["original_id"], "action": letter.name}
        return start | {field: values[field] for field in (*ACTION_FIELDS, "redriven_at", "envelope")}
    topic, _, consumer = letter.source.partition("/")
    start |= {"topic": topic, "consumer": consumer, "partition": letter.partition, "position": letter.position}
    return start | {"event_id": values["original_id"], "type": letter.name} | {field: values[field] for field in EVENT_FIELDS}


@command(group, "groups")
def groups(session: Session) -> None:
    """Count dead letters by action or consumer, reason and kind of error, the largest groups first."""
    rows: list[tuple[Target, list[object]]] = []
    for target, counted in session.collect(lambda conn: group_dead_letters(conn, namespace=session.namespace)):
        of = f"action {counted.name}" if counted.kind == "action" else f"events of {counted.source}"
        rows.append((target, [of, counted.reason, counted.error_group, counted.dead, counted.example_id]))
    names = ["of", "reason", "error", "dead", "example"]
    session.show(names, rows, lambda row: row, facts=lambda row: dict(zip(names, row, strict=True)))


@command(group, "show")
def show(session: Session, letter: Letter) -> None:
    """Show one dead letter with everything known about it.

    Examples: headrace dead-letter show 17 · headrace dead-letter show orders/billing/4711
    """
    (parsed,) = _parse(session, [letter])
    if parsed.kind == "event" and parsed.position is None:
        raise typer.BadParameter(f"{letter} names a consumer; add the position: {letter}/POSITION")
    target, dead_letter = _find(session, letter)
    facts = {"shard": target.name} | _facts(dead_letter)
    if session.json:
        json_line(facts)
        return
    rows = [
        (name.replace("_", " "), to_json(value) if isinstance(value, dict | list) else format_value(value))
        for name, value in facts.items()
    ]
    console().print(table(["dead letter", ""], rows))


def _find(session: Session, letter: str) -> tuple[Target, DeadLetter]:
    for target, conn in session.shards():
        try:
            return target, get_dead_letter(conn, letter, namespace=session.namespace)
        except UnknownDeadLetter as error:
            missing = error
    raise missing


@command(group, "edit")
def edit(
    session: Session,
    letter: Letter,
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="JSON.", show_default=False)],
) -> None:
    """Change the payload that a redrive of an action will send. The original payload is kept.

    Example: headrace dead-letter edit 17 '{"to": "ada@example.com"}'
    """
    if _kinds(session, [letter]) == {"event"}:
        raise typer.BadParameter("an event is in the log and never changes; only the dead letter of an action can be edited")
    for _, conn in session.shards():
        edit_dead_letter(conn, letter, raw_json(payload), namespace=session.namespace)
    session.done(f"dead letter {letter} changed; redrive it: headrace dead-letter redrive {letter}", {"letter": letter})


@command(group, "redrive")
def redrive_(
    session: Session, letters: SomeLetters = None, action: OfAction = None, error: OfError = None, all_: All = False
) -> None:
    """Have dead letters handled again: those named, or actions by name or kind of error. The originals are kept.

    An event is redriven with those that wait behind it, in order.

    Examples: headrace dead-letter redrive 17 18 · headrace dead-letter redrive --action MAIL ·
    headrace dead-letter redrive orders/billing
    """
    _kinds(session, letters)
    _require_selection(letters, action, error, all_=all_)
    count = sum(
        redrive(conn, letters or None, action=action, error=error, namespace=session.namespace) for _, conn in session.shards()
    )
    _require_match(count, letters)
    session.done(f"{count} dead letters will be handled again", {"redriven": count})


@command(group, "discard")
def discard_(session: Session, letters: SomeLetters = None, yes: Yes = False) -> None:
    """Give up dead letters of consumers. They stay on record, and their keys go on.

    Examples: headrace dead-letter discard orders/billing/4711 · headrace dead-letter discard orders/billing --yes
    """
    if letters is None or _kinds(session, letters) != {"event"}:
        raise typer.BadParameter("name events, as TOPIC/CONSUMER or TOPIC/CONSUMER/POSITION; delete actions with `purge`")
    session.confirm(f"Discard the dead letters {', '.join(letters)}?", yes=yes)
    count = sum(discard(conn, letters, namespace=session.namespace) for _, conn in session.shards())
    _require_match(count, letters)
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
    if "event" in _kinds(session, letters):
        raise typer.BadParameter("events stay in the log; give them up with `discard`")
    _require_selection(letters, action, error, all_=all_)
    session.confirm("Delete these dead letters for good?", yes=yes)
    count = sum(
        discard(conn, letters or None, action=action, error=error, redriven=redriven, namespace=session.namespace)
        for _, conn in session.shards()
    )
    _require_match(count, letters)
    session.done(f"{count} dead letters deleted", {"purged": count})


def _parse(session: Session, letters: Sequence[str]) -> list[DeadLetterId]:
    """Reads the ids of dead letters; an invalid one is wrong usage."""
    try:
        parsed = [DeadLetterId.parse(letter) for letter in letters]
    except Invalid as error:
        raise typer.BadParameter(str(error)) from None
    if len(session.targets) > 1 and any(letter.kind == "action" for letter in parsed):
        raise typer.BadParameter("each shard numbers the dead letters of its actions; choose one shard with --dsn")
    return parsed


def _kinds(session: Session, letters: Sequence[str] | None) -> set[str]:
    return {letter.kind for letter in _parse(session, letters or [])}


def _require_selection(letters: list[str] | None, action: str | None, error: str | None, *, all_: bool) -> None:
    """A command without a selection must not act on everything."""
    if sum((bool(letters), bool(action or error), all_)) != 1:
        raise typer.BadParameter("choose dead letters by LETTER, --action, --error or --all")


def _require_match(count: int, letters: list[str] | None) -> None:
    if letters and count == 0:
        raise NotFound(f"there is no open dead letter {', '.join(letters)}; see: headrace dead-letter list")
