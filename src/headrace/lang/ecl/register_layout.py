"""Which registers a pattern has: its labels and counts in textual order, and what starts an instance of `each`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.lang.ecl import tree as t
from headrace.lang.ecl.printer import print_predicate
from headrace.lang.ecl.register_names import LABEL_OF_COUNT, REACHED
from headrace.lang.ecl.registers import RegisterProgram, Registers


def make_registers(pattern: t.Pattern) -> Registers | None:
    """The registers of a pattern; None for one that keeps nothing and has one instance per key."""
    expr = t.lower(pattern.expr)
    matches: list[str] = []
    loops: list[str] = []
    counts: list[tuple[int, int]] = []
    for node in t.walk(expr):
        match node:
            case t.Labelled(_, label):
                matches.append(label)
            case t.Chain(steps):
                matches += [step.label for step in steps if isinstance(step, t.Labelled)]
            case t.Count(times, duration_us):
                counts.append((times, duration_us))
            case t.Bounded(label=str() as label):
                loops.append(label)
    if not (matches or loops or counts or pattern.each):
        return None
    return Registers(
        captures=tuple((capture.name, capture.text) for capture in pattern.captures),
        matches=tuple(matches),
        loops=tuple(loops),
        counts=tuple(counts),
        each=pattern.each or 0,
        start=print_predicate(start_predicate(expr)) if pattern.each else "",
    )


def make_program(pattern: t.Pattern) -> RegisterProgram | None:
    """The registers of a pattern, ready to run."""
    registers = make_registers(pattern)
    if registers is None:
        return None
    texts = [
        atom.text
        for predicate in all_predicates(t.lower(pattern.expr))
        for atom in t.atoms(predicate)
        if isinstance(atom, t.Condition)
    ]
    counts = [REACHED.format(number) for number in range(1, len(registers.counts) + 1)]
    return RegisterProgram(registers, tuple(dict.fromkeys([*texts, *counts])))


def all_predicates(expr: t.Expr) -> list[t.Predicate]:
    return [predicate for node in t.walk(expr) for predicate in t.predicates_of(node)]


def start_predicate(expr: t.Expr) -> t.Predicate:
    """What an event must satisfy to start an instance: one of the predicates that a fresh one waits for."""
    alternatives = tuple(dict.fromkeys(_first(expr)))
    return alternatives[0] if len(alternatives) == 1 else t.Or(alternatives)


def _first(expr: t.Expr) -> list[t.Predicate]:
    match expr:
        case t.Match(predicate) | t.Labelled(predicate) | t.Count(predicate=predicate):
            return [predicate]
        case t.Chain(steps):
            return [steps[0].predicate]
        case t.Sequential(parts):
            return _first(parts[0])
        case t.Modes(modes):
            return [*(mode.guard for mode in modes[1:]), *_first(modes[0].body)]
        case t.Unless(body):
            # What only stops it need not start it.
            return _first(body)
        case _:
            return [predicate for part in t.children(expr) for predicate in _first(part)]


@dataclass
class CountLowering:
    """Counts as constructs of the core: a loop that records, beside a match that sees whether the count is reached."""

    number: int = 0

    def lower(self, expr: t.Expr) -> t.Expr:
        match expr:
            case t.Count(predicate=predicate):
                self.number += 1
                reached = t.Match(t.And((predicate, t.Condition(REACHED.format(self.number)))))
                return t.SelectStar((reached, t.Loop(t.Match(predicate), None, LABEL_OF_COUNT.format(self.number))))
            case t.Several(parts):
                return replace(expr, children=tuple(self.lower(part) for part in parts))
            case t.Unless(body, stop):
                return t.Unless(self.lower(body), self.lower(stop))
            case t.Modes(modes):
                return t.Modes(tuple(t.Mode(mode.guard, self.lower(mode.body)) for mode in modes))
            case t.Fail(body) | t.Push(_, body) | t.Bounded(body):
                return replace(expr, body=self.lower(body))
            case _:
                return expr
