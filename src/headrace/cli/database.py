"""`headrace migrate` creates or updates the schema of headrace; `headrace doctor` checks the databases and says what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from typer import BadParameter, Option, Typer

from headrace.cli.options import Strict
from headrace.cli.output import SIGNS, json_line, say, table
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.db import RELEASE, MigrationStep, migrate, migration_script, pending_steps
from headrace.observe.doctor import compare_shards, examine

group = Typer()


@command(group, "migrate", common=("dsn", "json"))
def _migrate(
    session: Session,
    sql: Annotated[bool, Option("--sql", help="Print the SQL instead of running it.")] = False,
    check: Annotated[bool, Option("--check", help="Only look for missing steps; exit with 6 if there are any.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="List every step.")] = False,
) -> None:
    """Create or update the schema of headrace, on every shard.

    It is safe to run at any time: applied steps are not applied again, and two processes at once wait for each other.

    Examples: headrace migrate · headrace migrate -v · headrace migrate --check · headrace migrate --sql | psql mydb
    """
    if sql and check:
        raise BadParameter("use either --sql or --check")
    if sql:
        _print_script(session)
    elif check:
        missing = {target.name: pending_steps(conn) for target, conn in session.shards()}
        _print_steps(session, missing, "missing", verbose=verbose)
        if any(missing.values()):
            shards = ", ".join(shard for shard, steps in missing.items() if steps)
            raise ProblemsFound(f"{sum(map(len, missing.values()))} steps are missing on {shards}; run: headrace migrate")
    else:
        applied = {target.name: migrate(conn) for target, conn in session.shards()}
        _print_steps(session, applied, "applied", verbose=verbose)


def _print_script(session: Session) -> None:
    scripts = {target: migration_script(conn) for target, conn in session.shards()}
    if session.json:
        json_line([{"shard": target.name, "sql": script} for target, script in scripts.items()])
        return
    for target, script in scripts.items():
        if len(scripts) > 1:
            say(f"-- For {target}:")
        say(script)


def _print_steps(session: Session, steps: Mapping[str, Sequence[MigrationStep]], verb: str, *, verbose: bool) -> None:
    """One line for a database; before it, if asked for, one for every step."""
    names = {shard: [step.name for step in of_shard] for shard, of_shard in steps.items()}
    lines: list[str] = []
    for shard, of_shard in names.items():
        count = f"{len(of_shard)} step{'s' if len(of_shard) > 1 else ''}"
        summary = f"migrated, {count}, release {RELEASE}" if verb == "applied" else f"{count} missing"
        lines += [f"{verb} {name}" for name in of_shard if verbose]
        lines.append(f"database {shard}: {summary if of_shard else f'up to date, release {RELEASE}'}")
    session.print([{"shard": shard, verb: of_shard} for shard, of_shard in names.items()], *lines)


@command(group, "doctor", common=("dsn", "json"))
def doctor(session: Session, strict: Strict = False) -> None:
    """Check every shard and report problems, with what to do about them.

    ✓ is fine, · is information, ! is a warning, ✗ is a problem. It only reads. The exit code is 6 when there is a problem.
    """
    checks = [check for target in session.targets for check in examine(target)] + compare_shards(session.targets)
    rows = [[check.shard, SIGNS[check.level], check.check, check.message, check.advice or ""] for check in checks]
    columns = ["shard", "", "check", "result", "what to do"]
    first = 0 if len(session.targets) > 1 else 1
    session.print(checks, table(columns[first:], [row[first:] for row in rows]))
    counted = ("problem", "warning") if strict else ("problem",)
    if failed := [check.check for check in checks if check.level in counted]:
        raise ProblemsFound(f"{len(failed)} findings: {', '.join(sorted(set(failed)))}")
