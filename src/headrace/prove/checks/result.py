"""The result of a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

EXAMPLE_LINES_MAX = 12


@dataclass(frozen=True)
class Violation:
    """A broken promise: what happened, and the smallest part of the evidence that shows it."""

    what: str
    example: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckResult:
    """One check: how much it examined, how many violations it found, and the smallest of them."""

    check: str
    promise: str
    examined: int
    violations: int = 0
    smallest: Violation | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.violations == 0

    @property
    def label(self) -> str:
        """For people. A check that examined nothing has shown nothing."""
        return "BROKEN" if self.violations else "held" if self.examined else "not checked"


def merge_shards(results: Mapping[str, CheckResult]) -> CheckResult:
    """The results of one check on several shards as one; a violation names its shard, except on the first."""
    (_, first), *others = results.items()
    smallest = [first.smallest] if first.smallest else []
    smallest += [
        Violation(f"on {name}: {result.smallest.what}", result.smallest.example) for name, result in others if result.smallest
    ]
    return replace(
        first,
        examined=sum(result.examined for result in results.values()),
        violations=sum(result.violations for result in results.values()),
        smallest=min(smallest, key=lambda violation: len(violation.example), default=None),
    )


def check_result(check: str, promise: str, examined: int, violations: Iterable[Violation], note: str = "") -> CheckResult:
    """Counts the violations and keeps the one with the shortest example."""
    count = 0
    smallest: Violation | None = None
    for violation in violations:
        count += 1
        if smallest is None or len(violation.example) < len(smallest.example):
            smallest = violation
    if smallest and len(smallest.example) > EXAMPLE_LINES_MAX:
        smallest = Violation(smallest.what, (*smallest.example[:EXAMPLE_LINES_MAX], "…"))
    return CheckResult(check, promise, examined, count, smallest, note)
