"""Conditions over columns: the truth of a clause for all events of a batch at once, and which rules need to be looked at.

Promises: the truths of the Python printer. Whole numbers and texts are compared with constants by whole columns. Any other clause is
evaluated by the printer itself, once per distinct value of its field, or per event if it reads several. A rule that needs a text, a
prefix, or a whole number in a range, is looked at only on the events that have it, so that a batch costs as much as the rules that come
into question, not as all of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.evaluate.columns import Column, FieldReader, Integers, Texts
from headrace.evaluate.rows import sort_codes
from headrace.lang.condition import (
    Between,
    Compare,
    Condition,
    Constant,
    Field,
    In,
    Is,
    Junction,
    Node,
    Not,
    TruthTable,
    Type,
    Value,
    compile_node,
    fields_of,
    find_prefix,
    parts_of,
    with_parts,
    with_slots,
)

FALSE, UNKNOWN, TRUE = 0, 1, 2
"""In this order `and` is the least of truths, `or` the greatest, and `not` the distance from TRUE."""
Truths = NDArray[np.int8]
KNOWN_MAX = 100_000
"""Distinct values whose truth a clause remembers."""
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Clause:
    """A part of a condition without `and`, `or`, `not`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fields = fields_of(node)
        slots = {field: number for number, field in enumerate(self._fields)}
        self._function = cast("Callable[[Sequence[Value | None]], bool | None]", compile_node(with_slots(node, slots)))
        self._known: dict[tuple[type[object], Value | None], int] = {}

    def truths(self, columns: Mapping[Field, Column], rows: int) -> Truths:
        if not self._fields:
            return np.full(rows, _truth(self._function(())), np.int8)
        if len(self._fields) > 1:
            values = zip(*(columns[field].to_list() for field in self._fields), strict=True)
            return np.fromiter((_truth(self._function(row)) for row in values), np.int8, rows)
        column = columns[self._fields[0]]
        whole = self._compare_integers(column) if isinstance(column, Integers) else None
        if whole is not None:
            return whole
        if isinstance(column, Texts) and (by_text := self._compare_texts(column)) is not None:
            return by_text
        codes, distinct = column.distinct
        return self._distinct_truths(distinct)[codes]

    def _distinct_truths(self, values: Sequence[Value | None]) -> Truths:
        known = self._known
        if len(known) > KNOWN_MAX:
            known.clear()
        truths = []
        for value in values:
            place = (type(value), value)
            truth = known.get(place)
            if truth is None:
                truth = known[place] = _truth(self._function((value,)))
            truths.append(truth)
        return np.array(truths, np.int8)

    def _compare_integers(self, column: Integers) -> Truths | None:
        """A comparison of the field itself with whole numbers; None for any other clause."""
        match self._node:
            case Is(Field(), None):
                return np.where(column.is_known, FALSE, TRUE).astype(np.int8)
            case Compare(sign, Field(), Constant() as constant) if sign in _OPERATORS and _is_whole(constant):
                holds = _OPERATORS[sign](column.values, constant.value)
            case Between(Field(), Constant() as low, Constant() as high) if _is_whole(low) and _is_whole(high):
                holds = (column.values >= cast(int, low.value)) & (column.values <= cast(int, high.value))
            case In(Field(), items) if all(isinstance(item, Constant) and _is_whole(item) for item in items):
                holds = np.isin(column.values, [cast(int, cast(Constant, item).value) for item in items])
            case _:
                return None
        return np.where(column.is_known, holds * np.int8(TRUE), np.int8(UNKNOWN))

    def _compare_texts(self, column: Texts) -> Truths | None:
        """Equality of the field itself with texts; None for any other clause."""
        match self._node:
            case Compare("=" | "<>" as sign, Field(), Constant(str() as text)):
                items = [text]
            case In(Field(), nodes) if all(isinstance(node, Constant) for node in nodes):
                sign, items = "=", [cast(str, cast(Constant, node).value) for node in nodes]
            case _:
                return None
        codes, texts = column.dictionary
        holds = pc.is_in(texts, pa.array(items, pa.string())).to_numpy(zero_copy_only=False) == (sign == "=")
        return np.append(holds * np.int8(TRUE), np.int8(UNKNOWN))[codes]


def fold_constants(node: Node) -> Node:
    """The tree with arithmetic over constants as constants, which whole columns can be compared with."""
    match node:
        case Junction() | Not():
            return with_parts(node, fold_constants)
        case Compare() | Between() | In():
            return with_parts(node, _fold_value)
    return node


def _fold_value(node: Node) -> Node:
    if isinstance(node, Field | Constant) or fields_of(node):
        return node
    value = cast("Callable[[object], Value | None]", compile_node(node))(None)
    return node if value is None else Constant(value, node.type)


def _is_whole(constant: Constant) -> bool:
    return constant.type in (Type.INTEGER, Type.TIMESTAMPTZ) and abs(cast(int, constant.value)) < 2**63


def _truth(value: bool | None) -> int:
    return UNKNOWN if value is None else TRUE if value else FALSE


class Conditions:
    """Many conditions; a clause that several have is evaluated once per batch."""

    def __init__(self, trees: Iterable[Node]) -> None:
        self._clauses: dict[Node, Clause] = {}
        for tree in trees:
            self._add(tree)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(dict.fromkeys(field for node in self._clauses for field in fields_of(node)))

    def _add(self, node: Node) -> None:
        match node:
            case Junction() | Not():
                for part in parts_of(node):
                    self._add(part)
            case _:
                self._clauses.setdefault(node, Clause(node))

    def over(self, columns: Mapping[Field, Column], rows: int) -> BatchTruths:
        """The conditions over one batch."""
        return BatchTruths(self._clauses, columns, rows)


class BatchTruths:
    """The truths of conditions for the events of a batch, each computed when it is first asked for."""

    def __init__(self, clauses: Mapping[Node, Clause], columns: Mapping[Field, Column], rows: int) -> None:
        self._clauses = clauses
        self._columns = columns
        self._rows = rows
        self._truths: dict[Node, Truths] = {}

    def evaluate(self, node: Node) -> Truths:
        match node:
            case Junction():
                combine = np.minimum if node.word == "and" else np.maximum
                truths = self.evaluate(node.operands[0])
                for operand in node.operands[1:]:
                    truths = combine(truths, self.evaluate(operand))
                return truths
            case Not():
                return (TRUE - self.evaluate(node.operand)).astype(np.int8)
        if node not in self._truths:
            self._truths[node] = self._clauses[node].truths(self._columns, self._rows)
        return self._truths[node]


def truth_table(conditions: Sequence[Condition], batch: pa.RecordBatch) -> TruthTable:
    """What conditions answer for the events of a batch, a row per event."""
    trees = [fold_constants(condition.tree) for condition in conditions]
    compiled = Conditions(trees)
    truths = compiled.over(FieldReader(compiled.fields, is_log=False).read(batch), batch.num_rows)
    columns = [truths.evaluate(tree).tolist() for tree in trees]
    return [[None if truth == UNKNOWN else truth == TRUE for truth in row] for row in zip(*columns, strict=True)]


RULES_MIN = 64
"""Fewer rules are all evaluated on all events: to look them up would take as long."""
_WHOLE_MAX = 2**62
RowNumbers = NDArray[Any]


@dataclass(frozen=True)
class _Need:
    """What an event must have for a rule to fire: one of some texts, a text with a prefix, or a whole number from low to high."""

    field: Field
    texts: tuple[str, ...] = ()
    prefix: str = ""
    low: int = 0
    high: int = 0

    @property
    def kind(self) -> tuple[Field, bool]:
        return self.field, bool(self.prefix)


class _Ranges:
    """Rules that need a whole number in a range."""

    def __init__(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        self._lows, self._highs, self._rules = np.array(ranges, np.int64).T
        # The ranges of all rules together, as disjoint ones in ascending order.
        order = np.argsort(self._lows)
        lows, reach = self._lows[order], np.maximum.accumulate(self._highs[order])
        begins = np.append(True, lows[1:] > reach[:-1])
        self._all_lows, self._all_highs = lows[begins], reach[np.append(begins[1:], True)]

    def candidates(self, column: Integers) -> Iterator[tuple[int, RowNumbers]]:
        # Most events are in no range: only the others are sorted.
        places = np.searchsorted(self._all_lows, column.values, side="right") - 1
        inside = np.flatnonzero((places >= 0) & (column.values <= self._all_highs[places]) & column.is_known)
        order = inside[np.argsort(column.values[inside], kind="stable")]
        values = column.values[order]
        begins, finishes = np.searchsorted(values, self._lows), np.searchsorted(values, self._highs, side="right")
        for at in np.flatnonzero(begins < finishes).tolist():
            yield int(self._rules[at]), order[begins[at] : finishes[at]]


class RuleIndex:
    """Rules by the value that they need."""

    def __init__(self, trees: Sequence[Node]) -> None:
        self._always: list[int] = []
        self._texts: dict[Field, dict[str, list[int]]] = {}
        self._prefixes: dict[Field, dict[int, dict[str, list[int]]]] = {}
        """By the length of the prefix, then by the prefix."""
        ranges: dict[Field, list[tuple[int, int, int]]] = {}
        needs = [_needs(tree) if len(trees) >= RULES_MIN else [] for tree in trees]
        # Of several, take the one that distinguishes most rules; a prefix leaves more events than as many texts or numbers.
        values: dict[tuple[Field, bool], set[object]] = {}
        for need in (need for own in needs for need in own):
            values.setdefault(need.kind, set()).add(need.texts or need.prefix or (need.low, need.high))
        for number, own in enumerate(needs):
            if not own:
                self._always.append(number)
                continue
            need = max(own, key=lambda need: (len(values[need.kind]), not need.prefix))
            for text in need.texts:
                self._texts.setdefault(need.field, {}).setdefault(text, []).append(number)
            if need.prefix:
                lengths = self._prefixes.setdefault(need.field, {})
                lengths.setdefault(len(need.prefix), {}).setdefault(need.prefix, []).append(number)
            elif not need.texts:
                ranges.setdefault(need.field, []).append((need.low, need.high, number))
        self._ranges = {field: _Ranges(own) for field, own in ranges.items()}

    def candidates(self, columns: Mapping[Field, Column]) -> Iterator[tuple[int, RowNumbers | None]]:
        """The rules that may fire, each with the rows on which it may; None: on all."""
        yield from ((number, None) for number in self._always)
        for field in dict.fromkeys((*self._texts, *self._prefixes)):
            column = columns[field]
            assert isinstance(column, Texts)
            yield from self._by_text(column, self._texts.get(field, {}), self._prefixes.get(field, {}))
        for field, own in self._ranges.items():
            column = columns[field]
            assert isinstance(column, Integers)
            yield from own.candidates(column)

    @staticmethod
    def _by_text(
        column: Texts, texts: Mapping[str, list[int]], prefixes: Mapping[int, Mapping[str, list[int]]]
    ) -> Iterator[tuple[int, RowNumbers]]:
        codes, distinct = column.dictionary
        order = sort_codes(codes, len(distinct) + 1)
        ends = np.cumsum(np.bincount(codes, minlength=len(distinct)))
        found: dict[int, list[RowNumbers]] = {}
        for code, text in enumerate(distinct.to_pylist()):
            rules = list(texts.get(text, ()))
            for length, numbers in prefixes.items():
                rules += numbers.get(text[:length], ())
            for number in rules:
                found.setdefault(number, []).append(order[ends[code - 1] if code else 0 : ends[code]])
        yield from ((number, np.concatenate(rows) if len(rows) > 1 else rows[0]) for number, rows in found.items())


def _needs(tree: Node) -> list[_Need]:
    """What a rule needs besides its event type, which tells too little."""
    return [need for clause in _clauses(tree) if (need := _need(clause)) is not None]


def _clauses(node: Node) -> Iterator[Node]:
    if isinstance(node, Junction) and node.word == "and":
        for operand in node.operands:
            yield from _clauses(operand)
    else:
        yield node


def _need(clause: Node) -> _Need | None:
    match clause:
        case Compare("=", Field(root) as field, Constant(str() as text)) if root != "type":
            return _Need(field, (text,))
        case Compare("=", Field() as field, Constant(value)) if _is_small_whole(field, value):
            return _Need(field, low=cast(int, value), high=cast(int, value))
        case Between(Field() as field, Constant(low), Constant(high)) if _is_small_whole(field, low, high):
            return _Need(field, low=cast(int, low), high=cast(int, high))
        case In(Field(root) as field, items) if root != "type" and all(_text(item) is not None for item in items):
            return _Need(field, tuple(dict.fromkeys(cast(str, _text(item)) for item in items)))
    prefix = find_prefix(clause)
    return None if prefix is None or prefix.field.root == "type" else _Need(prefix.field, prefix=prefix.text)


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, Constant) and isinstance(node.value, str) else None


def _is_small_whole(field: Field, *values: object) -> bool:
    """Whether the field has whole numbers, and these are some. A numeric may be compared with a whole number, too."""
    is_whole = field.type in (Type.INTEGER, Type.TIMESTAMPTZ)
    return is_whole and all(type(value) is int and abs(value) < _WHOLE_MAX for value in values)
