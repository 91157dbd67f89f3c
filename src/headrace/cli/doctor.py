"""`headrace doctor`: checks the databases and says what to do."""

from __future__ import annotations

from typer import Typer

from headrace.cli.options import Strict
from headrace.cli.output import SIGNS, table
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.observe.doctor import compare_shards, examine

group = Typer()


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
