"""`headrace action`: commands that wait in a namespace's queue, and their names."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.actions import queue_state, send_action
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command
from headrace.db import Shards, connect, parse_interval
from headrace.definitions import list_actions, register_action, unregister_action

group = typer.Typer(help="Actions: commands to do, which nodes with a handler carry out.")

Name = Annotated[str, typer.Argument(metavar="ACTION", help="Name of the action.", show_default=False)]


@command(group, "list")
def list_(session: Session) -> None:
    """List actions: registered ones, and those that only rules name or only nodes handle."""
    found = session.found(lambda conn: list_actions(conn, namespace=session.namespace))
    columns = ["action", "registered", "rules", "nodes that handle it", "description"]
    session.show(columns, found, lambda one: [one.name, one.registered, one.rules, one.nodes, one.description])


@command(group, "create")
def create(
    session: Session,
    name: Name,
    description: Annotated[str | None, typer.Option(help="What it does.")] = None,
) -> None:
    """Register an action's name, on every shard. One that is there gets the description.

    Example: headrace action create MAIL --description 'writes to the customer'
    """
    for _, conn in session.shards():
        register_action(conn, name, description=description, namespace=session.namespace)
    session.done(f"action {name} registered", {"action": name})


@command(group, "drop")
def drop(session: Session, name: Name) -> None:
    """Take an action's name from the register, on every shard. Rules that send it stay, and so does what waits."""
    for _, conn in session.shards():
        unregister_action(conn, name, namespace=session.namespace)
    session.done(f"action {name} is no longer registered", {"action": name})


@command(group, "send")
def send(
    session: Session,
    name: Name,
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON.", show_default="null")] = None,
    key: Annotated[str | None, typer.Option(help="Handlers that ask for order keep it per key.")] = None,
    priority: Annotated[int, typer.Option(help="Higher is handled first.")] = 0,
    delay: Annotated[str | None, typer.Option(help="Not before so long, such as '5 minutes'.")] = None,
) -> None:
    """Send an action to the queue. With several shards its key decides where.

    Example: headrace action send MAIL '{"to": "ada@example.org"}' --key ada --delay '1 minute'
    """
    target = Shards(session.targets).shard_of(key) if key is not None else session.targets[0]
    with connect(target) as conn:
        wait = parse_interval(conn, delay) if delay else None
        sent = send_action(conn, name, raw_json(payload), key=key, priority=priority, delay=wait, namespace=session.namespace)
    session.done(str(sent), {"id": sent, "action": name, "shard": target.name})


@command(group, "queue")
def queue(session: Session) -> None:
    """Show how full the namespace's queue is: due, in flight, delayed, dead, and how long the oldest due one waits."""
    found = session.found(lambda conn: [queue_state(conn, namespace=session.namespace)])
    columns = ["due", "in flight", "delayed", "dead", "oldest due (s)"]
    session.show(columns, found, lambda one: [one.due, one.in_flight, one.delayed, one.dead, one.oldest_due_s])
