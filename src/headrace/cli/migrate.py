"""`headrace migrate`: brings the databases to the schema of this version."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.output import json_line, say
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.db import MigrationStep, migrate, migration_script, pending_steps


def register(app: typer.Typer) -> None:
    command(app, "migrate", common=("dsn", "json"))(_migrate)


def _migrate(
    session: Session,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL that would run, and run nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only say what is missing; exit code 6 when something is.")] = False,
) -> None:
    """Create or update the schema headrace, on every shard.

    Safe to call at any time: what was applied is not applied again, and two at once wait for each other.

    Examples: headrace migrate · headrace migrate --check · headrace migrate --sql | psql mydb
    """
    if sql and check:
        raise typer.BadParameter("use one of --sql and --check")
    if sql:
        _print_script(session)
    elif check:
        _check(session)
    else:
        _print_steps(session, {target.name: migrate(conn) for target, conn in session.shards()}, "applied", "already up to date")


def _print_script(session: Session) -> None:
    scripts = {target: migration_script(conn) for target, conn in session.shards()}
    if session.json:
        json_line([{"shard": target.name, "sql": script} for target, script in scripts.items()])
        return
    for target, script in scripts.items():
        if len(scripts) > 1:
            say(f"-- For {target}:")
        say(script)


def _check(session: Session) -> None:
    missing = {target.name: pending_steps(conn) for target, conn in session.shards()}
    _print_steps(session, missing, "missing", "up to date")
    if any(missing.values()):
        shards = ", ".join(shard for shard, steps in missing.items() if steps)
        raise ProblemsFound(f"{sum(map(len, missing.values()))} steps are missing on {shards}; run: headrace migrate")


def _print_steps(session: Session, steps: dict[str, list[MigrationStep]], verb: str, none: str) -> None:
    if session.json:
        json_line([{"shard": shard, verb: [step.name for step in listed]} for shard, listed in steps.items()])
        return
    for shard, listed in steps.items():
        for step in listed:
            say(f"{shard}: {verb} {step.name}")
        if not listed:
            say(f"{shard}: {none}")
