"""Prints the result of a corpus that was run on an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.output import table
from headrace.cli.session import Session
from headrace.core import ProblemsFound

NAMED_MAX = 5
"""The error names at most this many cases; the table lists all."""


@dataclass(frozen=True)
class Difference:
    """A case for which an engine gave another answer than expected."""

    name: str
    what: str


def print_corpus_result(session: Session, engine: str, cases: int, differ: Sequence[Difference]) -> None:
    """Prints the result; raises ProblemsFound with the names of the cases that differ."""
    tables = [table(["case", "difference"], [[case.name, case.what] for case in differ])] if differ else []
    session.print(
        {"engine": engine, "cases": cases, "as_expected": cases - len(differ), "differ": list(differ)},
        *tables,
        f"{cases} cases on engine {engine}: {cases - len(differ)} as expected, {len(differ)} differ",
    )
    if differ:
        more = f" and {len(differ) - NAMED_MAX} more" if len(differ) > NAMED_MAX else ""
        names = ", ".join(case.name for case in differ[:NAMED_MAX])
        raise ProblemsFound(f"{len(differ)} of {cases} cases differ: {names}{more}")
