"""Access paths: how an index finds the conditions that may be true for an event, without reading the others.

A condition has one or more *keys*, and an event asks for one or more keys; both are texts, so that one index (or one hash table)
serves all kinds. Equalities and `in` lists give their constants, a pattern gives its prefix, and a range gives the blocks of a grid
that it touches. A comparison with one end cannot be a key: it is a *bound*, which an ordered index compares.

Promises: a condition that is true for an event has exactly one key among those the event asks for, and its bound holds; so nothing
is missed, and nothing is found twice. Equalities and `in` lists are decided by the key; all else is checked again in the residual."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.lang.condition.condition import Condition, canonical_text
from headrace.lang.condition.python_printer import compile_node
from headrace.lang.condition.subject import Sample
from headrace.lang.condition.text_patterns import like_parts
from headrace.lang.condition.tree import (
    Between,
    Call,
    Compare,
    Constant,
    Extraction,
    Field,
    In,
    Junction,
    Like,
    Node,
    Type,
    Value,
    fields_of,
)

# An index entry of PostgreSQL holds about 2 700 bytes: four such constants, an event type and a bound. A longer one stays in the residual.
KEY_BYTES_MAX: Final = 500
EQUALITIES_MAX: Final = 3
# A longer list beside an equality stays in the residual: each item is a row of the index.
ITEMS_BESIDE_EQUALITY_MAX: Final = 16
BOUND_CHARS_MAX: Final = 50
# Few lengths, because an event asks for each that occurs.
PREFIX_LENGTHS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# The blocks of the grid are 16**level wide. A range takes the level at which it touches at most five blocks.
LEVEL_MIN, LEVEL_MAX = -12, 16
BLOCK_BOUND: Final = 9e18
# How much an equality on the field is expected to narrow: text most, booleans least. Others have no agreed text form.
_SELECTIVITY: Final = {
    Extraction.TEXT: 0,
    Extraction.INT: 1,
    Extraction.BIGINT: 1,
    Extraction.TEXT_INT: 1,
    Extraction.TEXT_BIGINT: 1,
    Extraction.BOOLEAN: 2,
    Extraction.TEXT_BOOLEAN: 2,
}
_FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NOTHING = Sample({})


@dataclass(frozen=True, slots=True)
class Equality:
    """`field = constant`. `text` is the constant in the field's text form: the text itself, an integer's digits, `true` or `false`."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class InList:
    """`field in (constants)`, each constant once and in the field's text form."""

    field: Field
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The field's text starts with this; as long as one of PREFIX_LENGTHS."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Interval:
    """The field's number or moment (in seconds) is from low to high, both a little wider than in the condition."""

    field: Field
    low: float
    high: float

    @property
    def level(self) -> int:
        width = self.high - self.low
        if width <= 0:
            return 0
        # A single value has blocks of at least 1: blocks as narrow as its rounding are of another level for every magnitude.
        is_point = width <= 3 * _slack(max(abs(self.low), abs(self.high)))
        return min(max(math.ceil(math.log2(width / 4) / 4), 0 if is_point else LEVEL_MIN), LEVEL_MAX)

    @property
    def blocks(self) -> Iterable[int]:
        return range(block(self.low, self.level), block(self.high, self.level) + 1)


@dataclass(frozen=True, slots=True)
class Bound:
    """`field >= value` if it is a lower bound, else `field <= value`; a superset of the comparison in the condition."""

    field: Field
    is_lower: bool
    value: float | str


@dataclass(frozen=True, slots=True)
class AccessPath:
    """What a condition can be found by. Without any of it, every condition of the shape must be read."""

    equalities: tuple[Equality, ...] = ()
    choice: InList | Prefix | Interval | None = None
    bound: Bound | None = None

    @property
    def has_key(self) -> bool:
        return bool(self.equalities or self.choice)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the condition; one empty key where nothing gives one."""
        texts = [equality.text for equality in self.equalities]
        match self.choice:
            case InList(texts=items):
                return tuple(join_key([*texts, item]) for item in items)
            case Prefix(text=text):
                return (join_key([*texts, f"{len(text)}:{text}"]),)
            case Interval() as interval:
                blocks = [f"{interval.level}:{number}" for number in interval.blocks]
                # A range without values still has a row, which no event asks for.
                return tuple(join_key([*texts, key]) for key in blocks or ["empty"])
        return (join_key(texts),)

    @property
    def variant(self) -> int | None:
        """Says which of an event's keys this condition has: the length of its prefix, or the level of its blocks."""
        match self.choice:
            case Prefix(text=text):
                return len(text)
            case Interval() as interval:
                return interval.level
        return None

    @property
    def text(self) -> str:
        """What paths of one shape have in common."""
        parts = [f"{canonical_text(equality.field)} = $key" for equality in self.equalities]
        if self.choice:
            parts.append(f"{canonical_text(self.choice.field)} {type(self.choice).__name__} $key")
        if self.bound:
            parts.append(f"{canonical_text(self.bound.field)} {'>=' if self.bound.is_lower else '<='} $bound")
        return " and ".join(parts)


def join_key(texts: list[str]) -> str:
    """Each text but the last with its length, so that different texts never give the same key."""
    return "".join(f"{len(text)}:{text}" for text in texts[:-1]) + texts[-1] if texts else ""


def block_scale(level: int) -> float:
    """A number times this, rounded down, is its block. A power of two: the product is exact."""
    return 2.0 ** (-4 * level)


def block(number: float, level: int) -> int:
    return math.floor(min(max(number * block_scale(level), -BLOCK_BOUND), BLOCK_BOUND))


def find_access(condition: Condition) -> tuple[AccessPath, Condition | None]:
    """The access path of a condition, and the residual: what is left to check of a condition that was found. None if nothing is.

    In this order: equalities; one `in` list, prefix or range; one comparison with a single end."""
    tree = condition.tree
    conjuncts = tree.operands if isinstance(tree, Junction) and tree.word == "and" else (tree,)
    equalities = sorted(
        ((node, equality) for node in conjuncts if (equality := _equality(node)) is not None),
        key=lambda candidate: _SELECTIVITY[candidate[1].field.extraction],
    )[:EQUALITIES_MAX]
    decided = [node for node, _ in equalities]
    is_selective = any(_SELECTIVITY[equality.field.extraction] < 2 for _, equality in equalities)
    others = [node for node in conjuncts if node not in decided]
    choice = _choice(others, ITEMS_BESIDE_EQUALITY_MAX if is_selective else None)
    if isinstance(choice, InList):
        decided += [node for node in others if _in_list(node) == choice]
    used = choice.field if isinstance(choice, Interval) else None
    bound = next((bound for node in others if (bound := _bound(node)) is not None and bound.field != used), None)
    path = AccessPath(tuple(equality for _, equality in equalities), choice, bound)
    rest = [node for node in conjuncts if node not in decided]
    if not rest:
        return path, None
    return path, condition if not decided else Condition(rest[0] if len(rest) == 1 else Junction("and", tuple(rest)))


def _choice(nodes: list[Node], items_max: int | None) -> InList | Prefix | Interval | None:
    """The best of the conjuncts besides equalities."""
    finders: tuple[Callable[[Node], InList | Prefix | Interval | None], ...] = (_in_list, find_prefix)
    for find in finders:
        for node in nodes:
            choice = find(node)
            if choice and not (items_max and isinstance(choice, InList) and len(choice.texts) > items_max):
                return choice
    ranges = _Ranges()
    for node in nodes:
        ranges.add(node)
    for field, (low, high) in ranges.ends.items():
        if isinstance(low, float) and isinstance(high, float):
            return Interval(field, low, high)
        if isinstance(low, str) and isinstance(high, str) and (text := _common_prefix(low, high)):
            # Whatever is between two texts starts as both do.
            return Prefix(field, _cut(text))
    return None


def _equality(node: Node) -> Equality | None:
    if isinstance(node, Field) and node.extraction in (Extraction.BOOLEAN, Extraction.TEXT_BOOLEAN):
        return Equality(node, "true")
    if not isinstance(node, Compare) or node.operator != "=":
        return None
    for field, constant in ((node.left, node.right), (node.right, node.left)):
        if isinstance(field, Field) and isinstance(constant, Constant):
            text = _key_text(field, constant)
            return Equality(field, text) if text is not None else None
    return None


def _key_text(field: Field, constant: Constant) -> str | None:
    # An integer field beside a numeric constant: 5 = 5.0 holds, but their texts differ.
    if field.extraction not in _SELECTIVITY or field.type is not constant.type:
        return None
    text = str(constant.value)
    text = text.lower() if isinstance(constant.value, bool) else text
    return text if len(text.encode()) <= KEY_BYTES_MAX else None


def _in_list(node: Node) -> InList | None:
    if not isinstance(node, In) or not isinstance(node.operand, Field):
        return None
    field = node.operand
    texts = [_key_text(field, item) if isinstance(item, Constant) else None for item in node.items]
    constants = tuple(dict.fromkeys(text for text in texts if text is not None))
    return InList(field, constants) if None not in texts else None


def find_prefix(node: Node) -> Prefix | None:
    """The prefix that a `like` or `starts_with` needs, cut to one of PREFIX_LENGTHS."""
    match node:
        case Like(operand=Field() as field, fold=False):
            parts = like_parts(node.pattern) or ((),)
            literal = parts[0][: parts[0].index(None)] if None in parts[0] else parts[0]
            text = "".join(char for char in literal if char is not None)
        case Call(name="starts_with", arguments=(Field() as field, Constant(value=str() as text))):
            pass
        case _:
            return None
    return Prefix(field, _cut(text)) if text else None


def _cut(text: str) -> str:
    """As much of a text as one of PREFIX_LENGTHS."""
    return text[: max(length for length in PREFIX_LENGTHS if length <= len(text))]


def _common_prefix(low: str, high: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def _bound(node: Node) -> Bound | None:
    ranges = _Ranges()
    ranges.add(node)
    for field, (low, high) in ranges.ends.items():
        value = low if low is not None else high
        if value is not None:
            return Bound(field, low is not None, value[:BOUND_CHARS_MAX] if isinstance(value, str) else value)
    return None


_Ends = tuple[float | str | None, float | str | None]


class _Ranges:
    """The ends that conjuncts give to fields. Numbers and moments are floats, moved outwards by more than any engine's rounding."""

    def __init__(self) -> None:
        self.ends: dict[Field, _Ends] = {}

    def add(self, node: Node) -> None:
        match node:
            case Between(operand=Field() as field):
                self._narrow(field, ">=", node.low)
                self._narrow(field, "<=", node.high)
            case Compare(operator="=" | "<" | "<=" | ">" | ">="):
                if isinstance(node.left, Field):
                    self._narrow(node.left, node.operator, node.right)
                elif isinstance(node.right, Field):
                    self._narrow(node.right, _FLIPPED[node.operator], node.left)

    def _narrow(self, field: Field, operator: str, end: Node) -> None:
        value = _constant_value(end)
        if value is None or isinstance(value, bool):
            return
        low, high = self.ends.get(field, (None, None))
        if operator in ("=", ">", ">="):
            low = low if low is not None else _end(value, end.type, -1)
        if operator in ("=", "<", "<="):
            high = high if high is not None else _end(value, end.type, 1)
        self.ends[field] = (low, high)


def _constant_value(node: Node) -> Value | None:
    """The value of an expression without fields, such as `100 + 20`; None if it is unknown or depends on the event."""
    return None if fields_of(node) else compile_node(node)(_NOTHING)


def _end(value: Value, type: Type, direction: int) -> float | str:
    if isinstance(value, str):
        return value
    number = value / 1_000_000 if type is Type.TIMESTAMPTZ and isinstance(value, int) else float(Decimal(value))
    return number + direction * _slack(abs(number))


def _slack(magnitude: float) -> float:
    """Two steps of a double: engines may round the same number to neighbours."""
    return 2 * math.ulp(magnitude)
