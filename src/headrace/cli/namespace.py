"""`headrace namespace`: logical isolation, and which role may do what."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.session import Session, command
from headrace.namespaces import (
    Level,
    UnknownNames,
    alter_namespace,
    create_namespace,
    drop_namespace,
    grant_namespace,
    list_grants,
    list_namespaces,
    revoke_namespace,
)

group = typer.Typer(help="Namespaces: each with its own topics, rules, queue and schedules; roles act where they were let in.")

Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Name of the namespace.", show_default=False)]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database.", show_default=False)]
COMMON = ("dsn", "json")


@command(group, "list", common=COMMON)
def list_(session: Session) -> None:
    """List the namespaces one may see."""
    found = session.found(list_namespaces)
    columns = ["namespace", "topics", "roles", "unknown names", "created at"]
    session.show(columns, found, lambda one: [one.namespace, one.topics, one.roles, one.unknown_names, one.created_at])


@command(group, "create", common=COMMON)
def create(session: Session, name: Name) -> None:
    """Create a namespace with its action queue, on every shard.

    Example: headrace namespace create shop
    """
    for _, conn in session.shards():
        create_namespace(conn, name)
    session.done(f"namespace {name} created", {"namespace": name})


@command(group, "alter", common=COMMON)
def alter(
    session: Session,
    name: Name,
    unknown_names: Annotated[
        UnknownNames,
        typer.Option(help="What becomes of a rule with a name that is not registered.", show_default=False),
    ],
) -> None:
    """Change a namespace's settings, on every shard.

    Example: headrace namespace alter shop --unknown-names refuse
    """
    for _, conn in session.shards():
        alter_namespace(conn, name, unknown_names=unknown_names)
    session.done(f"namespace {name}: unknown names: {unknown_names}", {"namespace": name, "unknown_names": unknown_names})


@command(group, "grants", common=COMMON)
def grants(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="NAMESPACE", help="Only in this one.", show_default=False)] = None,
) -> None:
    """Show which role may do what."""
    found = session.found(lambda conn: list_grants(conn, namespace=name))
    columns = ["namespace", "role", "level", "granted at"]
    session.show(columns, found, lambda one: [one.namespace, one.role, one.level, one.granted_at])


@command(group, "grant", common=COMMON)
def grant(
    session: Session,
    name: Name,
    role: Role,
    level: Annotated[
        Level, typer.Argument(metavar="LEVEL", help="publish, consume, or admin (both and more).", show_default=False)
    ],
) -> None:
    """Let a role publish or consume in a namespace, or administer it, on every shard.

    Example: headrace namespace grant shop shop_app publish
    """
    for _, conn in session.shards():
        grant_namespace(conn, role, name, level)
    session.done(f"role {role} has {level} in namespace {name}", {"namespace": name, "role": role, "level": level})


@command(group, "revoke", common=COMMON)
def revoke(
    session: Session,
    name: Name,
    role: Role,
    level: Annotated[Level | None, typer.Argument(metavar="LEVEL", help="Only this level.", show_default="all levels")] = None,
) -> None:
    """Take a level, or all of them, away from a role, on every shard."""
    for _, conn in session.shards():
        revoke_namespace(conn, role, name, level)
    session.done(
        f"role {role} has lost {level or 'every level'} in namespace {name}",
        {"namespace": name, "role": role, "revoked": level or "all"},
    )


@command(group, "drop", common=COMMON)
def drop(session: Session, name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Drop a namespace that has no topics and nothing in its queue, with its grants, on every shard."""
    session.confirm(f"Drop namespace {name} with its grants?", yes=yes)
    for _, conn in session.shards():
        drop_namespace(conn, name)
    session.done(f"namespace {name} dropped", {"namespace": name})
