"""`headrace doctor`: what is wrong, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session, command
from headrace.cli.signs import SIGNS
from headrace.core import ProblemsFound
from headrace.observe import Check, compare_shards, examine


def register(app: typer.Typer) -> None:
    command(app, "doctor", common=("dsn", "json"))(doctor)


def doctor(
    session: Session,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as problems too.")] = False,
) -> None:
    """Look every shard over: ✓ fine, ! should be looked at, ✗ wrong. Exit code 6 when something is wrong.

    It only reads, and says for each finding what to do.
    """
    found = [check for target in session.targets for check in examine(target)]
    found += compare_shards(session.targets)
    if session.json:
        json_line(found)
    else:
        _print(session, found)
    counted = ("problem", "warning") if strict else ("problem",)
    if wrong := [check for check in found if check.level in counted]:
        raise ProblemsFound(f"{len(wrong)} findings: {', '.join(sorted({check.check for check in wrong}))}")


def _print(session: Session, found: list[Check]) -> None:
    several = len(session.targets) > 1
    rows = [
        [*([check.shard] if several else []), SIGNS[check.level], check.check, check.message, check.advice or ""]
        for check in found
    ]
    console().print(table([*(["shard"] if several else []), "", "check", "found", "what to do"], rows))
