"""Registers: what an instance keeps of the events it has seen, and the conditions that read it.

A *label* is a place with values. `a as t` keeps the captures of the latest event that matched; `loop as l` keeps count, first, last,
sum, min and max over its rounds since it started; `count` keeps the times of its latest events. Captures and labels add their names to
the language of conditions. Owns the memory of an instance: one entry per label, in the order of the text, immutable. Promises: a
condition sees the memory as it was before the event; an event first records, then the outputs are made, then what has started again is
emptied. Pure: every engine steps here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple, cast

import msgspec

from headrace.core import print_duration
from headrace.lang.condition import (
    Condition,
    Extraction,
    Field,
    Node,
    Type,
    Value,
    canonical_text,
    compile_field,
    compile_node,
    fields_of,
    moment_text,
    parse_value,
    parse_with_names,
    to_bigint,
    to_numeric,
    value_text,
    with_slots,
)
from headrace.lang.ecl import tree as t
from headrace.lang.ecl.engine import Evaluator
from headrace.lang.ecl.tree import print_predicate
from headrace.lang.nodes import NodeT, with_parts

LABEL_OF_COUNT = "count {}"
REACHED = "count {} reached"
"""The condition that a `count` adds: not of the language, so no user can write it."""

COUNT_REACHED = re.compile(r"count \d+ reached")

_EXTRACTIONS = {
    Type.TEXT: Extraction.TEXT,
    Type.INTEGER: Extraction.BIGINT,
    Type.NUMERIC: Extraction.NUMERIC,
    Type.BOOLEAN: Extraction.BOOLEAN,
    Type.TIMESTAMPTZ: Extraction.COLUMN,
}
_FUNCTIONS = ("first", "last", "sum", "min", "max")


@dataclass(frozen=True)
class RegisterNames:
    """Captures by name, and the labels of matches and loops."""

    captures: Mapping[str, Node]
    matches: frozenset[str]
    loops: frozenset[str]

    @property
    def values(self) -> Mapping[str, Node]:
        return self.captures

    def find_register(self, label: str, name: str, argument: str | None) -> Field | str:
        """The register, or what is wrong with it."""
        if label in self.matches:
            if argument is not None:
                return f"{label}.{name}(…) needs a loop; {label} is the label of one event: write {label}.{argument}"
            if name not in self.captures:
                return _unknown_capture(name, self.captures)
            return Field("register", (label, name), _EXTRACTIONS[self.captures[name].type])
        if label not in self.loops:
            known = ", ".join(sorted(self.matches | self.loops)) or "none"
            return f"unknown label {label}; the labels of this pattern are: {known}"
        return self._find_loop_value(label, name, argument)

    def _find_loop_value(self, label: str, name: str, argument: str | None) -> Field | str:
        if name == "count" and argument is None:
            return Field("register", (label, "count"), Extraction.BIGINT)
        if name not in _FUNCTIONS or argument is None:
            return f"{label} is the label of a loop: write {label}.count, or {label}.last(capture), first, sum, min, max"
        if argument not in self.captures:
            return _unknown_capture(argument, self.captures)
        type_ = self.captures[argument].type
        if name == "sum" and not type_.is_number:
            return f"{label}.sum({argument}) needs a number; {argument} is {type_.value}"
        if name in ("min", "max") and type_ is Type.BOOLEAN:
            return f"{label}.{name}({argument}): booleans have no order"
        return Field("register", (label, name, argument), _EXTRACTIONS[type_])


def _unknown_capture(name: str, captures: Mapping[str, Node]) -> str:
    known = ", ".join(captures) or "none; declare one: capture amount = (object -> 'amount')::numeric;"
    return f"unknown capture {name}; the captures of this pattern are: {known}"


TEXT_CHARS_MAX = 1_000
"""A longer captured text is kept as null, so that an instance stays small."""

Values = tuple["Value | None", ...]
"""The captures of one event, in the order of their definition."""


class LoopValues(NamedTuple):
    """What a loop keeps of its rounds; each tuple has one entry per capture."""

    rounds: int
    first: Values
    last: Values
    sum: Values
    min: Values
    max: Values


Entry = Values | LoopValues | tuple[int, ...] | None
Memory = tuple[Entry, ...]
"""One entry per label: captures of a match (None: no match yet), of a loop, or the times of a count."""


@dataclass(frozen=True, slots=True)
class AlteredSubject:
    """The subject of an event, with another answer of one condition."""

    subject: object
    text: str
    truth: bool


class Registers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The registers of a compiled pattern. `counts` are (times, duration in µs).

    `each` is the number of instances that may run at the same time, 0 for a pattern with one; `start` is the predicate of the
    events that start one."""

    captures: tuple[tuple[str, str], ...] = ()
    matches: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()
    each: int = 0
    start: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        counts = tuple(LABEL_OF_COUNT.format(number) for number in range(1, len(self.counts) + 1))
        return (*self.matches, *self.loops, *counts)


@dataclass(frozen=True)
class RegisterProgram:
    """The registers of a pattern, ready to run. `conditions` are the texts of all conditions of the pattern."""

    registers: Registers
    conditions: tuple[str, ...]

    @cached_property
    def captures(self) -> tuple[Node, ...]:
        return tuple(parse_value(text) for _, text in self.registers.captures)

    @cached_property
    def names(self) -> RegisterNames:
        captures = {name: node for (name, _), node in zip(self.registers.captures, self.captures, strict=True)}
        return RegisterNames(captures, frozenset(self.registers.matches), frozenset(self.registers.loops))

    @cached_property
    def _parsed_conditions(self) -> dict[str, Condition]:
        counts = {REACHED.format(number) for number in range(1, len(self.registers.counts) + 1)}
        return {text: parse_with_names(text, self.names) for text in self.conditions if text not in counts}

    @cached_property
    def static(self) -> tuple[str, ...]:
        """The conditions that read the event alone; an engine may evaluate them beforehand."""
        return tuple(text for text, condition in self._parsed_conditions.items() if not _reads_registers(condition))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """What captures and conditions over registers read of an event."""
        nodes = [*self.captures, *(c.tree for c in self._parsed_conditions.values() if _reads_registers(c))]
        return tuple(dict.fromkeys(field for node in nodes for field in fields_of(node) if field.root != "register"))

    @cached_property
    def dynamic(self) -> dict[str, Callable[[Sequence[Value | None], Memory, int], bool | None]]:
        """The conditions that read registers: functions of the event's fields, the memory, and the time."""
        functions = {text: self._function(c) for text, c in self._parsed_conditions.items() if _reads_registers(c)}
        first = len(self.registers.matches) + len(self.registers.loops)
        for number, (times, duration_us) in enumerate(self.registers.counts):
            functions[REACHED.format(number + 1)] = _reached(first + number, times, duration_us)
        return functions

    @cached_property
    def _capture_functions(self) -> list[Callable[[Sequence[Value | None]], Value | None]]:
        slots = {field: number for number, field in enumerate(self.fields)}
        return [cast(Callable[..., "Value | None"], compile_node(with_slots(node, slots))) for node in self.captures]

    @cached_property
    def _field_functions(self) -> list[Callable[[object], Value | None]]:
        return [cast(Callable[[object], "Value | None"], compile_field(field)) for field in self.fields]

    @property
    def empty(self) -> Memory:
        """The memory of a fresh instance."""
        return tuple(self._empty_entry(number) for number in range(len(self.registers.labels)))

    def read_fields(self, subject: object) -> tuple[Value | None, ...]:
        """The fields of an event, in the order of `fields`; nulls for an example that has truths only."""
        if isinstance(subject, AlteredSubject):
            subject = subject.subject
        if isinstance(subject, Mapping):
            return (None,) * len(self.fields)
        return tuple(function(subject) for function in self._field_functions)

    def record(self, memory: Memory, labels: Iterable[int], fields: Sequence[Value | None] | None, now: int) -> Memory:
        """The memory after an event, or after a timer (no fields), that labels have matched."""
        captured = self._capture(fields)
        entries = list(memory)
        for label in labels:
            entries[label] = self._recorded(label, entries[label], captured, now)
        return tuple(entries)

    def clear(self, memory: Memory, labels: Iterable[int]) -> Memory:
        """The memory after some loops have started again."""
        entries = list(memory)
        for label in labels:
            entries[label] = self._empty_entry(label)
        return tuple(entries)

    def show(self, memory: Memory) -> dict[str, object]:
        """The values that an output carries, by the names that conditions use; timestamps as RFC 3339 texts."""
        shown: dict[str, object] = {}
        names = [name for name, _ in self.registers.captures]
        types = [node.type for node in self.captures]
        for label, entry in zip(self.registers.labels, memory, strict=True):
            if isinstance(entry, LoopValues):
                shown[f"{label}.count"] = entry.rounds
                for word in ("first", "last", "sum", "min", "max"):
                    values = zip(names, getattr(entry, word), types, strict=True)
                    shown.update({f"{label}.{word}({name})": _plain(value, type_) for name, value, type_ in values})
            elif label in self.registers.matches:
                kept = entry if entry is not None else (None,) * len(names)
                values = zip(names, kept, types, strict=True)
                shown.update({f"{label}.{name}": _plain(value, type_) for name, value, type_ in values})
        return shown

    def show_state(self, memory: Memory, now: int) -> dict[str, object]:
        """All that an instance keeps: what an output carries, and how many events each `count` has in its window."""
        counts: dict[str, object] = {}
        first = len(self.registers.matches) + len(self.registers.loops)
        for (times, duration_us), kept in zip(self.registers.counts, memory[first:], strict=True):
            # Equal ones get a number to distinguish them.
            name, place = f"count({times}, {print_duration(duration_us)})", len(counts) + 1
            counts[f"{name} {place}" if name in counts else name] = sum(
                now - at < duration_us for at in cast("tuple[int, ...]", kept)
            )
        return {**self.show(memory), **counts}

    def explain(self, text: str, subject: object, memory: Memory) -> tuple[tuple[str, str], ...]:
        """The values that a condition over registers compares, of the event and of the registers before it: texts and values."""
        condition = self._parsed_conditions[text]
        known = dict(zip(self.fields, self.read_fields(subject), strict=True))
        return tuple(
            (
                canonical_text(field),
                value_text(self._getter(field)(memory) if field.root == "register" else known[field], field.type),
            )
            for field in condition.fields
        )

    def _capture(self, fields: Sequence[Value | None] | None) -> Values:
        if fields is None:
            return (None,) * len(self.captures)
        values = (function(fields) for function in self._capture_functions)
        return tuple(None if isinstance(value, str) and len(value) > TEXT_CHARS_MAX else value for value in values)

    def _empty_entry(self, label: int) -> Entry:
        matches, loops = len(self.registers.matches), len(self.registers.loops)
        if label < matches:
            return None
        nothing = (None,) * len(self.captures)
        if label < matches + loops:
            sums = tuple(0 if node.type.is_number else None for node in self.captures)
            return LoopValues(0, nothing, nothing, sums, nothing, nothing)
        return ()

    def _recorded(self, label: int, entry: Entry, captured: Values, now: int) -> Entry:
        if label < len(self.registers.matches):
            return captured
        if isinstance(entry, LoopValues):
            return LoopValues(
                entry.rounds + 1,
                entry.first if entry.rounds else captured,
                captured,
                tuple(_add(node.type, a, b) for node, a, b in zip(self.captures, entry.sum, captured, strict=True)),
                tuple(_least(a, b) for a, b in zip(entry.min, captured, strict=True)),
                tuple(_greatest(a, b) for a, b in zip(entry.max, captured, strict=True)),
            )
        times = self.registers.counts[label - len(self.registers.matches) - len(self.registers.loops)][0]
        kept = (*cast("tuple[int, ...]", entry), now)
        return kept[-(times - 1) :] if times > 1 else ()

    def _function(self, condition: Condition) -> Callable[[Sequence[Value | None], Memory, int], bool | None]:
        slots = {field: number for number, field in enumerate(self.fields)}
        getters: list[Callable[[Memory], Value | None]] = []
        for field in condition.fields:
            if field.root == "register":
                slots[field] = len(self.fields) + len(getters)
                getters.append(self._getter(field))
        evaluate = cast(Callable[[Sequence["Value | None"]], "bool | None"], compile_node(with_slots(condition.tree, slots)))
        return lambda fields, memory, now: evaluate([*fields, *(getter(memory) for getter in getters)])

    def _getter(self, field: Field) -> Callable[[Memory], Value | None]:
        label, name, *argument = map(str, field.path)
        number = self.registers.labels.index(label)
        captures = [capture for capture, _ in self.registers.captures]
        if label in self.registers.matches:
            index = captures.index(name)
            return lambda memory: None if memory[number] is None else cast(Values, memory[number])[index]
        if name == "count":
            return lambda memory: cast(LoopValues, memory[number]).rounds
        position, index = LoopValues._fields.index(name), captures.index(argument[0])
        return lambda memory: cast(Values, cast(LoopValues, memory[number])[position])[index]


def _plain(value: object, type: Type) -> object:
    """A timestamp as text; a numeric without zeros at its end, which engines print differently."""
    if type is Type.TIMESTAMPTZ and isinstance(value, int):
        return moment_text(value)
    return Decimal(format(value.normalize(), "f")) if isinstance(value, Decimal) else value


def _reads_registers(condition: Condition) -> bool:
    return any(field.root == "register" for field in condition.fields)


def _reached(label: int, times: int, duration_us: int) -> Callable[[Sequence[Value | None], Memory, int], bool | None]:
    """Whether one more event makes `times` of them less than a duration apart."""

    def evaluate(fields: Sequence[Value | None], memory: Memory, now: int) -> bool | None:
        kept = cast("tuple[int, ...]", memory[label])
        return times == 1 or (len(kept) == times - 1 and now - kept[0] < duration_us)

    return evaluate


def _add(type: Type, total: Value | None, value: Value | None) -> Value | None:
    """An overflow is unknown, and stays so until the loop starts again. Null is skipped."""
    if value is None or total is None or not type.is_number:
        return total
    exact = cast("int | Decimal", total) + cast("int | Decimal", value)
    return to_bigint(exact) if type is Type.INTEGER else to_numeric(exact)


def _least(a: Value | None, b: Value | None) -> Value | None:
    return a if b is None else b if a is None else min(a, b)


def _greatest(a: Value | None, b: Value | None) -> Value | None:
    return a if b is None else b if a is None else max(a, b)


def evaluator_with_memory(program: RegisterProgram, base: Evaluator, memory: Memory, now: int) -> Evaluator:
    """An evaluator that also knows the conditions over registers; `base` evaluates the others.

    A subject that is a mapping gives the truths themselves: the examples of an analysis."""

    def evaluate(text: str, subject: object) -> bool | None:
        function = program.dynamic.get(text)
        if function is None or isinstance(subject, Mapping):
            return base(text, subject)
        if isinstance(subject, AlteredSubject):
            return subject.truth if subject.text == text else function(program.read_fields(subject.subject), memory, now)
        return function(program.read_fields(subject), memory, now)

    return evaluate


def evaluator_at_start(program: RegisterProgram, evaluator: Evaluator) -> Evaluator:
    """Whatever starts an instance sees empty registers."""
    return evaluator_with_memory(program, evaluator, program.empty, 0)


def make_registers(pattern: t.Pattern) -> Registers | None:
    """The registers of a pattern; None for one that keeps nothing and has one instance per key."""
    expr = t.lower(pattern.expr)
    matches: list[str] = []
    loops: list[str] = []
    counts: list[tuple[int, int]] = []
    for node in t.walk(expr):
        match node:
            case t.Match(_, str() as label):
                matches.append(label)
            case t.Chain(steps):
                matches += [step.label for step in steps if step.label is not None]
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
        case t.Match(predicate) | t.Count(predicate=predicate):
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

    def lower(self, node: NodeT) -> NodeT:
        """An expression with its counts lowered."""
        if not isinstance(node, t.Count):
            return with_parts(node, self.lower)
        self.number += 1
        reached = t.Match(t.And((node.predicate, t.Condition(REACHED.format(self.number)))))
        rounds = t.Loop(t.Match(node.predicate), None, LABEL_OF_COUNT.format(self.number))
        return cast(NodeT, t.SelectStar((reached, rounds)))
