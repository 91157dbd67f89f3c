"""Checks of erasures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headrace.prove.checks.result import CheckResult, Violation, check_result
from headrace.prove.evidence import Evidence


def erased_is_gone(evidence: Evidence) -> CheckResult:
    """Nothing of an erased key is left in log, outbox, queue, state or outputs, and the positions have no gap."""
    erased = evidence.erased

    def violations() -> Iterator[Violation]:
        if erased is None:
            return
        for place in erased.remains:
            yield Violation("data of an erased key is left", (place,))
        if erased.payloads:
            yield Violation("events of an erased key have a payload", (f"{erased.payloads} events",))
        for topic, positions in erased.positions.items():
            for before, after in pairwise((0, *positions)):
                if after != before + 1:
                    yield Violation("an erasure left a gap", (f"{topic}: {before}", f"{topic}: {after}"))

    examined = erased.erasures if erased else 0
    return check_result("erased-is-gone", "nothing is left of an erased key, and positions stay", examined, violations())
