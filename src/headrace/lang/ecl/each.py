"""Patterns with `each`: one instance per start, side by side.

An event goes to every running instance, the oldest first. Then, if it satisfies one of the predicates that a fresh instance waits for,
and fewer than the allowed number run, a fresh one starts with it. Outputs come in that order."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from headrace.lang.ecl.events import Engine, Evaluator, Event, Output, Status
from headrace.lang.ecl.interpreter import Interpreter
from headrace.lang.ecl.predicate import evaluate_condition, holds
from headrace.lang.ecl.register_layout import make_program, start_predicate
from headrace.lang.ecl.registers import RegisterProgram, evaluator_with_memory
from headrace.lang.ecl.table import Table, TableEngine
from headrace.lang.ecl.tree import Pattern, Predicate, lower

S = TypeVar("S")


class EachEngine(Engine[tuple[S, ...]], Generic[S]):
    """Runs the instances of another engine; the state is those that wait, oldest first."""

    def __init__(self, inner: Engine[S], start: Predicate, most: int, *, evaluator: Evaluator = evaluate_condition) -> None:
        self._inner = inner
        self._start = start
        self._most = most
        self._evaluator = evaluator

    def start(self, time: int) -> tuple[S, ...]:
        return ()

    def status(self, state: tuple[S, ...]) -> Status:
        return Status.WAITING

    def next_deadline(self, state: tuple[S, ...]) -> int | None:
        deadlines = [self._inner.next_deadline(instance) for instance in state]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def take(self, state: tuple[S, ...], event: Event | None, now: int) -> tuple[tuple[S, ...], tuple[Output, ...]]:
        running: list[S] = []
        outputs: list[Output] = []
        instances = list(state)
        if event is not None and len(state) < self._most and holds(self._start, event, self._evaluator):
            instances.append(self._inner.start(now))
        for instance in instances:
            after: S = instance
            pushed: tuple[Output, ...] = ()
            if event is not None or self._inner.next_deadline(instance) == now:
                after, pushed = self._inner.take(instance, event, now)
            outputs += pushed
            if self._inner.status(after) is Status.WAITING:
                running.append(after)
        return tuple(running), tuple(outputs)


def interpreter_of(pattern: Pattern, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """The interpreter of a pattern, with `each` or without."""
    inner = cast(Engine[object], Interpreter(pattern, evaluator=evaluator))
    program = make_program(pattern)
    if program is None or not pattern.each:
        return inner
    return cast(
        Engine[object],
        EachEngine(inner, start_predicate(lower(pattern.expr)), pattern.each, evaluator=_at_start(program, evaluator)),
    )


def table_engine(table: Table, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """The engine of a compiled table, with `each` or without."""
    inner = cast(Engine[object], TableEngine(table, evaluator=evaluator))
    if table.program is None or table.registers is None or table.start_predicate is None:
        return inner
    return cast(
        Engine[object],
        EachEngine(inner, table.start_predicate, table.registers.each, evaluator=_at_start(table.program, evaluator)),
    )


def _at_start(program: RegisterProgram, evaluator: Evaluator) -> Evaluator:
    """Whatever starts an instance sees empty registers."""
    return evaluator_with_memory(program, evaluator, program.empty, 0)
