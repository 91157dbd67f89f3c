"""Tree → text. Promises: `parse(print_pattern(p)) == p`, and equal trees print the same text."""

from __future__ import annotations

import re

from headrace.core import print_duration
from headrace.lang.ecl import tree as t

CONSTRUCTS = (
    *("accumulate", "select", "sequential", "parallel", "do", "unless", "fail", "push"),
    *("repeat", "persist", "loop", "in", "after", "within"),
)
RESERVED = frozenset({*CONSTRUCTS, "true", "false", "not", "and", "or"})
_PLAIN = re.compile(r"[^\W\d]\w*([.:/-]\w+)*")


def print_pattern(pattern: t.Pattern) -> str:
    """The pattern on one line per definition and one for the expression."""
    lines = [f"capture {capture.name} = {capture.text};" for capture in pattern.captures]
    lines += [f"define {print_name(d.name)} = {print_predicate(d.predicate)};" for d in pattern.definitions]
    expr = print_expr(pattern.expr)
    return "\n".join([*lines, expr if pattern.each is None else f"each({pattern.each}) {{{expr}}}"])


def print_expr(expr: t.Expr) -> str:
    match expr:
        case t.Match(predicate):
            return print_predicate(predicate)
        case t.Labelled(predicate, label):
            return f"{print_predicate(predicate)} as {label}"
        case t.Chain(steps):
            return ", next ".join(map(print_expr, steps))
        case t.Count(times, duration_us, predicate):
            return f"count({times}, {print_duration(duration_us)}) {{{print_predicate(predicate)}}}"
        case t.Several(parts):
            return f"{expr.word} {{{', '.join(map(print_expr, parts))}}}"
        case t.Unless(body, stop):
            return f"do {{{print_expr(body)}}} unless {{{print_expr(stop)}}}"
        case t.Fail(body):
            return f"fail {{{print_expr(body)}}}"
        case t.Push(token, body):
            return f"push({print_name(token)}) {{{print_expr(body)}}}"
        case t.Bounded(body, times, label):
            bound, name = "" if times is None else f"({times})", "" if label is None else f" as {label}"
            return f"{expr.word}{bound}{name} {{{print_expr(body)}}}"
        case t.Modes(modes):
            return " ".join(f"in ({print_predicate(m.guard)}) do {{{print_expr(m.body)}}}" for m in modes)
        case t.After(duration_us):
            return f"after {print_duration(duration_us)}"
        case t.Within(duration_us, body):
            return f"within {print_duration(duration_us)} {{{print_expr(body)}}}"


def print_predicate(predicate: t.Predicate) -> str:
    match predicate:
        case t.Literal(value):
            return "true" if value else "false"
        case t.EventType(name) | t.Named(name, _):
            return print_name(name)
        case t.Condition(text):
            return f"<{text}>"
        case t.Not(operand):
            return f"not {_grouped(operand, t.And | t.Or)}"
        case t.And(parts):
            return " and ".join(_grouped(part, t.And | t.Or) for part in parts)
        case t.Or(parts):
            return " or ".join(_grouped(part, t.Or) for part in parts)


def _grouped(predicate: t.Predicate, inside: object) -> str:
    text = print_predicate(predicate)
    return f"({text})" if isinstance(predicate, inside) else text  # type: ignore[arg-type]


def print_name(name: str) -> str:
    """An event type, a token or a defined name; in quotes if it is a reserved word or has special characters."""
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else f'"{name}"'
