"""`headrace action`: actions in the queue, and the names of actions."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from headrace.actions import queue_state, send_action
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command
from headrace.db import Shards, connect, parse_interval
from headrace.definitions import list_actions, register_action, unregister_action

group = Typer(help="Actions: commands that wait in a queue until a node with a handler runs them.")

Name = Annotated[str, Argument(metavar="ACTION", help="Name of the action.", show_default=False)]


@command(group, "list")
def list_(session: Session) -> None:
    """List actions: registered ones, and names that only rules or nodes use."""
    actions = session.collect(lambda conn: list_actions(conn, namespace=session.namespace))
    session.show([("action", "name"), "registered", "rules", ("nodes that handle it", "nodes"), "description"], actions)


@command(group, "create")
def create(session: Session, name: Name, description: Annotated[str | None, Option(help="What the action does.")] = None) -> None:
    """Register the name of an action, on every shard.

    If the name is registered already, its description is replaced.

    Example: headrace action create MAIL --description 'writes to the customer'
    """
    session.on_every_shard(lambda conn: register_action(conn, name, description=description, namespace=session.namespace))
    session.done(f"action {name} registered", {"action": name})


@command(group, "drop")
def drop(session: Session, name: Name) -> None:
    """Unregister the name of an action, on every shard.

    Rules that send the action and actions in the queue stay.
    """
    session.on_every_shard(lambda conn: unregister_action(conn, name, namespace=session.namespace))
    session.done(f"action {name} is no longer registered", {"action": name})


@command(group, "send")
def send(
    session: Session,
    name: Name,
    payload: Annotated[str | None, Argument(metavar="PAYLOAD", help="JSON.", show_default="null")] = None,
    key: Annotated[str | None, Option(help="Ordered handlers keep the order of actions with the same key.")] = None,
    priority: Annotated[int, Option(help="Higher priorities are handled first.")] = 0,
    delay: Annotated[str | None, Option(help="Delay before delivery, for example '5 minutes'.")] = None,
) -> None:
    """Send an action to the queue.

    With several shards the key decides which shard gets it.

    Example: headrace action send MAIL '{"to": "ada@example.org"}' --key ada --delay '1 minute'
    """
    target = Shards(session.targets).shard_of(key) if key is not None else session.targets[0]
    with connect(target) as conn:
        wait = parse_interval(conn, delay) if delay else None
        action_id = send_action(
            conn, name, raw_json(payload), key=key, priority=priority, delay=wait, namespace=session.namespace
        )
    session.done(str(action_id), {"id": action_id, "action": name, "shard": target.name})


@command(group, "queue")
def queue(session: Session) -> None:
    """Show the state of the queue: due, in flight, delayed and dead actions."""
    states = session.collect(lambda conn: [queue_state(conn, namespace=session.namespace)])
    session.show(["due", "in_flight", "delayed", "dead", "oldest_due_s"], states)
