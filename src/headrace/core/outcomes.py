"""Outcomes that a handler may choose by raising them: retry later, discard, bury. Whatever the handler has written is rolled back."""

from __future__ import annotations

from headrace.core.errors import Invalid

AFTER_S_MAX = 31_536_000
"""A year, as for every pause between attempts."""


class HandlerOutcome(Exception):
    """Base of the outcomes. They are no errors of headrace: the handler decides, and its effects are rolled back."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Retry(HandlerOutcome):
    """Try again after `after_s` seconds, or after the policy's own pause. It counts as an attempt; after the last one the policy
    decides as for any error."""

    def __init__(self, reason: str = "", *, after_s: float | None = None) -> None:
        if after_s is not None and not 0 <= after_s <= AFTER_S_MAX:
            raise Invalid(f"Retry(after_s={after_s}): give a pause of 0 to {AFTER_S_MAX} seconds")
        super().__init__(reason)
        self.after_s = after_s


class Discard(HandlerOutcome):
    """Give the action or event up: it is recorded as discarded, and never handled again."""


class Bury(HandlerOutcome):
    """Move the action or event to the dead letters at once, whatever the policy says."""
