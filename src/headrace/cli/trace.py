"""`headrace trace`: the history of an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
from rich.table import Table
from typer import Argument, Typer

from headrace.cli.output import Column, first_line, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownEvent
from headrace.db import Target
from headrace.observe.history import ActionHistory, ConsumerProgress, EventHistory, event_history

group = Typer()
ERROR: Column = ("error", lambda failure: first_line(failure.error))
FAILING = ("stopped", "retrying", "waiting")
ANSWERS = {True: "true", False: "false", None: "unknown"}


@command(group, "trace")
def trace(
    session: Session,
    event_id: Annotated[UUID, Argument(metavar="EVENT_ID", help="Id of the event.", show_default=False)],
) -> None:
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
    tables = [table for target, history in histories for table in _tables(target, history)]
    session.print([_as_json(target, history) for target, history in histories], *tables)


def _as_json(target: Target, history: EventHistory) -> dict[str, object]:
    facts: dict[str, object] = {"shard": target.name, **msgspec.to_builtins(history)}
    facts |= {"looks": facts.pop("evaluations"), "pushed": facts.pop("outputs")}
    actions = [{**msgspec.to_builtins(action), "state": action.state} for action in history.actions]
    return facts | {"outcome": history.outcome, "trace_id": history.trace_id, "actions": actions}


def _tables(target: Target, history: EventHistory) -> Iterator[Table]:
    yield facts_table(f"event {history.event_id}", target, _facts(history))
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
    return "idle: no node runs it" if consumer.state == "idle" else consumer.state


def _facts(history: EventHistory) -> dict[str, object]:
    fields = ("type", "key", "payload", "headers", "emitted_at", "appended_at", "producer", "outcome")
    trace = {} if history.trace_id is None else {"trace": history.trace_id}
    return (
        {
            "topic": f"{history.topic} (namespace {history.namespace})",
            "position": "not in the log yet"
            if history.position is None
            else f"{history.position} (partition {history.partition})",
        }
        | {field: getattr(history, field) for field in fields}
        | trace
    )


def _action_row(action: ActionHistory) -> list[object]:
    firing = action.firing
    state = f"dead letter {action.dead_letter_id}" if action.state == "dead" else action.state
    end = [action.results[-1].ended_at, action.results[-1].duration_s] if action.results else [None, None]
    sender = f"{firing.rule}, version {firing.version}"
    return [firing.action, sender, firing.fired_at, state, len(action.attempts), *end, firing.action_id]
