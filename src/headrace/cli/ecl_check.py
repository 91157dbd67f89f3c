"""The analyses of `headrace ecl check`, each with a shortest witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.lang.ecl import Pattern, StateLimitExceeded, Status, Table, liveness, overlapping_guards, triviality, vacuity
from headrace.observe import Level


@dataclass(frozen=True)
class Finding:
    """The result of one analysis."""

    check: str
    level: Level
    message: str
    witness: str | None = None


def examine(pattern: Pattern, table: Table) -> list[Finding]:
    """Runs all analyses; one that needs too many states is reported as undecided."""
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "vacuity": lambda: _vacuity(table),
        "triviality": lambda: _triviality(table),
        "liveness": lambda: _liveness(table),
        "mode guards": lambda: _guards(pattern),
    }
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            findings += check()
        except StateLimitExceeded as error:
            findings.append(Finding(name, "info", f"undecided: {error}"))
    return findings


def _vacuity(table: Table) -> Iterator[Finding]:
    answer = vacuity(table)
    if answer.vacuous:
        yield Finding("vacuity", "problem", "it never produces output")
    else:
        yield Finding("vacuity", "ok", "it can produce output", str(answer.witness))


def _triviality(table: Table) -> Iterator[Finding]:
    answer = triviality(table)
    if answer.trivial:
        yield Finding("triviality", "warning", "it produces output on every event")
    else:
        yield Finding("triviality", "ok", "some events produce no output", str(answer.witness))


def _liveness(table: Table) -> Iterator[Finding]:
    answer = liveness(table)
    if answer.live:
        yield Finding("liveness", "ok", "whatever happens, output stays possible")
    elif answer.status is Status.WAITING:
        yield Finding(
            "liveness", "problem", "it can reach a state that waits forever and never produces output", str(answer.trap)
        )
    else:
        yield Finding("liveness", "info", f"it can end, with {answer.status}; use repeat to continue", str(answer.trap))


def _guards(pattern: Pattern) -> Iterator[Finding]:
    for overlap in overlapping_guards(pattern):
        both = f"{overlap.first} and {overlap.second} can hold on the same event"
        consequence = "; the mode that is listed first wins" if overlap.decides else "; no third mode arms both"
        level: Level = "warning" if overlap.decides else "info"
        yield Finding("mode guards", level, both + consequence, str(overlap.witness))
