"""The analyses of `headrace ecl check`, each with a shortest witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headrace.lang.ecl import Pattern, StateLimitExceeded, Status, Table, liveness, overlapping_guards, triviality, vacuity
from headrace.observe.doctor import Level


@dataclass(frozen=True)
class Finding:
    """The result of one analysis."""

    check: str
    level: Level
    message: str
    witness: str | None = None


Answer = tuple[Level, str, object]
"""Level, message and witness of an analysis."""


def examine(pattern: Pattern, table: Table) -> list[Finding]:
    """Runs all analyses; one that needs too many states is reported as undecided."""
    analyses: dict[str, Callable[[], Iterable[Answer]]] = {
        "vacuity": lambda: [_vacuity(table)],
        "triviality": lambda: [_triviality(table)],
        "liveness": lambda: [_liveness(table)],
        "mode guards": lambda: _guards(pattern),
    }
    findings: list[Finding] = []
    for name, analyze in analyses.items():
        try:
            for level, message, witness in analyze():
                findings.append(Finding(name, level, message, None if witness is None else str(witness)))
        except StateLimitExceeded as error:
            findings.append(Finding(name, "info", f"undecided: {error}"))
    return findings


def _vacuity(table: Table) -> Answer:
    answer = vacuity(table)
    return ("problem", "it never produces output", None) if answer.vacuous else ("ok", "it can produce output", answer.witness)


def _triviality(table: Table) -> Answer:
    answer = triviality(table)
    if answer.trivial:
        return "warning", "it produces output on every event", None
    return "ok", "some events produce no output", answer.witness


def _liveness(table: Table) -> Answer:
    answer = liveness(table)
    if answer.live:
        return "ok", "whatever happens, output stays possible", None
    if answer.status is Status.WAITING:
        return "problem", "it can reach a state that waits forever and never produces output", answer.trap
    return "info", f"it can end, with {answer.status}; use repeat to continue", answer.trap


def _guards(pattern: Pattern) -> Iterator[Answer]:
    for overlap in overlapping_guards(pattern):
        both = f"{overlap.first} and {overlap.second} can hold on the same event"
        if overlap.decides:
            yield "warning", f"{both}; the mode that is listed first wins", overlap.witness
        else:
            yield "info", f"{both}; no third mode arms both", overlap.witness
