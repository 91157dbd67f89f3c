"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from headrace.prove.evidence import Evidence

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


Findings: TypeAlias = Generator[Violation, None, int]
"""What a check yields and returns: the violations, and how much it examined."""


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


def check_result(check: str, promise: str, examined: int, violations: Sequence[Violation], note: str = "") -> CheckResult:
    """Counts the violations and keeps the one with the shortest example."""
    smallest = min(violations, key=lambda violation: len(violation.example), default=None)
    if smallest and len(smallest.example) > EXAMPLE_LINES_MAX:
        smallest = Violation(smallest.what, (*smallest.example[:EXAMPLE_LINES_MAX], "…"))
    return CheckResult(check, promise, examined, len(violations), smallest, note)


@dataclass(frozen=True)
class Check:
    """A check of a promise. Its name is that of the generator that finds the violations."""

    promise: str
    find: Callable[[Evidence], Findings]

    def __call__(self, evidence: Evidence) -> CheckResult:
        violations: list[Violation] = []
        findings = self.find(evidence)
        while True:
            try:
                violations.append(next(findings))
            except StopIteration as end:
                return check_result(self.find.__name__.replace("_", "-"), self.promise, end.value, violations)


def check(promise: str) -> Callable[[Callable[[Evidence], Findings]], Check]:
    """Makes a check of a promise from a generator."""
    return partial(Check, promise)
