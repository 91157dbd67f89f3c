"""Verdicts: what a check found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

EXAMPLE_LINES_MAX = 12


@dataclass(frozen=True)
class Violation:
    """A broken promise: what, and the smallest part of the evidence that shows it."""

    what: str
    example: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """One check: how much it looked at, how many times the promise was broken, and the smallest of these."""

    check: str
    promise: str
    examined: int
    broken: int = 0
    smallest: Violation | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.broken == 0

    @property
    def word(self) -> str:
        """For people. A check that had nothing to look at has not shown anything."""
        return "BROKEN" if self.broken else "held" if self.examined else "not judged"


def join(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdicts of one check on several shards as one; the first shard's violations go without its name."""
    (_, first), *others = verdicts.items()
    found = [first.smallest] if first.smallest else []
    found += [Violation(f"on {name}: {one.smallest.what}", one.smallest.example) for name, one in others if one.smallest]
    return replace(
        first,
        examined=sum(one.examined for one in verdicts.values()),
        broken=sum(one.broken for one in verdicts.values()),
        smallest=min(found, key=lambda one: len(one.example), default=None),
    )


def judge(check: str, promise: str, examined: int, found: Iterable[Violation], note: str = "") -> Verdict:
    """The verdict on what was found; the smallest example is the one with the fewest lines, the first of those."""
    broken = 0
    smallest: Violation | None = None
    for one in found:
        broken += 1
        if smallest is None or len(one.example) < len(smallest.example):
            smallest = one
    if smallest and len(smallest.example) > EXAMPLE_LINES_MAX:
        smallest = Violation(smallest.what, (*smallest.example[:EXAMPLE_LINES_MAX], "…"))
    return Verdict(check, promise, examined, broken, smallest, note)
