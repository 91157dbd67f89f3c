"""A budget of work for compiling and analysing a pattern.

It counts elementary steps, not seconds, so that a pattern gets the same answer on every machine. A step takes about a
microsecond. Whoever runs many patterns in one process, as a node does, gives each a small budget and repeats what
exceeds it elsewhere."""

from __future__ import annotations

from headrace.lang.ecl.errors import StateLimitExceeded

COMPILE_STEPS_MAX = 1_500_000
ANALYSIS_STEPS_MAX = 10_000_000
"""About ten seconds: somebody waits for `headrace ecl deps` or `check`."""
_HINT = "split the pattern into several correlators, or use fewer timers and conditions side by side"


class Budget:
    """Steps that may still be spent. Raises StateLimitExceeded when they are not enough."""

    def __init__(self, allowed: int, *, what: str = "the analysis") -> None:
        self.allowed = allowed
        self.spent = 0
        self._what = what

    @property
    def left(self) -> int:
        return max(self.allowed - self.spent, 0)

    @property
    def is_exceeded(self) -> bool:
        return self.spent > self.allowed

    def spend(self, steps: int) -> None:
        self.spent += steps
        if self.spent > self.allowed:
            raise StateLimitExceeded(self._what, needed=self.spent, allowed=self.allowed, hint=_HINT, unit="steps")
