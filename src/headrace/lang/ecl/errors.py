"""What can be wrong with a pattern, and the limits that decide it. Every message names the numbers and says what to do.

There is a limit on everything a pattern's author can make large: generous for people, small for machines. A *budget* of work counts
elementary steps, not seconds, so that a pattern gets the same answer on every machine. A step takes about a microsecond. Whoever runs
many patterns in one process, as a node does, gives each a small budget and repeats what exceeds it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core import HeadraceError, Invalid
from headrace.lang.ecl.tree import After, Expr, Pattern, Predicate, Within, direct_parts


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


DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What `parse` accepts at most."""

    text_chars_max: int = 65_536
    # Engines recurse over the tree; 64 levels stay far below Python's own limit.
    depth_max: int = 64
    nodes_max: int = 2_000
    list_length_max: int = 256
    times_max: int = 1_000_000
    # Timers due together are a 63-bit mask in the table.
    timers_max: int = 60
    definitions_max: int = 100
    # A state keeps a few values per label and capture, and the times of a count.
    captures_max: int = 20
    labels_max: int = 20
    count_times_max: int = 1_000
    # A chain has a state for every set of its beginnings.
    chain_length_max: int = 8
    instances_max: int = 1_000
    name_chars_max: int = 255
    # A shorter timer in a `repeat` would fire millions of times in one quiet hour.
    duration_us_min: int = 1_000
    duration_us_max: int = 36_500 * DAY_US


LIMITS = Limits()


def check_size(pattern: Pattern, limits: Limits) -> None:
    """Depth, nodes and timers of a parsed pattern; iterative, so that it can reject what nothing else could walk."""
    nodes = timers = 0
    stack: list[tuple[Expr | Predicate, int]] = [(pattern.expr, 1)]
    stack += [(definition.predicate, 1) for definition in pattern.definitions]
    while stack:
        node, depth = stack.pop()
        nodes += 1
        timers += isinstance(node, After | Within)
        if depth > limits.depth_max:
            raise PatternError(f"nested deeper than allowed: over {depth - 1} levels, allowed are {limits.depth_max}")
        stack.extend((part, depth + 1) for part in direct_parts(node))
    if nodes > limits.nodes_max:
        raise PatternError(f"the pattern has {nodes} nodes, allowed are {limits.nodes_max}")
    if timers > limits.timers_max:
        raise PatternError(f"the pattern has {timers} timers (after, within), allowed are {limits.timers_max}")
