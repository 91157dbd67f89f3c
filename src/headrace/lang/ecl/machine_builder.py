"""Pattern → correlation machine, one module per construct.

A module owns its places, says which are initial, and ends by marking its place s (success) or f (failure). The parent
clears a finished child's places together with all others it no longer needs. Transitions are numbered in the order they
are made: children before parents, left before right, success before failure. That number is the priority of ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.lang.ecl import tree as t
from headrace.lang.ecl.errors import PatternError, StateLimitExceeded
from headrace.lang.ecl.machine import EPSILON, TIMER, Label, Machine, Transition
from headrace.lang.ecl.printer import print_expr, print_predicate
from headrace.lang.ecl.register_layout import make_registers

PLACES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class _Module:
    initial: frozenset[int]
    success: int
    failure: int
    places: frozenset[int]


def build_machine(pattern: t.Pattern, *, places_max: int = PLACES_MAX) -> Machine:
    """The machine of a pattern. Counter places make it as large as its bounds: `loop(1000)` has a thousand."""
    if not is_of_the_paper(pattern):
        hint = "use the compiled table; the machine is the paper's, without `as`, `count`, `each` and `next`"
        raise PatternError("the correlation machine has no registers", hint=hint)
    builder = _Builder(places_max)
    module = builder.module(t.lower(pattern.expr))
    return Machine(
        names=tuple(builder.names),
        initial=module.initial,
        transitions=tuple(builder.transitions),
        success=module.success,
        failure=module.failure,
        clocks=builder.clocks,
    )


def is_of_the_paper(pattern: t.Pattern) -> bool:
    """Whether a pattern uses only what the paper's machine has, and timers."""
    return make_registers(pattern) is None and not any(isinstance(node, t.Chain) for node in t.walk(pattern.expr))


class _Builder:
    def __init__(self, places_max: int) -> None:
        self.names: list[str] = []
        self.transitions: list[Transition] = []
        self.clocks: dict[int, int] = {}
        self._places_max = places_max

    def module(self, expr: t.Expr) -> _Module:
        match expr:
            case t.Match(predicate):
                return self._leaf(print_predicate(predicate), predicate)
            case t.After(duration_us):
                module = self._leaf(print_expr(expr), TIMER)
                (place,) = module.initial
                self.clocks[place] = duration_us
                return module
            case t.Sequential(parts):
                return self._sequential([self.module(part) for part in parts])
            case t.Modes(modes):
                return self._modes(modes)
            case t.Repeat(body, times) | t.Persist(body, times) | t.Loop(body, times):
                return self._rounds(expr, self.module(body), times)
            case _:
                return self._together(expr, [self.module(part) for part in t.children(expr)])

    def _place(self, name: str) -> int:
        if len(self.names) >= self._places_max:
            hint = "lower the bounds of repeat, persist and loop, or use the compiled table"
            raise StateLimitExceeded("the machine", needed=len(self.names) + 1, allowed=self._places_max, hint=hint)
        self.names.append(name)
        return len(self.names) - 1

    def _add(
        self,
        enabled: Sequence[Sequence[int]],
        clear: frozenset[int],
        target: frozenset[int],
        *,
        label: Label = EPSILON,
        output: str | None = None,
    ) -> None:
        clauses = tuple(frozenset(clause) for clause in enabled)
        self.transitions.append(Transition(clauses, label, clear, target, output))

    def _leaf(self, name: str, label: Label) -> _Module:
        wait, success, failure = self._place(name), self._place("s"), self._place("f")
        self._add([[wait]], frozenset({wait}), frozenset({success}), label=label)
        return _Module(frozenset({wait}), success, failure, frozenset({wait, success, failure}))

    def _together(self, expr: t.Expr, parts: list[_Module]) -> _Module:
        success, failure = self._place("s"), self._place("f")
        inner = frozenset[int]().union(*(part.places for part in parts))
        s, f = [part.success for part in parts], [part.failure for part in parts]
        each_s, each_f = [[place] for place in s], [[place] for place in f]
        output: str | None = None
        match expr:
            case t.Accumulate():
                win, lose = each_s, [f]
            case t.Select():
                win, lose = [s], each_f
            case t.SelectStar():
                win, lose = [s], [f]
            case t.Unless():
                win, lose = [[s[0]]], [[f[0], s[1]]]
            case t.Fail():
                win, lose = [f], [s]
            case t.Push(token):
                win, lose, output = [s], [f], token
            case _:
                assert isinstance(expr, t.Parallel)
                win, lose = [], []
        if win:
            self._add(win, inner, frozenset({success}), output=output)
            self._add(lose, inner, frozenset({failure}))
        initial = frozenset[int]().union(*(part.initial for part in parts))
        return _Module(initial, success, failure, inner | {success, failure})

    def _sequential(self, parts: list[_Module]) -> _Module:
        success, failure = self._place("s"), self._place("f")
        inner = frozenset[int]().union(*(part.places for part in parts))
        for part, following in pairwise(parts):
            self._add([[part.success]], part.places, following.initial)
        self._add([[parts[-1].success]], inner, frozenset({success}))
        self._add([[part.failure for part in parts]], inner, frozenset({failure}))
        return _Module(parts[0].initial, success, failure, inner | {success, failure})

    def _rounds(self, expr: t.Bounded, body: _Module, times: int | None) -> _Module:
        success, failure = self._place("s"), self._place("f")
        match expr:
            case t.Repeat():
                again, out, end = [body.success, body.failure], None, success
            case t.Loop():
                again, out, end = [body.success], (body.failure, failure), success
            case t.Persist():
                again, out, end = [body.failure], (body.success, success), failure
        counters = [self._place(f"c{number}") for number in range(1, (times or 0) + 1)]
        inner = body.places | frozenset(counters)
        if times is None:
            self._add([again], body.places, body.initial)
        for counter, following in pairwise(counters):
            self._add([again, [counter]], body.places | {counter}, body.initial | {following})
        if times is not None:
            self._add([again, [counters[-1]]], inner, frozenset({end}))
        if out is not None:
            self._add([[out[0]]], inner, frozenset({out[1]}))
        return _Module(body.initial | frozenset(counters[:1]), success, failure, inner | {success, failure})

    def _modes(self, modes: tuple[t.Mode, ...]) -> _Module:
        first = len(self.transitions)
        bodies = [self.module(mode.body) for mode in modes]
        last = len(self.transitions)
        success, failure = self._place("s"), self._place("f")
        active = [self._place(f"in ({print_predicate(mode.guard)})") for mode in modes]
        inner = frozenset(active).union(*(body.places for body in bodies))
        guards: list[int] = []
        for index, mode in enumerate(modes):
            others = [place for place in active if place != active[index]]
            if not others:
                continue
            number = len(self.transitions)
            self._add([others], inner, bodies[index].initial | {active[index]}, label=mode.guard)
            self.transitions[number] = replace(self.transitions[number], after=frozenset(guards))
            guards.append(number)
        for number in range(first, last):
            transition = self.transitions[number]
            self.transitions[number] = replace(transition, after=transition.after | frozenset(guards))
        return _Module(bodies[0].initial | {active[0]}, success, failure, inner | {success, failure})
