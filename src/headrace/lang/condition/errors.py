"""The error of the condition language: what is wrong, where, and what is allowed."""

from __future__ import annotations

from headrace.core import Invalid

_SHOWN_CHARS = 120


class ConditionError(Invalid):
    """The text is not a condition: it does not parse, a type does not fit, or it passes a limit."""

    sqlstate = "HR310"

    def __init__(self, reason: str, *, line: int, column: int, shown: str, allowed: str) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.allowed = allowed
        super().__init__(f"condition, line {line}, column {column}: {reason}\n{shown}\n{allowed}")


class Mistake(Exception):
    """A fault found at a place in the text, before the text itself is known to the finder."""

    def __init__(self, at: int, reason: str, allowed: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.allowed = allowed


def error_in(text: str, mistake: Mistake) -> ConditionError:
    """The mistake with its place in the text: line, column and a caret under the character."""
    at = min(mistake.at, len(text))
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = at - line_start
    crop = max(0, column - _SHOWN_CHARS // 2)
    shown = "".join(c if c.isprintable() else "?" for c in line[crop : crop + _SHOWN_CHARS])
    return ConditionError(
        mistake.reason,
        line=text.count("\n", 0, at) + 1,
        column=column + 1,
        shown=f"  {shown}\n  {' ' * (column - crop)}^",
        allowed=f"allowed: {mistake.allowed}",
    )
