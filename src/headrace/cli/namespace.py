"""`headrace namespace`: namespaces, and which role may do what in them."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from headrace import db as namespaces
from headrace.cli.options import Yes
from headrace.cli.session import Changes, Session, command

group = Typer(help="Namespaces: separate topics, rules, queues and schedules, with grants for roles.")

Name = Annotated[str, Argument(metavar="NAMESPACE", help="Name of the namespace.", show_default=False)]
Role = Annotated[str, Argument(metavar="ROLE", help="Database role.", show_default=False)]
COMMON = ("dsn", "json")


@command(group, "list", common=COMMON)
def list_(session: Session) -> None:
    """List the namespaces that your role may see."""
    columns = ["namespace", "topics", "roles", "unknown_names", "created_at"]
    session.show(columns, session.collect(namespaces.list_namespaces))


@command(group, "create", common=COMMON)
def create(session: Session, name: Name) -> None:
    """Create a namespace with its action queue, on every shard.

    Example: headrace namespace create shop
    """
    session.on_every_shard(lambda conn: namespaces.create_namespace(conn, name))
    session.done(f"namespace {name} created", {"namespace": name})


@command(group, "alter", common=COMMON)
def alter(
    session: Session,
    name: Name,
    unknown_names: Annotated[
        namespaces.UnknownNames,
        Option(help="What to do with a rule that uses a name that is not registered.", show_default=False),
    ],
) -> None:
    """Change the settings of a namespace, on every shard.

    Example: headrace namespace alter shop --unknown-names refuse
    """
    changes = Changes(session)
    for target, conn in session.shards():
        before = [row for row in namespaces.list_namespaces(conn) if row.namespace == name]
        namespaces.alter_namespace(conn, name, unknown_names=unknown_names)
        old = {"unknown_names": before[0].unknown_names} if before else {}
        changes.add(target, old, {"unknown_names": unknown_names})
    changes.done(f"namespace {name} changed", {"namespace": name, "unknown_names": unknown_names})


@command(group, "grants", common=COMMON)
def grants(
    session: Session,
    name: Annotated[str | None, Argument(metavar="NAMESPACE", help="Only this namespace.", show_default=False)] = None,
) -> None:
    """List the grants: which role may do what."""
    rows = session.collect(lambda conn: namespaces.list_grants(conn, namespace=name))
    session.show(["namespace", "role", "level", "granted_at"], rows)


@command(group, "grant", common=COMMON)
def grant(
    session: Session,
    name: Name,
    role: Role,
    level: Annotated[namespaces.Level, Argument(metavar="LEVEL", help="publish, consume, work or admin.", show_default=False)],
) -> None:
    """Allow a role to publish, consume, work or administer, on every shard. work includes consume; admin includes all.

    Example: headrace namespace grant shop shop_app publish
    """
    session.on_every_shard(lambda conn: namespaces.grant_namespace(conn, role, name, level))
    session.done(f"role {role} now has {level} in namespace {name}", {"namespace": name, "role": role, "level": level})


@command(group, "revoke", common=COMMON)
def revoke(
    session: Session,
    name: Name,
    role: Role,
    level: Annotated[namespaces.Level | None, Argument(metavar="LEVEL", help="Only this level.", show_default="all")] = None,
) -> None:
    """Revoke one level or all levels of a role, on every shard."""
    session.on_every_shard(lambda conn: namespaces.revoke_namespace(conn, role, name, level))
    message = f"role {role} no longer has {level or 'any level'} in namespace {name}"
    session.done(message, {"namespace": name, "role": role, "revoked": level or "all"})


@command(group, "drop", common=COMMON)
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop an empty namespace with its grants, on every shard.

    A namespace is empty when it has no topics and its queue holds nothing.
    """
    session.confirm(f"Drop namespace {name} with its grants?", yes=yes)
    session.on_every_shard(lambda conn: namespaces.drop_namespace(conn, name))
    session.done(f"namespace {name} dropped", {"namespace": name})
