"""`headrace action`: actions in the queue, and the names of actions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace import actions
from headrace.actions import ActionState, QueuedAction
from headrace.cli.options import Yes
from headrace.cli.output import Column, format_span, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import Conflict, UnknownAction, raw_json
from headrace.db import Connection, Shards, connect, parse_interval
from headrace.definitions import list_actions, register_action, unregister_action
from headrace.node import list_nodes
from headrace.observe.history import ActionOverview, action_overview

group = Typer(help="Actions: commands that wait in a queue until a node with a handler runs them.")

Name = Annotated[str, Argument(metavar="ACTION", help="Name of the action.", show_default=False)]
ActionId = Annotated[UUID, Argument(metavar="ID", help="Id of the action.", show_default=False)]
ActionIds = Annotated[list[UUID] | None, Argument(metavar="ID…", help="Ids of the actions.", show_default=False)]
OfAction = Annotated[str | None, Option("--action", help="Only of this name.")]
OfKey = Annotated[str | None, Option("--key", help="Only with this key.")]
InState = Annotated[ActionState | None, Option("--state", help="Only in this state.")]


@command(group, "list")
def list_(session: Session) -> None:
    """List the names of actions: registered ones, and those that only rules or nodes use. `queue` lists the actions themselves."""
    names = session.collect(session.bind(list_actions))
    session.show([("action", "name"), "registered", "rules", ("nodes that handle it", "nodes"), "description"], names)


@command(group, "create")
def create(session: Session, name: Name, description: Annotated[str | None, Option(help="What the action does.")] = None) -> None:
    """Register the name of an action, on every shard.

    If the name is registered already, its description is replaced.

    Example: headrace action create MAIL --description 'writes to the customer'
    """
    session.on_every_shard(session.bind(register_action, name, description=description))
    session.done(f"action {name} registered", {"action": name})


@command(group, "drop")
def drop(session: Session, name: Name) -> None:
    """Unregister the name of an action, on every shard.

    Rules that send the action and actions in the queue stay.
    """
    session.on_every_shard(session.bind(unregister_action, name))
    session.done(f"action {name} is no longer registered", {"action": name})


@command(group, "send")
def send(
    session: Session,
    name: Name,
    payload: Annotated[str | None, Argument(metavar="PAYLOAD", help="JSON.", show_default="null")] = None,
    key: Annotated[str | None, Option(help="Ordered handlers keep the order of actions with the same key.")] = None,
    priority: Annotated[int, Option(help="Higher priorities are handled first.")] = 0,
    delay: Annotated[str | None, Option(help="Delay before delivery, for example '5 minutes'.")] = None,
    unique_key: Annotated[
        str | None, Option(help="Send nothing while an action of this name with the same unique key is in the queue.")
    ] = None,
    unique_for: Annotated[str | None, Option(help="With --unique-key: nor for this long after it was sent.")] = None,
) -> None:
    """Send an action to the queue.

    With several shards the key decides which shard gets it, or else the unique key.

    Example: headrace action send MAIL '{"to": "ada@example.org"}' --key ada --delay '1 minute'
    """
    if unique_for and unique_key is None:
        raise BadParameter("say which actions are the same: add --unique-key", param_hint="--unique-for")
    shard_key = key if key is not None else unique_key
    target = Shards(session.targets).shard_of(shard_key) if shard_key is not None else session.targets[0]
    with connect(target) as conn:
        action_id = actions.send_action(
            conn,
            name,
            None if payload is None else raw_json(payload),
            key=key,
            priority=priority,
            delay=_interval(conn, delay),
            unique_key=unique_key,
            unique_for=_interval(conn, unique_for),
            namespace=session.namespace,
        )
    session.done(str(action_id), {"id": action_id, "action": name, "shard": target.name})


def _interval(conn: Connection, text: str | None) -> timedelta | None:
    return parse_interval(conn, text) if text else None


@command(group, "queue")
def queue(
    session: Session,
    action: OfAction = None,
    key: OfKey = None,
    state: InState = None,
    older_than: Annotated[str | None, Option(help="Only those sent longer ago, for example '10 minutes'.")] = None,
    limit: Annotated[int, Option("--limit", "-n", min=0, help="List at most this many per shard.")] = 20,
) -> None:
    """Show the queue: how many actions are in each state, and the oldest of them.

    due: waits for a worker. in-flight: a node holds it. retrying: it failed and waits for its next attempt. delayed: it was sent
    with a delay. held: its rule or its name is paused.

    Examples: headrace action queue --state retrying · headrace action queue --action MAIL --older-than '10 minutes'
    """
    facts: list[dict[str, object]] = []
    states, queued = [], []
    for target, conn in session.shards():
        counts = actions.queue_state(conn, namespace=session.namespace)
        found = actions.list_queued(
            conn,
            action=action,
            key=key,
            state=state,
            older_than=_interval(conn, older_than),
            limit=limit,
            namespace=session.namespace,
        )
        states.append((target, counts))
        queued += [(target, one) for one in found]
        facts.append({"shard": target.name} | msgspec.to_builtins(counts) | {"actions": msgspec.to_builtins(found)})
    if session.json:
        session.print(facts)
        return
    session.show(["due", "in_flight", "retrying", "delayed", "held", "dead", "oldest_due_s", "paused"], states)
    if queued:
        columns: list[Column] = [("id", "action_id"), "action", "key", ("state", _state), ("due", _due)]
        session.show(columns, queued)
    errors = [(target, one) for target, one in queued if one.error]
    if errors:
        session.show([("failed action", "action_id"), ("last error", lambda one: (one.error or "").splitlines()[0])], errors)


def _state(action: QueuedAction) -> str:
    return f"{action.state} {_tries(action)}" if action.attempts else action.state


def _tries(action: QueuedAction) -> str:
    return f"{action.attempts}/{action.attempts_max}" if action.attempts_max else str(action.attempts)


def _due(action: QueuedAction) -> str:
    """When the action is due, from now."""
    if action.due_at is None:
        return "paused"
    seconds = (action.due_at - datetime.now(UTC)).total_seconds()
    return f"in {format_span(seconds)}" if seconds > 0 else f"{format_span(-seconds)} ago"


@command(group, "show")
def show(session: Session, action_id: ActionId) -> None:
    """Show everything known of one action: what sent it, its failed attempts, where it ran and how it ended.

    Example: headrace action show 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f
    """

    def read(conn: Connection) -> tuple[ActionOverview, dict[UUID, str]]:
        overview = action_overview(conn, action_id, namespace=session.namespace)
        nodes = list_nodes(conn, stopped=True, namespace=session.namespace)
        return overview, {node.node_id: node.name for node in nodes}

    target, (overview, nodes) = session.find(UnknownAction, read)
    facts = {"shard": target.name} | msgspec.to_builtins(overview) | {"state": overview.state}
    parts = [facts_table(f"action {action_id}", target, _overview_facts(overview))]
    node: Column = ("node", lambda one: nodes.get(one.node_id, one.node_id))
    if overview.attempts:
        times: list[Column] = [("failed attempt", "attempt"), ("at", "failed_at"), node, ("next", "retry_at")]
        parts.append(table([*times, ("error", lambda one: one.error.splitlines()[0])], overview.attempts))
    if overview.results:
        parts.append(table(["outcome", ("at", "ended_at"), "attempts", ("took (s)", "duration_s"), node], overview.results))
    session.print(facts, *parts)


def _overview_facts(overview: ActionOverview) -> dict[str, object]:
    facts: dict[str, object] = {"action": overview.action, "state": overview.state, "sent by": _sender(overview.cause)}
    if "event_id" in overview.cause:
        facts["event"] = f"{overview.cause['event_id']} (headrace trace shows its history)"
    if queued := overview.queued:
        waits = {"tries": _tries(queued), "due": _due(queued), "error": queued.error}
        about = {"key": queued.key, "priority": queued.priority, "payload": queued.payload, "sent_at": queued.sent_at}
        facts |= about | waits | ({"producer": queued.producer} if queued.producer else {})
    if overview.dead_letter:
        facts["dead letter"] = f"{overview.dead_letter.id} (headrace dead-letter show {overview.dead_letter.id})"
    return facts


def _sender(cause: Mapping[str, object]) -> str:
    kind = cause.get("kind")
    if kind in ("rule", "correlator"):
        position = f", position {cause['position']}" if cause.get("position") else ""
        return f"{kind} {cause.get(str(kind))}, version {cause.get('version')} on {cause.get('topic')}{position}"
    return "an event" if "event_id" in cause else "a program"


@command(group, "cancel")
def cancel(
    session: Session,
    ids: ActionIds = None,
    action: OfAction = None,
    key: OfKey = None,
    state: InState = None,
    in_flight: Annotated[
        bool, Option("--in-flight", help="Also those that a node holds: their handlers' effects are rolled back.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove actions from the queue for good; they are recorded as cancelled.

    Choose them by ID, or by name, key and state. An action in flight stays, unless --in-flight.

    Examples: headrace action cancel 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f · headrace action cancel --action MAIL --state retrying
    """
    chosen = _selection(ids, action, key, state)
    if not ids:
        session.confirm("Cancel these actions?", yes=yes)
    count = sum(session.on_every_shard(session.bind(actions.cancel_actions, **chosen, in_flight=in_flight)))
    _require_all(session, ids, count, "cancel them all the same with --in-flight")
    session.done(f"{count} actions cancelled", {"cancelled": count})


@command(group, "run")
def run(session: Session, ids: ActionIds = None, action: OfAction = None, key: OfKey = None, state: InState = None) -> None:
    """Run actions now: delayed, retrying and held ones are due at once.

    Choose them by ID, or by name, key and state. An action whose name is paused still waits for `headrace resume`.

    Examples: headrace action run 0198f2a4-7c1e-7b7e-9a53-0e5d1c2b3a4f · headrace action run --action MAIL --state retrying
    """
    chosen = _selection(ids, action, key, state)
    count = sum(session.on_every_shard(session.bind(actions.run_actions_now, **chosen)))
    if ids and count < len(ids):
        _states(session, ids)
    session.done(f"{count} actions are due now", {"due": count})


@command(group, "priority")
def priority_(
    session: Session,
    priority: Annotated[int, Argument(metavar="PRIORITY", help="Higher priorities are handled first; 0 is ordinary.")],
    ids: ActionIds = None,
    action: OfAction = None,
    key: OfKey = None,
    state: InState = None,
) -> None:
    """Change the priority of actions that wait.

    Choose them by ID, or by name, key and state. An action in flight is being handled already.

    Example: headrace action priority 10 --action MAIL
    """
    chosen = _selection(ids, action, key, state)
    count = sum(session.on_every_shard(session.bind(actions.set_action_priority, priority, **chosen)))
    _require_all(session, ids, count, "a node handles them now")
    session.done(f"{count} actions have priority {priority}", {"priority": priority, "changed": count})


def _selection(ids: list[UUID] | None, action: str | None, key: str | None, state: ActionState | None) -> dict[str, Any]:
    """The chosen actions, as arguments. A command without a selection must not act on everything."""
    if bool(ids) == bool(action or key or state):
        raise BadParameter("choose actions either by ID, or by --action, --key and --state")
    return {"ids": ids or None, "action": action, "key": key, "state": state}


def _require_all(session: Session, ids: list[UUID] | None, count: int, advice: str) -> None:
    """Raises for ids that the command did not change: unknown ones, those that have ended, and those in flight."""
    if not ids or count >= len(ids):
        return
    states = _states(session, ids)
    unchanged = [f"{action_id} is {states[action_id]}" for action_id in ids if states[action_id] in _UNCHANGED]
    if unchanged:
        in_flight = f"; {advice}" if "in-flight" in states.values() else ""
        raise Conflict(f"{count} of {len(ids)} actions were changed: {', '.join(unchanged)}{in_flight}")


_UNCHANGED = ("in-flight", "done", "dead", "cancelled")


def _states(session: Session, ids: list[UUID]) -> dict[UUID, str]:
    """The states of actions, in the queue or ended; raises UnknownAction."""
    ended = session.collect(session.bind(actions.list_results, ids))
    queued = session.collect(session.bind(actions.list_queued, ids=ids, limit=None))
    states: dict[UUID, str] = {result.action_id: result.outcome for _, result in ended}
    states |= {action.action_id: action.state for _, action in queued if action.action_id}
    if missing := [str(action_id) for action_id in ids if action_id not in states]:
        raise UnknownAction(f"not in the queue: {', '.join(missing)}; see: headrace action queue")
    return states
