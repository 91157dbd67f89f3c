"""Prints the result of a corpus that was run on an engine."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.cli.output import table
from headrace.cli.session import Session
from headrace.core import ProblemsFound

NAMED_MAX = 5
"""The error names at most this many cases; the table lists all."""


def print_corpus_result(session: Session, engine: str, names: Sequence[str], differences: Sequence[str | None]) -> None:
    """Prints the result of the named cases with the difference of each; raises ProblemsFound if a case differs."""
    cases = len(names)
    differ = [{"name": name, "what": what} for name, what in zip(names, differences, strict=True) if what is not None]
    tables = [table([("case", "name"), ("difference", "what")], differ)] if differ else []
    session.print(
        {"engine": engine, "cases": cases, "as_expected": cases - len(differ), "differ": differ},
        *tables,
        f"{cases} cases on engine {engine}: {cases - len(differ)} as expected, {len(differ)} differ",
    )
    if differ:
        more = f" and {len(differ) - NAMED_MAX} more" if len(differ) > NAMED_MAX else ""
        raise ProblemsFound(
            f"{len(differ)} of {cases} cases differ: {', '.join(case['name'] for case in differ[:NAMED_MAX])}{more}"
        )
