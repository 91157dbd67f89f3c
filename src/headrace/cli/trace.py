"""`headrace trace`: the history of an event."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Annotated
from uuid import UUID

import msgspec
import typer
from rich.table import Table

from headrace.cli.output import table
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownEvent
from headrace.db import Target
from headrace.observe import ActionHistory, EventHistory, RuleEvaluation, event_history


def register(app: typer.Typer) -> None:
    command(app, "trace")(trace)


def trace(
    session: Session,
    event_id: Annotated[UUID, typer.Argument(metavar="EVENT_ID", help="Id of the event.", show_default=False)],
) -> None:
    """Show the history of an event, from the log to the end of its actions.

    It lists the place in the log, the rules that were evaluated and fired, and the actions with attempts and results.

    Example: headrace trace 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f
    """
    histories = _histories(session, event_id)
    tables = [table for target, history in histories for table in _tables(target, history)]
    session.print([_as_json(target, history) for target, history in histories], *tables)


def _histories(session: Session, event_id: UUID) -> list[tuple[Target, EventHistory]]:
    """The histories on all shards that have the event; raises UnknownEvent when no shard has it."""
    histories: list[tuple[Target, EventHistory]] = []
    missing: UnknownEvent | None = None
    for target, conn in session.shards():
        try:
            histories += [(target, history) for history in event_history(conn, event_id, namespace=session.namespace)]
        except UnknownEvent as error:
            missing = error
    if not histories and missing is not None:
        raise missing
    return histories


def _as_json(target: Target, history: EventHistory) -> dict[str, object]:
    facts: dict[str, object] = {"shard": target.name, **msgspec.to_builtins(history)}
    facts |= {"looks": facts.pop("evaluations"), "pushed": facts.pop("outputs")}
    actions = [{**msgspec.to_builtins(action), "state": action.state} for action in history.actions]
    return facts | {"outcome": history.outcome, "actions": actions}


def _tables(target: Target, history: EventHistory) -> Iterator[Table]:
    yield facts_table(f"event {history.event_id}", target, _facts(history))
    if history.evaluations:
        columns = ["rule evaluated", "version", "event type", "condition", "answer", "fired"]
        yield table(columns, [_evaluation_row(history, evaluation) for evaluation in history.evaluations])
    if history.outputs:
        columns = ["correlator", "version", "key", "token", "became", "at"]
        row = attrgetter("correlator", "version", "key", "token", "name", "fired_at")
        yield table(columns, map(row, history.outputs))
    if history.actions:
        columns = ["action", "sent by", "fired at", "state", "failed attempts", "ended at", "took (s)", "id"]
        yield table(columns, map(_action_row, history.actions))
    attempts = [attempt for action in history.actions for attempt in action.attempts]
    if attempts:
        columns = ["failed action", "attempt", "failed at", "error", "followed by", "retry at"]
        row = attrgetter("action", "attempt", "failed_at", "error", "follows", "retry_at")
        yield table(columns, map(row, attempts))


def _facts(history: EventHistory) -> dict[str, object]:
    position = "not in the log yet" if history.position is None else f"{history.position} (partition {history.partition})"
    return {
        "topic": f"{history.topic} (namespace {history.namespace})",
        "position": position,
        "type": history.type,
        "key": history.key,
        "payload": history.payload,
        "headers": history.headers,
        "emitted at": history.emitted_at,
        "appended at": history.appended_at,
        "producer": history.producer,
        "outcome": history.outcome,
    }


def _evaluation_row(history: EventHistory, rule: RuleEvaluation) -> list[object]:
    answers = {True: "true", False: "false", None: "unknown"}
    answer = answers[rule.answer] if rule.event_type == history.type else "another type"
    return [rule.rule, rule.version, rule.event_type, rule.condition, answer, rule.fired]


def _action_row(action: ActionHistory) -> list[object]:
    firing = action.firing
    state = f"dead letter {action.dead_letter_id}" if action.state == "dead" else action.state
    end = [action.results[-1].ended_at, action.results[-1].duration_s] if action.results else [None, None]
    sender = f"{firing.rule}, version {firing.version}"
    return [firing.action, sender, firing.fired_at, state, len(action.attempts), *end, firing.action_id]
