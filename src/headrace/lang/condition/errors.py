"""The error of the condition language: what is wrong, where, and what is allowed."""

from __future__ import annotations

from headrace.core import Invalid

_SHOWN_CHARS = 120


class ConditionError(Invalid):
    """The text is not a condition: it does not parse, a type does not fit, or it exceeds a limit."""

    sqlstate = "HR310"

    def __init__(self, reason: str, *, line: int, column: int, excerpt: str, allowed: str) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.allowed = allowed
        super().__init__(f"condition, line {line}, column {column}: {reason}\n{excerpt}\n{allowed}")


class Diagnostic(Exception):
    """An error at a character of the text, raised where the text itself is not at hand."""

    def __init__(self, at: int, reason: str, allowed: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.allowed = allowed


def locate_error(text: str, diagnostic: Diagnostic) -> ConditionError:
    """The diagnostic with its place in the text: line, column and a caret under the character."""
    at = min(diagnostic.at, len(text))
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = at - line_start
    crop = max(0, column - _SHOWN_CHARS // 2)
    excerpt = "".join(char if char.isprintable() else "?" for char in line[crop : crop + _SHOWN_CHARS])
    return ConditionError(
        diagnostic.reason,
        line=text.count("\n", 0, at) + 1,
        column=column + 1,
        excerpt=f"  {excerpt}\n  {' ' * (column - crop)}^",
        allowed=f"allowed: {diagnostic.allowed}",
    )
