"""What can be wrong with a pattern. Every message names the numbers and says what to do."""

from __future__ import annotations

from headrace.core import HeadraceError, Invalid


class PatternError(Invalid):
    """The text is not an ECL pattern, or is larger than a limit allows.

    `line` and `column` count from one; `hint` says what was expected or probably meant."""

    sqlstate = "HR320"

    def __init__(self, problem: str, *, text: str = "", line: int = 1, column: int = 1, hint: str = "") -> None:
        self.problem = problem
        self.line = line
        self.column = column
        self.hint = hint
        super().__init__(_layout(problem, text, line, column, hint))


class StateLimitExceeded(Invalid):
    """Compiling or analysing the pattern needs more states, or more steps between them, than allowed."""

    sqlstate = "HR321"

    def __init__(self, what: str, *, needed: int, allowed: int, hint: str, unit: str = "states") -> None:
        self.needed = needed
        self.allowed = allowed
        super().__init__(f"{what} needs at least {needed} {unit}, allowed are {allowed}; {hint}")


class TableError(Invalid):
    """The JSON is not a compiled table of a version this code reads."""

    sqlstate = "HR322"


class TimerFlood(HeadraceError):
    """One advance of time would fire more timers than allowed in one call; advance in smaller spans."""

    sqlstate = "HR323"


class CorpusError(Invalid):
    """A corpus file is not in the form of `[[case]]` with name, pattern, events, outputs and status."""

    sqlstate = "HR324"


class DrawingError(HeadraceError):
    """The drawing cannot be made here, for want of Graphviz."""

    sqlstate = "HR325"


def _layout(problem: str, text: str, line: int, column: int, hint: str) -> str:
    parts = [f"line {line}, column {column}: {problem}"]
    lines = text.split("\n")
    if text and line <= len(lines):
        # A window: a pattern on one line of 60 000 characters must not become the message.
        left = max(0, column - 60)
        shown = lines[line - 1][left : column + 40].replace("\t", " ")
        parts += ["  " + shown, "  " + " " * (column - 1 - left) + "^"]
    if hint:
        parts.append(f"hint: {hint}")
    return "\n".join(parts)
