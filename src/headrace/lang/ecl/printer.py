"""Tree → text. Promises: `parse(print_pattern(p)) == p`, and equal trees print the same text."""

from __future__ import annotations

import re

from headrace.lang.ecl.duration import print_duration
from headrace.lang.ecl.tree import (
    Accumulate,
    After,
    And,
    Condition,
    EventType,
    Expr,
    Fail,
    Literal,
    Loop,
    Match,
    Modes,
    Named,
    Not,
    Or,
    Parallel,
    Pattern,
    Persist,
    Predicate,
    Push,
    Repeat,
    Select,
    SelectStar,
    Sequential,
    Unless,
    Within,
)

CONSTRUCTS = (
    *("accumulate", "select", "sequential", "parallel", "do", "unless", "fail", "push"),
    *("repeat", "persist", "loop", "in", "after", "within"),
)
RESERVED = frozenset({*CONSTRUCTS, "true", "false", "not", "and", "or"})
_PLAIN = re.compile(r"[^\W\d]\w*([.:/-]\w+)*")


def print_pattern(pattern: Pattern) -> str:
    """The pattern on one line per definition and one for the expression."""
    lines = [f"define {_name(d.name)} = {print_predicate(d.predicate)};" for d in pattern.definitions]
    return "\n".join([*lines, print_expr(pattern.expr)])


def print_expr(expr: Expr) -> str:
    match expr:
        case Match(predicate):
            return print_predicate(predicate)
        case Accumulate(parts):
            return _several("accumulate", parts)
        case Select(parts):
            return _several("select", parts)
        case SelectStar(parts):
            return _several("select*", parts)
        case Sequential(parts):
            return _several("sequential", parts)
        case Parallel(parts):
            return _several("parallel", parts)
        case Unless(body, stop):
            return f"do {{{print_expr(body)}}} unless {{{print_expr(stop)}}}"
        case Fail(body):
            return f"fail {{{print_expr(body)}}}"
        case Push(token, body):
            return f"push({_name(token)}) {{{print_expr(body)}}}"
        case Repeat(body, times):
            return f"repeat{_times(times)} {{{print_expr(body)}}}"
        case Persist(body, times):
            return f"persist{_times(times)} {{{print_expr(body)}}}"
        case Loop(body, times):
            return f"loop{_times(times)} {{{print_expr(body)}}}"
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
            return _name(name)
        case Condition(text):
            return f"<{text}>"
        case Not(operand):
            return f"not {_grouped(operand, And | Or)}"
        case And(parts):
            return " and ".join(_grouped(part, And | Or) for part in parts)
        case Or(parts):
            return " or ".join(_grouped(part, Or) for part in parts)


def _grouped(predicate: Predicate, inside: object) -> str:
    text = print_predicate(predicate)
    return f"({text})" if isinstance(predicate, inside) else text  # type: ignore[arg-type]


def _several(word: str, parts: tuple[Expr, ...]) -> str:
    return f"{word} {{{', '.join(print_expr(part) for part in parts)}}}"


def _times(times: int | None) -> str:
    return "" if times is None else f"({times})"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else f'"{name}"'
