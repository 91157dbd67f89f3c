"""Compares two conditions by meaning: equivalent, stricter, looser or different, with an example event; and explains the answer of one.

Every value that the conditions read is a variable. Where it is only compared with constants, a few values stand for all: the constants,
one between each two, one beyond each end, and null. A clause that cannot be split up so (patterns, arithmetic, one field against
another) is a variable of its own. So "no event makes them differ" is proved over more events than there are; that they differ is shown by
an event on which both conditions were evaluated. Where neither succeeds, the answer is undecided. An explanation gives the value of
every clause and operand for one event."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import cast

from headrace.lang.condition.condition import Condition, canonical_text
from headrace.lang.condition.python_printer import compile_node, to_python
from headrace.lang.condition.subject import Json, Sample, Subject, jsonb_text, moment_of, moment_text, number_text
from headrace.lang.condition.tree import (
    Between,
    Call,
    Compare,
    Constant,
    Extraction,
    Field,
    In,
    Is,
    Junction,
    KeyOrIndex,
    Like,
    Node,
    Not,
    Slot,
    Type,
    Value,
    with_slots,
)
from headrace.lang.nodes import parts_of, with_parts

COMBINATIONS_MAX = 50_000
_DEFAULT_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
_TRUTHS: tuple[Value | None, ...] = (True, False, None)
_STEP_US = 1_000_000


class Difference(StrEnum):
    """How a new condition relates to an old one."""

    EQUIVALENT = "equivalent"
    STRICTER = "stricter"
    LOOSER = "looser"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ConditionComparison:
    """`only_old` is an event that only the old condition matches, `only_new` one that only the new one matches."""

    difference: Difference
    only_old: Sample | None = None
    only_new: Sample | None = None


def compare_conditions(old: Condition, new: Condition) -> ConditionComparison:
    """How the events that match relate. Unknown counts as no match, as for a rule."""
    space = TruthSpace([old, new])
    differing: dict[str, bool] = {"old": False, "new": False}
    samples: dict[str, Sample] = {}
    if not space.is_small:
        return ConditionComparison(Difference.UNDECIDED)
    for values, (a, b) in space.answers():
        if (a is True) == (b is True):
            continue
        side = "old" if a is True else "new"
        differing[side] = True
        if side not in samples and (sample := space.sample(values)) is not None:
            seen = (to_python(old)(sample) is True, to_python(new)(sample) is True)
            if seen == (side == "old", side == "new"):
                samples[side] = sample
        if len(samples) == 2:
            break
    return ConditionComparison(_difference(differing, samples), samples.get("old"), samples.get("new"))


def _difference(differing: Mapping[str, bool], samples: Mapping[str, Sample]) -> Difference:
    if any(differing[side] and side not in samples for side in differing):
        # Perhaps no event is like that: an example would be a guess. Two examples say enough, though.
        return Difference.DIFFERENT if len(samples) == 2 else Difference.UNDECIDED
    if differing["old"] and differing["new"]:
        return Difference.DIFFERENT
    if differing["old"]:
        return Difference.STRICTER
    return Difference.LOOSER if differing["new"] else Difference.EQUIVALENT


def describe_difference(comparison: ConditionComparison) -> str | None:
    """The difference in words; None where it is undecided."""
    old, new = (None if sample is None else _show_sample(sample) for sample in (comparison.only_old, comparison.only_new))
    match comparison.difference:
        case Difference.EQUIVALENT:
            return "equivalent: the same events match"
        case Difference.STRICTER:
            return f"stricter: {old} no longer matches"
        case Difference.LOOSER:
            return f"looser: {new} matches too"
        case Difference.DIFFERENT:
            return f"different: {old} no longer matches, {new} does"
        case Difference.UNDECIDED:
            return None


def _show_sample(sample: Sample) -> str:
    """The payload of an example, and what else matters of it."""
    facts = [jsonb_text(sample.payload)]
    facts += [f"key {sample.key}"] if sample.key is not None else []
    facts += [f"type {sample.type}"] if sample.type else []
    facts += [f"headers {jsonb_text(dict(sample.headers))}"] if sample.headers else []
    facts += [f"emitted at {sample.emitted_at.isoformat()}"] if sample.emitted_at != _DEFAULT_MOMENT else []
    return ", ".join(facts)


class TruthSpace:
    """The answers that several conditions can give together; perhaps more than real events allow, never fewer."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._fields: dict[Field, set[Value]] = {}
        self._opaque: dict[str, int] = {}
        self._trees = [self._with_variables(condition.tree) for condition in conditions]

    @cached_property
    def _values(self) -> list[tuple[Value | None, ...]]:
        """The representatives of each variable: fields, then opaque clauses."""
        fields = [_representatives(field, constants) for field, constants in self._fields.items()]
        return [*fields, *([_TRUTHS] * len(self._opaque))]

    @property
    def is_small(self) -> bool:
        return prod(len(values) for values in self._values) <= COMBINATIONS_MAX

    def answers(self) -> Iterator[tuple[tuple[Value | None, ...], tuple[bool | None, ...]]]:
        """Values of the variables, and what the conditions answer."""
        functions = [cast(Callable[..., "bool | None"], compile_node(tree)) for tree in self._trees]
        for values in itertools.product(*self._values):
            yield values, tuple(function(values) for function in functions)

    def sample(self, values: Sequence[Value | None]) -> Sample | None:
        """An event with these values; None where two of them exclude each other or cannot be written."""
        builder = _SampleBuilder()
        for field, value in zip(self._fields, values, strict=False):
            if not builder.set(field, value):
                return None
        return builder.sample()

    def _with_variables(self, node: Node) -> Node:
        """The condition with a slot for every variable. Fields are counted from the first slot, opaque clauses from the last."""
        match node:
            case Junction() | Not():
                return with_parts(node, self._with_variables)
            case _ if (simple := _simple_constants(node)) is not None:
                field, constants = simple
                self._fields.setdefault(field, set()).update(constants)
                return with_slots(node, {field: [*self._fields].index(field)})
            case Is() if node.operand.type is Type.BOOLEAN and not isinstance(node.operand, Field):
                return Is(self._with_variables(node.operand), node.answer)
            case Constant():
                return node
            case _:
                number = self._opaque.setdefault(canonical_text(node), len(self._opaque))
                if (guess := _matching_text(node)) is not None:
                    # This is for the example only: the clause itself stays a variable of its own.
                    self._fields.setdefault(guess[0], set()).add(guess[1])
                return Slot(-1 - number, Type.BOOLEAN)


def _simple_constants(node: Node) -> tuple[Field, list[Value]] | None:
    """The field of a clause that compares it with constants only, and the constants; None for any other clause."""
    match node:
        case Field(extraction=extraction) if extraction.type is Type.BOOLEAN:
            return node, []
        case Compare(_, Field() as field, Constant(value)) | Compare(_, Constant(value), Field() as field):
            return field, [value]
        case In(Field() as field, items) if all(isinstance(item, Constant) for item in items):
            return field, [cast(Constant, item).value for item in items]
        case Between(Field() as field, Constant(low), Constant(high)):
            return field, [low, high]
        case Is(Field() as field):
            return field, []
    return None


def _matching_text(node: Node) -> tuple[Field, str] | None:
    """A text that a pattern probably matches."""
    match node:
        case Like(Field() as field, pattern):
            return field, pattern.replace("%", "").replace("_", "x")
        case Call("starts_with", (Field() as field, Constant(str() as prefix))):
            return field, prefix
    return None


def _representatives(field: Field, constants: set[Value]) -> tuple[Value | None, ...]:
    """Values that answer every comparison with the constants in each way that any value could."""
    match field.type:
        case Type.BOOLEAN:
            return _TRUTHS
        case Type.TEXT:
            texts = sorted(cast("set[str]", constants))
            # Right after a constant, before any longer one; the empty text comes before all.
            return (*dict.fromkeys(["", *(text for c in texts for text in (c, c + "\x01"))]), None)
        case Type.INTEGER:
            whole = [number for c in cast("set[int | Decimal]", constants) for number in _around(c, Decimal(1))]
            return (*sorted({int(number) for number in whole} or {0}), None)
        case Type.TIMESTAMPTZ:
            moments = cast("set[int]", constants)
            return (*sorted({m + step for m in moments for step in (-_STEP_US, -1, 0, 1, _STEP_US)} or {0}), None)
        case Type.NUMERIC:
            return (*_numerics(sorted(Decimal(cast("int | Decimal", c)) for c in constants)), None)


def _around(value: int | Decimal, step: Decimal) -> list[Decimal]:
    number = Decimal(value)
    floor = number.to_integral_value(rounding="ROUND_FLOOR")
    return [floor - step, floor, floor + step, floor + 2 * step]


def _numerics(constants: Sequence[Decimal]) -> tuple[Value | None, ...]:
    if not constants:
        return (Decimal(0),)
    between = [(a + b) / 2 for a, b in itertools.pairwise(constants)]
    return tuple(sorted({constants[0] - 1, *constants, *between, constants[-1] + 1}))


class _SampleBuilder:
    """An event, value by value."""

    def __init__(self) -> None:
        self._documents: dict[str, Json] = {"object": {}, "headers": {}}
        self._columns: dict[str, str | None] = {"type": "", "key": None}
        self._emitted_at = _DEFAULT_MOMENT

    def set(self, field: Field, value: Value | None) -> bool:
        """Whether the event can have the value at the field."""
        if field.extraction is Extraction.COLUMN:
            moment = moment_of(cast(int, value)) if value is not None else None
            self._emitted_at = moment or self._emitted_at
            return moment is not None
        if field.root in self._columns:
            return self._set_column(field, value)
        if value is None:
            return True
        if field.extraction in (Extraction.TYPEOF, Extraction.ARRAY_LENGTH, Extraction.HAS_KEY):
            return self._set_shape(field, value)
        return self._put(field, _json_of(field, value))

    def sample(self) -> Sample:
        headers = cast("dict[str, Json]", self._documents["headers"])
        return Sample(self._documents["object"], self._columns["type"] or "", self._columns["key"], headers, self._emitted_at)

    def _set_column(self, field: Field, value: Value | None) -> bool:
        if field.root == "type" and value is None:
            return False
        self._columns[field.root] = None if value is None else _text_of(field, value)
        return True

    def _set_shape(self, field: Field, value: Value) -> bool:
        if field.extraction is Extraction.HAS_KEY:
            return value is False or self._put(Field(field.root, (*field.path, field.key or ""), Extraction.TEXT), True)
        if field.extraction is Extraction.ARRAY_LENGTH:
            return 0 <= cast(int, value) <= 1_000 and self._put(field, [None] * cast(int, value))
        shapes: dict[str, Json] = {"null": None, "boolean": True, "string": "", "number": 0, "array": [], "object": {}}
        return value in shapes and self._put(field, shapes[cast(str, value)])

    def _put(self, field: Field, value: Json) -> bool:
        """Puts a value at the path; False where something else is there already, or the path leads into an array."""
        if not field.path or not all(isinstance(step, str | KeyOrIndex) for step in field.path):
            return False
        place = cast("dict[str, Json]", self._documents[field.root])
        *parents, last = (str(step.number) if isinstance(step, KeyOrIndex) else cast(str, step) for step in field.path)
        for step in parents:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                return False
            place = inner
        if last in place and place[last] != value:
            return False
        place[last] = value
        return True


def _json_of(field: Field, value: Value) -> Json:
    """The JSON value from which the field extracts a value."""
    return _text_of(field, value) if field.extraction.is_from_text or field.type is Type.TEXT else value


def _text_of(field: Field, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.type is Type.TIMESTAMPTZ:
        return moment_text(cast(int, value))
    return format(value, "f") if isinstance(value, Decimal) else str(value)


@dataclass(frozen=True, slots=True)
class ClauseValue:
    """A clause or operand: its canonical text, its value as text (`unknown` for none), and its parts without constants."""

    text: str
    value: str
    parts: tuple[ClauseValue, ...]


def explain(condition: Condition, subject: Subject) -> ClauseValue:
    """The value of the condition and of everything in it, as Python computes them."""
    return _explain_node(condition.tree, subject)


def _explain_node(node: Node, subject: Subject) -> ClauseValue:
    parts = tuple(_explain_node(child, subject) for child in parts_of(node) if not isinstance(child, Constant))
    return ClauseValue(canonical_text(node), value_text(compile_node(node)(subject), node.type), parts)


def value_text(value: Value | None, type: Type) -> str:
    """A value as a person reads it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if type is Type.TIMESTAMPTZ and isinstance(value, int):
        return moment_text(value)
    text = number_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
