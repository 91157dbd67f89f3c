"""Pruning: the rules that can fire on some event of a batch, and on which, found by a value that each of them needs.

A rule that needs a text, a prefix, or a whole number in a range, is looked at only on the events that have it. So a batch costs as
much as the rules that come into question, not as all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headrace.evaluate.columns import Column, Integers, Texts
from headrace.evaluate.sorting import sort_codes
from headrace.lang.condition import Between, Compare, Constant, Field, In, Junction, Node, find_prefix

RULES_MIN = 64
"""Fewer rules are all evaluated on all events: to look them up would take as long."""
_WHOLE_MAX = 2**62
Rows = NDArray[Any]


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

    def candidates(self, column: Integers) -> Iterator[tuple[int, Rows]]:
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
        # Of several, the one that tells most rules apart; a prefix leaves more events than as many texts or numbers.
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

    def candidates(self, columns: Mapping[Field, Column]) -> Iterator[tuple[int, Rows | None]]:
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
    ) -> Iterator[tuple[int, Rows]]:
        codes, distinct = column.dictionary
        order = sort_codes(codes, len(distinct) + 1)
        ends = np.cumsum(np.bincount(codes, minlength=len(distinct)))
        found: dict[int, list[Rows]] = {}
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
        case Compare("=", Field() as field, Constant(value)) if _is_whole(value):
            return _Need(field, low=cast(int, value), high=cast(int, value))
        case Between(Field() as field, Constant(low), Constant(high)) if _is_whole(low) and _is_whole(high):
            return _Need(field, low=cast(int, low), high=cast(int, high))
        case In(Field(root) as field, items) if root != "type" and all(_text(item) is not None for item in items):
            return _Need(field, tuple(dict.fromkeys(cast(str, _text(item)) for item in items)))
    prefix = find_prefix(clause)
    return None if prefix is None or prefix.field.root == "type" else _Need(prefix.field, prefix=prefix.text)


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, Constant) and isinstance(node.value, str) else None


def _is_whole(value: object) -> bool:
    return type(value) is int and abs(value) < _WHOLE_MAX
