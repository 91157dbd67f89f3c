"""`headrace event-type`: the event types that a namespace knows."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from headrace.cli.session import Session, command
from headrace.definitions import list_event_types, register_event_type, unregister_event_type

group = Typer(help="Event types: the names of events that a namespace knows.")

Name = Annotated[str, Argument(metavar="TYPE", help="Event type.", show_default=False)]


@command(group, "list")
def list_(session: Session) -> None:
    """List event types: registered ones, and names that only rules use."""
    types = session.collect(lambda conn: list_event_types(conn, namespace=session.namespace))
    session.show([("event type", "name"), "registered", "rules", "description"], types)


@command(group, "create")
def create(session: Session, name: Name, description: Annotated[str | None, Option(help="What the event means.")] = None) -> None:
    """Register an event type, on every shard.

    If the type is registered already, its description is replaced. `headrace namespace alter` sets what happens to rules with
    names that are not registered.

    Example: headrace event-type create order.placed --description 'a customer has ordered'
    """
    session.on_every_shard(lambda conn: register_event_type(conn, name, description=description, namespace=session.namespace))
    session.done(f"event type {name} registered", {"event_type": name})


@command(group, "drop")
def drop(session: Session, name: Name) -> None:
    """Unregister an event type, on every shard. Rules that use it stay."""
    session.on_every_shard(lambda conn: unregister_event_type(conn, name, namespace=session.namespace))
    session.done(f"event type {name} is no longer registered", {"event_type": name})
