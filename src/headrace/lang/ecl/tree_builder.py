"""Parse tree → `Pattern`, bottom up and without recursion: the parser accepts deeper texts than Python recurses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from lark import Token, Tree

from headrace.lang.condition import ConditionError, parse
from headrace.lang.ecl import tree as t
from headrace.lang.ecl.duration import parse_duration, print_duration
from headrace.lang.ecl.errors import PatternError
from headrace.lang.ecl.limits import Limits

_SEVERAL: dict[str, Callable[[tuple[t.Expr, ...]], t.Expr]] = {
    "ACCUMULATE": t.Accumulate,
    "SELECT": t.Select,
    "SELECT_STAR": t.SelectStar,
    "SEQUENTIAL": t.Sequential,
    "PARALLEL": t.Parallel,
}
_BOUNDED: dict[str, Callable[[t.Expr, int | None], t.Expr]] = {"REPEAT": t.Repeat, "PERSIST": t.Persist, "LOOP": t.Loop}
_Built = t.Expr | t.Predicate | t.Mode | tuple[t.Expr, ...] | int | str


class Builder:
    """Builds one pattern: knows its conditions by position and the names defined so far."""

    def __init__(self, text: str, conditions: Mapping[int, str], names: Mapping[str, t.Predicate], limits: Limits) -> None:
        self._text = text
        self._conditions = conditions
        self._names = dict(names)
        self._limits = limits

    def pattern(self, root: Tree[Token]) -> t.Pattern:
        *definitions, expr = cast(list[Tree[Token]], root.children)
        for tree in definitions:
            self._define(tree)
        built = cast(t.Expr, self._build(expr))
        return t.Pattern(built, tuple(t.Definition(name, body) for name, body in self._names.items()))

    def _define(self, tree: Tree[Token]) -> None:
        keyword, name_tree, body = tree.children
        name = cast(str, self._build(cast(Tree[Token], name_tree)))
        predicate = cast(t.Predicate, self._build(cast(Tree[Token], body)))
        # The same definition again is fine: a printed pattern contains the definitions that were passed in.
        if self._names.get(name, predicate) != predicate:
            raise self._error(cast(Token, keyword), f"{name!r} is defined twice, differently")
        if len(self._names) >= self._limits.definitions_max:
            problem = f"more than {self._limits.definitions_max} definitions"
            raise self._error(cast(Token, keyword), problem)
        self._names[name] = predicate

    def _build(self, root: Tree[Token]) -> _Built:
        done: dict[int, _Built] = {}
        for tree in root.iter_subtrees():
            parts = [done[id(child)] for child in tree.children if isinstance(child, Tree)]
            tokens = [child for child in tree.children if isinstance(child, Token)]
            done[id(tree)] = self._reduce(str(tree.data), parts, tokens)
        return done[id(root)]

    def _reduce(self, rule: str, parts: list[_Built], tokens: list[Token]) -> _Built:
        if rule in {"any_of", "all_of", "negate", "group", "yes", "no", "atom", "condition", "name"}:
            return self._reduce_predicate(rule, cast(list[t.Predicate], parts), tokens)
        exprs = cast(list[t.Expr], parts)
        match rule:
            case "match":
                return t.Match(cast(t.Predicate, parts[0]))
            case "exprs":
                return tuple(exprs)
            case "several":
                return self._several(tokens[0], cast(tuple[t.Expr, ...], parts[0]))
            case "unless":
                return t.Unless(exprs[0], exprs[1])
            case "fail":
                return t.Fail(exprs[0])
            case "push":
                return t.Push(cast(str, parts[0]), exprs[1])
            case "times":
                return self._times(tokens[0])
            case "bounded":
                times = cast(int, parts[0]) if len(parts) == 2 else None
                return _BOUNDED[tokens[0].type](exprs[-1], times)
            case "mode":
                return t.Mode(cast(t.Predicate, parts[0]), exprs[1])
            case "modes":
                return t.Modes(cast(tuple[t.Mode, ...], tuple(parts)))
            case "after":
                return t.After(self._duration(tokens[1]))
            case _:
                return t.Within(self._duration(tokens[1]), exprs[0])

    def _reduce_predicate(self, rule: str, parts: list[t.Predicate], tokens: list[Token]) -> _Built:
        match rule:
            case "any_of":
                return parts[0] if len(parts) == 1 else t.Or(tuple(parts))
            case "all_of":
                return parts[0] if len(parts) == 1 else t.And(tuple(parts))
            case "negate":
                return t.Not(parts[0])
            case "group":
                return parts[0]
            case "yes" | "no":
                return t.Literal(rule == "yes")
            case "name":
                return self._name(tokens[0])
            case "condition":
                return self._condition(tokens[0])
            case _:
                name = cast(str, parts[0])
                return t.Named(name, self._names[name]) if name in self._names else t.EventType(name)

    def _several(self, keyword: Token, parts: tuple[t.Expr, ...]) -> t.Expr:
        if len(parts) > self._limits.list_length_max:
            problem = f"the list has {len(parts)} expressions, allowed are {self._limits.list_length_max}"
            raise self._error(keyword, problem)
        return _SEVERAL[keyword.type](parts)

    def _times(self, token: Token) -> int:
        times = int(token) if len(token) < 20 else 10**20
        if times == 0:
            raise self._error(token, "N is 0", hint="N counts completions: write 1 or more, or leave it out for no bound")
        if times > self._limits.times_max:
            raise self._error(token, f"N is {token}, allowed are {self._limits.times_max}")
        return times

    def _duration(self, token: Token) -> int:
        try:
            duration_us = parse_duration(str(token))
        except ValueError as error:
            raise self._error(token, str(error)) from None
        low, high = self._limits.duration_us_min, self._limits.duration_us_max
        if not low <= duration_us <= high:
            problem = f"the duration is {print_duration(duration_us)}, allowed are {print_duration(low)} to "
            raise self._error(token, problem + print_duration(high))
        return duration_us

    def _name(self, token: Token) -> str:
        name = token[1:-1] if token.type == "QUOTED" else str(token)
        if len(name) > self._limits.name_chars_max:
            problem = f"the name has {len(name)} characters, allowed are {self._limits.name_chars_max}"
            raise self._error(token, problem)
        return name

    def _condition(self, token: Token) -> t.Predicate:
        inside = self._conditions[token.start_pos or 0]
        if not inside.strip():
            raise self._error(token, "the condition is empty")
        try:
            return t.Condition(parse(inside).text)
        except ConditionError as error:
            raise self._condition_error(token, error) from error

    def _condition_error(self, token: Token, error: ConditionError) -> PatternError:
        """The error with its place in the pattern: its own counts from the character after `<`."""
        line, column = token.line or 1, token.column or 1
        place = (line, column + error.column) if error.line == 1 else (line + error.line - 1, error.column)
        problem = f"the condition is not valid: {error.reason}"
        return PatternError(problem, text=self._text, line=place[0], column=place[1], hint=error.allowed)

    def _error(self, token: Token, problem: str, *, hint: str = "") -> PatternError:
        return PatternError(problem, text=self._text, line=token.line or 1, column=token.column or 1, hint=hint)
