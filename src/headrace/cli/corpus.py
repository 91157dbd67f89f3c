"""A corpus that was run: what differs, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session
from headrace.core import ProblemsFound

NAMED_MAX = 5
"""So many cases are named in the last line; the table has them all."""


@dataclass(frozen=True)
class Difference:
    """A case that an engine answered otherwise than it says."""

    name: str
    what: str


def tell_corpus(session: Session, engine: str, cases: int, differ: Sequence[Difference]) -> None:
    """Prints the result; raises ProblemsFound naming the cases that differ."""
    if session.json:
        json_line({"engine": engine, "cases": cases, "as_expected": cases - len(differ), "differ": list(differ)})
    else:
        if differ:
            console().print(table(["case", "what differs"], [[one.name, one.what] for one in differ]))
        console().print(f"{cases} cases on engine {engine}: {cases - len(differ)} as expected, {len(differ)} differ")
    if differ:
        more = f" and {len(differ) - NAMED_MAX} more" if len(differ) > NAMED_MAX else ""
        raise ProblemsFound(f"{len(differ)} of {cases} cases differ: {', '.join(one.name for one in differ[:NAMED_MAX])}{more}")
