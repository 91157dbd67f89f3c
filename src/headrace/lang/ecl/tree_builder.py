"""Parse tree → `Pattern`, bottom up and without recursion: the parser accepts deeper texts than Python recurses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from lark import Token, Tree

from headrace.core import parse_duration, print_duration
from headrace.lang.condition import ConditionError, canonical_text, fields_of, parse, parse_value, parse_with_names
from headrace.lang.ecl import tree as t
from headrace.lang.ecl.errors import Limits, PatternError
from headrace.lang.ecl.registers import COUNT_REACHED, RegisterNames

_SEVERAL: dict[str, Callable[[tuple[t.Expr, ...]], t.Expr]] = {
    "ACCUMULATE": t.Accumulate,
    "SELECT": t.Select,
    "SELECT_STAR": t.SelectStar,
    "SEQUENTIAL": t.Sequential,
    "PARALLEL": t.Parallel,
}
_BOUNDED: dict[str, Callable[[t.Expr, int | None, str | None], t.Expr]] = {
    "REPEAT": t.Repeat,
    "PERSIST": t.Persist,
    "LOOP": t.Loop,
}
_NAMES_TAKEN = frozenset({"object", "headers", "type", "key", "emitted_at", "true", "false", "not", "and", "or", "is", "in"})


@dataclass(frozen=True, slots=True)
class _Next:
    """A step that must follow the one before it directly."""

    step: t.Match
    token: Token


_Built = _Next | t.Expr | t.Predicate | t.Mode | tuple[t.Expr, ...] | int | str


class Builder:
    """Builds one pattern: knows its conditions by position and the names defined so far."""

    def __init__(
        self,
        text: str,
        conditions: Mapping[int, str],
        names: Mapping[str, t.Predicate],
        limits: Limits,
        registers: RegisterNames | None = None,
    ) -> None:
        self._text = text
        self._conditions = conditions
        self._names = dict(names)
        self._limits = limits
        self._captures: dict[str, t.Capture] = {}
        self._is_compiled = registers is not None
        self._registers = registers or RegisterNames({}, frozenset(), frozenset())

    def pattern(self, root: Tree[Token]) -> t.Pattern:
        *definitions, expr = cast(list[Tree[Token]], root.children)
        # Captures and labels first: a condition may read a label that comes later in the text.
        for tree in definitions:
            if tree.data == "capture":
                self._capture(tree)
        self._collect_labels(root)
        for tree in definitions:
            if tree.data == "definition":
                self._define(tree)
        each: int | None = None
        if expr.data == "each":
            each, expr = self._each(expr)
        built = cast(t.Expr, self._build(expr))
        names = tuple(t.Definition(name, body) for name, body in self._names.items())
        return t.Pattern(built, names, tuple(self._captures.values()), each)

    def _each(self, tree: Tree[Token]) -> tuple[int, Tree[Token]]:
        *times, body = (child for child in tree.children if isinstance(child, Tree))
        limit = self._limits.instances_max
        if not times:
            return min(100, limit), body
        token = cast(Token, times[0].children[0])
        number = self._times(token)
        if number > limit:
            raise self._error(token, f"each({number}) runs up to {number} instances per key, allowed are {limit}")
        return number, body

    def _capture(self, tree: Tree[Token]) -> None:
        _, name_token, value_token = cast(list[Token], tree.children)
        name = name_token.lower()
        if name in self._captures or name in _NAMES_TAKEN:
            problem = f"the capture {name} is declared twice" if name in self._captures else f"{name} has a meaning of its own"
            raise self._error(name_token, problem)
        if len(self._captures) >= self._limits.captures_max:
            raise self._error(name_token, f"more than {self._limits.captures_max} captures")
        try:
            node = parse_value(self._conditions[value_token.start_pos or 0])
        except ConditionError as error:
            raise self._condition_error(value_token, error, offset=-1) from error
        if not fields_of(node):
            raise self._error(value_token, "the capture reads nothing of the event", hint="such as (object -> 'amount')::numeric")
        self._captures[name] = t.Capture(name, canonical_text(node))
        self._registers = replace(self._registers, captures={**self._registers.captures, name: node})

    def _collect_labels(self, root: Tree[Token]) -> None:
        if self._is_compiled:
            return
        labels: dict[str, Token] = {}
        loops: set[str] = set()
        for tree in root.iter_subtrees():
            if tree.data == "capture":
                continue
            for token in tree.children:
                if isinstance(token, Token) and token.type == "LABEL":
                    name = token.lower()
                    if name in labels:
                        raise self._error(token, f"the label {name} is used twice", hint="give each its own name")
                    labels[name] = token
            if tree.data == "bounded":
                loops |= {_label_of(child) for child in tree.children if isinstance(child, Tree) and child.data == "as_label"}
        if len(labels) > self._limits.labels_max:
            raise PatternError(f"the pattern has {len(labels)} labels, allowed are {self._limits.labels_max}", text=self._text)
        matches = frozenset(labels) - loops
        self._registers = replace(self._registers, matches=matches, loops=frozenset(loops))

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
            case "labelled":
                return t.Match(cast(t.Predicate, parts[0]), tokens[-1].lower())
            case "as_label":
                return tokens[-1].lower()
            case "next":
                return _Next(t.Match(*cast("tuple[t.Predicate, str]", parts)), tokens[0])
            case "count":
                return self._count(tokens, cast(t.Predicate, parts[0]))
            case "exprs":
                return tuple(exprs)
            case "steps":
                return self._chained(cast("list[t.Expr | _Next]", parts))
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
                times = next((part for part in parts if isinstance(part, int)), None)
                label = next((part for part in parts if isinstance(part, str)), None)
                return _BOUNDED[tokens[0].type](exprs[-1], times, label)
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

    def _chained(self, parts: list[t.Expr | _Next]) -> tuple[t.Expr, ...]:
        """The steps of a sequence, those joined by `next` as one chain."""
        steps: list[t.Expr] = []
        for part in parts:
            if not isinstance(part, _Next):
                steps.append(part)
                continue
            before = steps.pop() if steps else None
            chain = before.steps if isinstance(before, t.Chain) else (before,)
            if not all(isinstance(step, t.Match) for step in chain):
                raise self._error(part.token, "`next` needs a predicate before it", hint="such as sequential {a, next b}")
            if len(chain) >= self._limits.chain_length_max:
                raise self._error(part.token, f"more than {self._limits.chain_length_max} events in a row")
            steps.append(t.Chain((*cast("tuple[t.Match, ...]", chain), part.step)))
        for step in steps:
            if isinstance(step, t.Chain):
                self._check_chain(step)
        return tuple(steps)

    def _check_chain(self, chain: t.Chain) -> None:
        """A label of a chain holds the latest event that could be its step, so only the step right after it may read it."""
        labels = [step.label for step in chain.steps]
        for number, step in enumerate(chain.steps):
            read = {
                label
                for atom in t.atoms(step.predicate)
                if isinstance(atom, t.Condition)
                for label in self._labels_read(atom.text)
            }
            for label in read & {label for label in labels if label is not None}:
                if labels.index(label) != number - 1:
                    problem = f"in a row of events joined by `next`, only the step right after `as {label}` can read {label}"
                    raise PatternError(problem, text=self._text, hint="give the steps between labels of their own")

    def _labels_read(self, text: str) -> set[str]:
        fields = parse_with_names(text, self._registers).fields
        return {str(field.path[0]) for field in fields if field.root == "register"}

    def _count(self, tokens: list[Token], predicate: t.Predicate) -> t.Expr:
        number, duration = (token for token in tokens if token.type in ("INT", "DURATION"))
        times = self._times(number)
        if times > self._limits.count_times_max:
            raise self._error(
                number, f"count({times}, …) keeps {times} times per key, allowed are {self._limits.count_times_max}"
            )
        return t.Count(times, self._duration(duration), predicate)

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
        if self._is_compiled and COUNT_REACHED.fullmatch(inside):
            return t.Condition(inside)
        try:
            names = self._registers
            plain = not (names.captures or names.matches or names.loops)
            return t.Condition(parse(inside).text if plain else parse_with_names(inside, self._registers).text)
        except ConditionError as error:
            raise self._condition_error(token, error) from error

    def _condition_error(self, token: Token, error: ConditionError, *, offset: int = 0) -> PatternError:
        """The error with its place in the pattern: its own counts from the character after `<`."""
        line, column = token.line or 1, (token.column or 1) + offset
        place = (line, column + error.column) if error.line == 1 else (line + error.line - 1, error.column)
        problem = f"the condition is not valid: {error.reason}"
        return PatternError(problem, text=self._text, line=place[0], column=place[1], hint=error.allowed)

    def _error(self, token: Token, problem: str, *, hint: str = "") -> PatternError:
        return PatternError(problem, text=self._text, line=token.line or 1, column=token.column or 1, hint=hint)


def _label_of(tree: Tree[Token]) -> str:
    return cast(Token, tree.children[-1]).lower()
