"""`headrace dead-letter`: what could not be handled, of the action queue and of consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace import actions
from headrace.cli.options import Yes
from headrace.cli.output import Column, first_line
from headrace.cli.session import Session, command, facts_table
from headrace.core import Invalid, NotFound, UnknownDeadLetter, raw_json

group = Typer(help="Dead letters: actions and events that could not be handled.")

LETTER_HELP = "A number for an action, TOPIC/CONSUMER/POSITION for an event, TOPIC/CONSUMER for all events of a consumer."
Letter = Annotated[str, Argument(metavar="LETTER", help=LETTER_HELP, show_default=False)]
SomeLetters = Annotated[list[str] | None, Argument(metavar="LETTER…", help=LETTER_HELP, show_default=False)]
OfAction = Annotated[str | None, Option("--action", help="Only of this action.")]
OfConsumer = Annotated[str | None, Option("--consumer", metavar="TOPIC[/CONSUMER]", help="Only of this topic's consumers.")]
OfError = Annotated[str | None, Option("--error", help="Only actions with this kind of error, as `groups` shows it.")]
All = Annotated[bool, Option("--all", help="All of the action queue.")]

ACTION_FIELDS = ("key", "payload", "edited", "reason", "error", "error_group", "traceback", "attempts", "buried_at")
EVENT_FIELDS = (*ACTION_FIELDS[:3], "headers", "state", *ACTION_FIELDS[3:])


@command(group, "list")
def list_(
    session: Session,
    action: OfAction = None,
    consumer: OfConsumer = None,
    error: OfError = None,
    ended: Annotated[bool, Option("--ended", help="Also those redriven or discarded.")] = False,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most this many of each kind per shard.")] = 100,
) -> None:
    """List dead letters of actions and of consumers.

    They are actions that failed for good or that no node handles, and events that a consumer could not handle.
    An event with reason `behind` waits for an earlier event of its key.
    """
    letters = session.collect(
        session.bind(actions.list_dead_letters, action=action, consumer=consumer, error=error, ended=ended, limit=limit)
    )
    letters.sort(key=lambda pair: pair[1].kind)  # With several shards this puts all actions before all events.
    subject: Column = ("subject", lambda letter: f"{letter.kind} {letter.name}")
    error_line: Column = ("error", lambda letter: first_line(letter.error))
    columns = [("dead letter", "id"), subject, "key", ("reason", _reason), "attempts", ("since", "buried_at"), error_line]
    session.show(columns, letters, facts=_facts)


def _reason(letter: actions.DeadLetter) -> str:
    if letter.kind == "action":
        return f"{letter.reason}, redriven" if letter.redriven_at else letter.reason
    return letter.reason if letter.state == "dead" else letter.state


def _facts(letter: actions.DeadLetter) -> dict[str, object]:
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
    rows = session.collect(lambda conn: map(_group_facts, actions.group_dead_letters(conn, namespace=session.namespace)))
    session.show(["subject", "reason", "error", "dead", "example"], rows, facts=dict)


def _group_facts(counted: actions.DeadLetterGroup) -> dict[str, object]:
    subject = f"action {counted.name}" if counted.kind == "action" else f"events of {counted.source}"
    error, example = counted.error_group, counted.example_id
    dead = f"over {counted.dead}" if counted.is_more else counted.dead
    return {"subject": subject, "reason": counted.reason, "error": error, "dead": dead, "example": example}


@command(group, "show")
def show(session: Session, letter: Letter) -> None:
    """Show one dead letter with everything known about it.

    Examples: headrace dead-letter show 17 · headrace dead-letter show orders/billing/4711
    """
    _require_one_letter(session, letter)
    target, dead_letter = session.find(UnknownDeadLetter, session.bind(actions.get_dead_letter, letter))
    facts = {"shard": target.name} | _facts(dead_letter)
    session.print(facts, facts_table("dead letter", None, facts))


@command(group, "edit")
def edit(
    session: Session,
    letter: Letter,
    payload: Annotated[str, Argument(metavar="PAYLOAD", help="JSON.", show_default=False)],
) -> None:
    """Change the payload that a redrive will deliver. The original payload is kept, and the log with the event never changes.

    Examples: headrace dead-letter edit 17 '{"to": "ada@example.com"}' · headrace dead-letter edit orders/billing/4711 '{"total": 5}'
    """
    _require_one_letter(session, letter)
    if len(session.targets) > 1:
        raise BadParameter("each shard has events at this position; choose one shard with --dsn")
    session.on_every_shard(session.bind(actions.edit_dead_letter, letter, raw_json(payload)))
    session.done(f"dead letter {letter} changed; redrive it: headrace dead-letter redrive {letter}", {"letter": letter})


@command(group, "redrive")
def redrive_(
    session: Session, letters: SomeLetters = None, action: OfAction = None, error: OfError = None, all_: All = False
) -> None:
    """Send dead letters to their handlers again, and keep the originals. The opposite is `discard`.

    Choose them by LETTER, or actions by name or kind of error. An event is redriven with those that wait behind it, in order.

    Examples: headrace dead-letter redrive 17 18 · headrace dead-letter redrive --action MAIL ·
    headrace dead-letter redrive orders/billing
    """
    count = _act(session, actions.redrive, _selection(session, letters, action, error, all_=all_))
    session.done(f"{_letters(count)} will be handled again", {"redriven": count})


@command(group, "discard")
def discard_(
    session: Session,
    letters: SomeLetters = None,
    action: OfAction = None,
    error: OfError = None,
    all_: All = False,
    redriven: Annotated[bool, Option("--redriven", help="The originals of actions kept after a redrive.")] = False,
    yes: Yes = False,
) -> None:
    """Give up dead letters: by LETTER, or actions by name, by kind of error, or all.

    Actions are deleted for good. Events of consumers stay on record, and the events that wait behind them are handled. To give up an
    action that is still in the queue, use `headrace action cancel`.

    Examples: headrace dead-letter discard orders/billing/4711 · headrace dead-letter discard 17 --yes · headrace dead-letter discard --all --redriven
    """
    chosen = _selection(session, letters, action, error, all_=all_)
    session.confirm(f"Discard the dead letters {', '.join(letters)}?" if letters else "Discard these dead letters?", yes=yes)
    count = _act(session, actions.discard, {**chosen, "redriven": redriven})
    session.done(f"{_letters(count)} discarded", {"discarded": count})


def _check_ids(session: Session, letters: Sequence[str] | None) -> list[actions.DeadLetterId]:
    """The ids of dead letters; an invalid id is wrong usage."""
    try:
        ids = [actions.DeadLetterId.parse(letter) for letter in letters or ()]
    except Invalid as error:
        raise BadParameter(str(error)) from None
    if len(session.targets) > 1 and any(each.kind == "action" for each in ids):
        raise BadParameter("each shard numbers the dead letters of its actions; choose one shard with --dsn")
    return ids


def _require_one_letter(session: Session, letter: str) -> None:
    [letter_id] = _check_ids(session, [letter])
    if letter_id.kind == "event" and letter_id.position is None:
        raise BadParameter(f"{letter} names a consumer; add the position: {letter}/POSITION")


def _selection(
    session: Session, letters: list[str] | None, action: str | None, error: str | None, *, all_: bool
) -> dict[str, Any]:
    """The chosen dead letters, as arguments. A command without a selection must not act on everything."""
    _check_ids(session, letters)
    if sum((bool(letters), bool(action or error), all_)) != 1:
        raise BadParameter("choose dead letters by LETTER, --action, --error or --all")
    return {"ids": letters or None, "action": action, "error": error}


def _act(session: Session, act: Callable[..., int], chosen: Mapping[str, Any]) -> int:
    count = sum(session.on_every_shard(session.bind(act, **chosen)))
    if chosen["ids"] and count == 0:
        raise NotFound(f"there is no open dead letter {', '.join(chosen['ids'])}; see: headrace dead-letter list")
    return count


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"
