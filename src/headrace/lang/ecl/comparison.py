"""Two patterns side by side: equivalence and containment of what they output.

Compared are outputs: on every sequence of timed events, which tokens go out, in which order and when. How the patterns
complete is told too, but does not make them different: a completed pattern is silent, and so may a waiting one be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, Edge, Space
from headrace.lang.ecl.table import Table, TableState, status_of
from headrace.lang.ecl.trace import Trace
from headrace.lang.ecl.tree import Pattern


class Relation(StrEnum):
    EQUIVALENT = "equivalent"
    A_CONTAINS_B = "a contains b"
    B_CONTAINS_A = "b contains a"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`difference` is a shortest trace on whose last input the outputs differ, with what each pushes there.

    `only_a` and `only_b` are shortest traces to an output that only one of them makes. "a contains b": whatever b
    pushes, a pushes on the same input. `status_difference` leads to where one has completed and not, or otherwise than,
    the other."""

    relation: Relation
    difference: Trace | None = None
    outputs_a: tuple[str, ...] = ()
    outputs_b: tuple[str, ...] = ()
    only_a: Trace | None = None
    only_b: Trace | None = None
    status_difference: Trace | None = None


def compare(a: Pattern | Table, b: Pattern | Table, *, limit: int = CONFIGURATIONS_MAX) -> Comparison:
    """How the outputs of two patterns relate on all timed event sequences."""
    tables = [compile(one) if isinstance(one, Pattern) else one for one in (a, b)]
    space = Space(tables, limit=limit)
    found: dict[str, tuple[int, Edge]] = {}
    for number, edge in space.walk():
        for name in _findings(space, edge):
            found.setdefault(name, (number, edge))
        if "only_a" in found and "only_b" in found:
            break

    def witness(name: str) -> Trace | None:
        return space.trace(*found[name]) if name in found else None

    outputs = found["difference"][1].tokens if "difference" in found else ((), ())
    return Comparison(
        relation=_relation("difference" in found, "only_a" in found, "only_b" in found),
        difference=witness("difference"),
        outputs_a=outputs[0],
        outputs_b=outputs[1],
        only_a=witness("only_a"),
        only_b=witness("only_b"),
        status_difference=witness("status_difference"),
    )


def _findings(space: Space, edge: Edge) -> list[str]:
    names: list[str] = []
    tokens_a, tokens_b = edge.tokens
    if tokens_a != tokens_b:
        names.append("difference")
        if Counter(tokens_a) - Counter(tokens_b):
            names.append("only_a")
        if Counter(tokens_b) - Counter(tokens_a):
            names.append("only_b")
    units = space.found[edge.target].units
    statuses = {status_of(table, TableState(own)) for table, own in zip(space.tables, units, strict=True)}
    if len(statuses) > 1:
        names.append("status_difference")
    return names


def _relation(differ: bool, only_a: bool, only_b: bool) -> Relation:
    if not differ:
        return Relation.EQUIVALENT
    if only_a == only_b:
        # Both or neither: in the latter case the same tokens go out in another order.
        return Relation.DIFFERENT
    return Relation.A_CONTAINS_B if only_a else Relation.B_CONTAINS_A
