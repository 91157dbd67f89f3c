"""What `ecl check` finds: the analyses of a pattern, each with a shortest witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.lang.ecl import Pattern, StateLimitExceeded, Status, Table, liveness, overlapping_guards, triviality, vacuity
from headrace.observe import Level


@dataclass(frozen=True)
class Finding:
    """One answer about a pattern."""

    check: str
    level: Level
    message: str
    witness: str | None = None


def examine(pattern: Pattern, table: Table) -> list[Finding]:
    """All analyses; one that would need too many states says so, and the others go on."""
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "vacuity": lambda: _vacuity(table),
        "triviality": lambda: _triviality(table),
        "liveness": lambda: _liveness(table),
        "mode guards": lambda: _guards(pattern),
    }
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += check()
        except StateLimitExceeded as error:
            found.append(Finding(name, "info", f"not decided: {error}"))
    return found


def _vacuity(table: Table) -> Iterator[Finding]:
    answer = vacuity(table)
    if answer.vacuous:
        yield Finding("vacuity", "problem", "it never outputs anything")
    else:
        yield Finding("vacuity", "ok", "it can output", str(answer.witness))


def _triviality(table: Table) -> Iterator[Finding]:
    answer = triviality(table)
    if answer.trivial:
        yield Finding("triviality", "warning", "it outputs on every event, whatever that is")
    else:
        yield Finding("triviality", "ok", "there are events without an output", str(answer.witness))


def _liveness(table: Table) -> Iterator[Finding]:
    answer = liveness(table)
    if answer.live:
        yield Finding("liveness", "ok", "whatever happens, some output stays possible")
    elif answer.status is Status.WAITING:
        yield Finding("liveness", "problem", "it can get to where it waits in vain: no output can follow", str(answer.trap))
    else:
        yield Finding("liveness", "info", f"it can end, with {answer.status}; write repeat to go on", str(answer.trap))


def _guards(pattern: Pattern) -> Iterator[Finding]:
    for overlap in overlapping_guards(pattern):
        both = f"{overlap.first} and {overlap.second} can hold on one event"
        decides = "; the first listed mode wins" if overlap.decides else "; no third mode arms both"
        level: Level = "warning" if overlap.decides else "info"
        yield Finding("mode guards", level, both + decides, str(overlap.witness))
