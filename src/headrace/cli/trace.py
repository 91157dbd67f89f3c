"""`headrace trace`: the whole story of an event."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec
import typer

from headrace.cli.output import console, json_line, table, to_json
from headrace.cli.session import Session, command
from headrace.core import UnknownEvent
from headrace.db import Target
from headrace.observe import ActionHistory, EventHistory, Trace, event_history

ANSWERS = {True: "true", False: "false", None: "unknown"}


def register(app: typer.Typer) -> None:
    command(app, "trace")(trace)


def trace(
    session: Session,
    event_id: Annotated[UUID, typer.Argument(metavar="EVENT_ID", help="Id of the event.", show_default=False)],
) -> None:
    """Tell the whole story of an event: its place in the log, the rules looked at, what fired, the actions and how they ended.

    Example: headrace trace 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f
    """
    found = [(target, story) for target, stories in _stories(session, event_id) for story in stories]
    if session.json:
        json_line([_as_json(target, story) for target, story in found])
        return
    for target, story in found:
        _print(target, story)


def _stories(session: Session, event_id: UUID) -> list[tuple[Target, list[EventHistory]]]:
    """The stories of every shard that has the event; raises UnknownEvent where none has."""
    found: list[tuple[Target, list[EventHistory]]] = []
    missing: UnknownEvent | None = None
    for target, conn in session.shards():
        try:
            found.append((target, event_history(conn, event_id, namespace=session.namespace)))
        except UnknownEvent as error:
            missing = error
    if not found and missing is not None:
        raise missing
    return found


def _as_json(target: Target, story: EventHistory) -> dict[str, object]:
    told = msgspec.to_builtins(story.trace)
    actions = [{**msgspec.to_builtins(one), "state": one.state} for one in story.actions]
    return {"shard": target.name, **told, "outcome": story.trace.outcome, "actions": actions}


def _print(target: Target, story: EventHistory) -> None:
    told = story.trace
    out = console()
    out.print(table([f"event {told.event_id}", f"on {target}"], _facts(told)))
    if told.looks:
        rows = [
            [one.rule, one.version, one.event_type, one.condition, _answer(one.event_type == told.type, one.answer), one.fired]
            for one in told.looks
        ]
        out.print(table(["rule looked at", "version", "event type", "condition", "answer", "fired"], rows))
    if story.actions:
        columns = ["action", "asked for by", "fired at", "state", "failed attempts", "ended at", "took (s)", "id"]
        out.print(table(columns, [_action_row(one) for one in story.actions]))
    attempts = [attempt for action in story.actions for attempt in action.attempts]
    if attempts:
        rows = [[one.action, one.attempt, one.failed_at, one.error, one.follows, one.retry_at] for one in attempts]
        out.print(table(["failed attempt at", "attempt", "failed at", "error", "follows", "retry at"], rows))


def _facts(told: Trace) -> list[tuple[str, object]]:
    place = "not in the log yet" if told.position is None else f"{told.position} (partition {told.partition})"
    return [
        ("topic", f"{told.topic} (namespace {told.namespace})"),
        ("position", place),
        ("type", told.type),
        ("key", told.key),
        ("payload", to_json(told.payload)),
        ("headers", to_json(told.headers)),
        ("emitted at", told.emitted_at),
        ("in the log since", told.appended_at),
        ("producer", told.producer),
        ("outcome", told.outcome),
    ]


def _answer(same_type: bool, answer: bool | None) -> str:
    return ANSWERS[answer] if same_type else "another type"


def _action_row(one: ActionHistory) -> list[object]:
    firing = one.firing
    state = f"dead letter {one.dead_letter_id}" if one.state == "dead" else one.state
    ended = one.results[-1] if one.results else None
    end = [ended.ended_at, ended.duration_s] if ended else [None, None]
    asked = f"{firing.rule}, version {firing.version}"
    return [firing.action, asked, firing.fired_at, state, len(one.attempts), *end, firing.action_id]
