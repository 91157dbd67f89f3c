"""The tree of a pattern: frozen, hashable, comparable. Owns the shape of ECL and its text, knows nothing of its meaning.

Promises: `parse(print_pattern(p)) == p`, and equal trees print the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from headrace.core import print_duration
from headrace.lang.nodes import NodeT, Part, parts_of, walk as walk_nodes, with_parts


class PredicateNode(Part):
    """The base of what is true, false or unknown for an event."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Literal(PredicateNode):
    value: bool


@dataclass(frozen=True, slots=True)
class EventType(PredicateNode):
    name: str


@dataclass(frozen=True, slots=True)
class Condition(PredicateNode):
    text: str


@dataclass(frozen=True, slots=True)
class Named(PredicateNode):
    """A use of a defined predicate: it keeps its name for printing and means what it names."""

    name: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Not(PredicateNode):
    operand: Predicate


@dataclass(frozen=True, slots=True)
class And(PredicateNode):
    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(PredicateNode):
    operands: tuple[Predicate, ...]


Predicate = Literal | EventType | Condition | Named | Not | And | Or


@dataclass(frozen=True, slots=True)
class Match(Part):
    """With a label, the matching event is kept: its captures can be read as `label.capture`."""

    predicate: Predicate
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Chain(Part):
    """Events that follow one another directly: `a, next b, next c`. Each is a predicate, perhaps with a label."""

    steps: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Count(Part):
    """At least `times` events that satisfy the predicate, less than a duration apart."""

    times: int
    duration_us: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Several(Part):
    """A construct over several expressions; `word` is its keyword."""

    word: ClassVar[str]
    children: tuple[Expr, ...]


class Accumulate(Several):
    word = "accumulate"


class Select(Several):
    word = "select"


class SelectStar(Several):
    word = "select*"


class Sequential(Several):
    word = "sequential"


class Parallel(Several):
    word = "parallel"


@dataclass(frozen=True, slots=True)
class Unless(Part):
    body: Expr
    stop: Expr


@dataclass(frozen=True, slots=True)
class Fail(Part):
    body: Expr


@dataclass(frozen=True, slots=True)
class Push(Part):
    token: str
    body: Expr


@dataclass(frozen=True, slots=True)
class Bounded(Part):
    """A repetition; `word` is its keyword."""

    word: ClassVar[str]
    body: Expr
    times: int | None = None
    label: str | None = None
    """Of a loop that counts and sums its rounds."""


class Repeat(Bounded):
    word = "repeat"


class Persist(Bounded):
    word = "persist"


class Loop(Bounded):
    word = "loop"


@dataclass(frozen=True, slots=True)
class Mode(Part):
    guard: Predicate
    body: Expr


@dataclass(frozen=True, slots=True)
class Modes(Part):
    modes: tuple[Mode, ...]


@dataclass(frozen=True, slots=True)
class After(Part):
    duration_us: int


@dataclass(frozen=True, slots=True)
class Within(Part):
    duration_us: int
    body: Expr


Expr = (
    Match | Chain | Count | Accumulate | Select | SelectStar | Sequential | Parallel | Unless | Fail | Push
    | Repeat | Persist | Loop | Modes | After | Within
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Capture:
    """A value of an event with a name; `text` is canonical."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole pattern: the expression, and the predicates and captures defined for it, in the order they were defined.

    `each` is the number of instances of the expression that may run at the same time, one per start; None: one, from the start."""

    expr: Expr
    definitions: tuple[Definition, ...] = ()
    captures: tuple[Capture, ...] = ()
    each: int | None = None


def direct_parts(node: Expr | Predicate) -> tuple[Expr | Predicate, ...]:
    """The expressions and predicates that a node is made of, in textual order: of a mode its guard and body, of a chain the predicates
    of its steps."""
    parts = parts_of(node)
    if isinstance(node, Modes | Chain):
        return tuple(inner for part in parts for inner in parts_of(part))
    return parts


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression that are expressions."""
    return tuple(part for part in direct_parts(expr) if not isinstance(part, PredicateNode))


def predicates_of(expr: Expr) -> tuple[Predicate, ...]:
    """The predicates that stand in an expression itself, not in its parts."""
    return tuple(part for part in direct_parts(expr) if isinstance(part, PredicateNode))


def walk(expr: Expr) -> Iterator[Expr]:
    """Every expression, outer before inner, in textual order."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def pushed_tokens(pattern: Pattern) -> tuple[str, ...]:
    """The tokens that a pattern can push, each once, in textual order."""
    return tuple(dict.fromkeys(expr.token for expr in walk(pattern.expr) if isinstance(expr, Push)))


def atoms(predicate: Predicate) -> Iterator[Predicate]:
    """The event types, conditions and literals a predicate is made of, in textual order."""
    return (node for node, _ in walk_nodes(predicate) if not parts_of(node))


def lower(node: NodeT) -> NodeT:
    """The same expression or predicate without sugar: `within` becomes do/unless/after, names become what they name."""
    match node:
        case Within(duration_us, body):
            return cast(NodeT, Unless(lower(body), After(duration_us)))
        case Named(_, inner):
            return cast(NodeT, lower(inner))
        case _:
            return cast(NodeT, with_parts(node, lower))


CONSTRUCTS = (
    *("accumulate", "select", "sequential", "parallel", "do", "unless", "fail", "push"),
    *("repeat", "persist", "loop", "in", "after", "within"),
)
RESERVED = frozenset({*CONSTRUCTS, "true", "false", "not", "and", "or"})
_PLAIN = re.compile(r"[^\W\d]\w*([.:/-]\w+)*")


def print_pattern(pattern: Pattern) -> str:
    """The pattern on one line per definition and one for the expression."""
    lines = [f"capture {capture.name} = {capture.text};" for capture in pattern.captures]
    lines += [f"define {print_name(d.name)} = {print_predicate(d.predicate)};" for d in pattern.definitions]
    expr = print_expr(pattern.expr)
    return "\n".join([*lines, expr if pattern.each is None else f"each({pattern.each}) {{{expr}}}"])


def print_expr(expr: Expr) -> str:
    match expr:
        case Match(predicate, label):
            return print_predicate(predicate) + ("" if label is None else f" as {label}")
        case Chain(steps):
            return ", next ".join(map(print_expr, steps))
        case Count(times, duration_us, predicate):
            return f"count({times}, {print_duration(duration_us)}) {{{print_predicate(predicate)}}}"
        case Several(parts):
            return f"{expr.word} {{{', '.join(map(print_expr, parts))}}}"
        case Unless(body, stop):
            return f"do {{{print_expr(body)}}} unless {{{print_expr(stop)}}}"
        case Fail(body):
            return f"fail {{{print_expr(body)}}}"
        case Push(token, body):
            return f"push({print_name(token)}) {{{print_expr(body)}}}"
        case Bounded(body, times, label):
            bound, name = "" if times is None else f"({times})", "" if label is None else f" as {label}"
            return f"{expr.word}{bound}{name} {{{print_expr(body)}}}"
        case Modes(modes):
            return " ".join(f"in ({print_predicate(m.guard)}) do {{{print_expr(m.body)}}}" for m in modes)
        case After(duration_us):
            return f"after {print_duration(duration_us)}"
        case Within(duration_us, body):
            return f"within {print_duration(duration_us)} {{{print_expr(body)}}}"


def print_predicate(predicate: Predicate) -> str:
    match predicate:
        case Literal(value):
            return "true" if value else "false"
        case EventType(name) | Named(name, _):
            return print_name(name)
        case Condition(text):
            return f"<{text}>"
        case Not(operand):
            return f"not {_parenthesize(operand, And | Or)}"
        case And(parts):
            return " and ".join(_parenthesize(part, And | Or) for part in parts)
        case Or(parts):
            return " or ".join(_parenthesize(part, Or) for part in parts)


def _parenthesize(predicate: Predicate, inside: object) -> str:
    text = print_predicate(predicate)
    return f"({text})" if isinstance(predicate, inside) else text  # type: ignore[arg-type]


def print_name(name: str) -> str:
    """An event type, a token or a defined name; in quotes if it is a reserved word or has special characters."""
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else f'"{name}"'
