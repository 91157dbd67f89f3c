"""`headrace event-type`: the types of events that a namespace knows."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.session import Session, command
from headrace.definitions import list_event_types, register_event_type, unregister_event_type

group = typer.Typer(help="Event types a namespace knows; `namespace alter` says what becomes of rules on others.")

Name = Annotated[str, typer.Argument(metavar="TYPE", help="Event type.", show_default=False)]


@command(group, "list")
def list_(session: Session) -> None:
    """List event types: registered ones, and those that only rules name."""
    found = session.found(lambda conn: list_event_types(conn, namespace=session.namespace))
    columns = ["event type", "registered", "rules", "description"]
    session.show(columns, found, lambda one: [one.name, one.registered, one.rules, one.description])


@command(group, "create")
def create(
    session: Session,
    name: Name,
    description: Annotated[str | None, typer.Option(help="What it means.")] = None,
) -> None:
    """Register an event type, on every shard. One that is there gets the description.

    Example: headrace event-type create order.placed --description 'a customer has ordered'
    """
    for _, conn in session.shards():
        register_event_type(conn, name, description=description, namespace=session.namespace)
    session.done(f"event type {name} registered", {"event_type": name})


@command(group, "drop")
def drop(session: Session, name: Name) -> None:
    """Take an event type from the register, on every shard. Rules that name it stay."""
    for _, conn in session.shards():
        unregister_event_type(conn, name, namespace=session.namespace)
    session.done(f"event type {name} is no longer registered", {"event_type": name})
