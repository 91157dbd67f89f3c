"""Comparison of two value sets: is every value of one a value of the other? If not, with an example.

Promises: `holds` is True only if it is proved, and False only with an example that one side accepts and the other rejects. In
every other case it is None: we cannot decide, and `reason` says why.

The compatibility of a new schema with the one before is such a comparison: who keeps working when publishers or readers change first?
`backward`: readers of the new schema can read events of the old one. `forward`: readers of the old schema can read events of the new
one. `full`: both. `none`: nothing is checked. Being a subset carries over, so a chain of checked versions is checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Final, Literal, TypeAlias, get_args

from headrace.core import Invalid
from headrace.definitions.schemas.value_set import (
    Alternative,
    Array,
    Boolean,
    Enumeration,
    JsonValue,
    Null,
    Number,
    Object,
    String,
    ValueSet,
    accepts,
    canonical,
    example_of_pattern,
)

EXAMPLES_MAX: Final = 500
"""Candidates that are tried before we give up."""
FINITE_MAX: Final = 100
"""Integers that a range may have to be compared one by one."""
_FORMATS: Final = {
    "date-time": "2026-01-31T08:30:00Z",
    "date": "2026-01-31",
    "uuid": "0190a3c4-7d52-7000-8000-000000000000",
    "email": "a@example.com",
    "uri": "https://example.com/",
}


@dataclass(frozen=True)
class Comparison:
    """Is one value set a subset of another? None: cannot decide, for the reason. `example` is a value of the first set only."""

    holds: bool | None
    example: str | None = None
    """Canonical JSON."""
    reason: str | None = None


def compare(values: ValueSet, others: ValueSet) -> Comparison:
    """Is every value of the first set in the second?"""
    if is_subset(values, others):
        return Comparison(True)
    for example in islice(_differences(values, others), EXAMPLES_MAX):
        if accepts(values, example) and accepts(others, example) is False:
            return Comparison(False, canonical(example))
    if not (values.is_exact and others.is_exact):
        return Comparison(
            None, reason="a keyword or pattern that the comparison does not understand differs, or hides a difference"
        )
    return Comparison(None, reason="no single alternative covers another, and no example was found")


def is_subset(values: ValueSet, others: ValueSet) -> bool:
    """True only if it is proved that every value of the first set is in the second."""
    if values.opaque is not None and values.opaque == others.opaque:
        return True
    if others.opaque is not None:
        return False
    return others.is_any or all(_is_covered(alternative, others) for alternative in values.alternatives)


def _is_covered(alternative: Alternative, others: ValueSet) -> bool:
    finite = _finite_values(alternative)
    if finite is not None:
        return all(accepts(others, value) for value in finite)
    return any(_is_within(alternative, other) for other in others.alternatives)


def _finite_values(alternative: Alternative) -> list[JsonValue] | None:
    match alternative:
        case Enumeration():
            return alternative.values
        case Null():
            return [None]
        case Boolean():
            return [True, False]
        case Number(is_integer=True, low=Decimal() as low, high=Decimal() as high) if high - low < FINITE_MAX:
            return list(range(int(low), int(high) + 1))
        case _:
            return None


def _is_within(one: Alternative, other: Alternative) -> bool:
    match one, other:
        case Number(), Number():
            return (one.is_integer or not other.is_integer) and _bounds_within(one, other)
        case String(), String():
            return (
                one.length_min >= other.length_min
                and _at_most(one.length_max, other.length_max)
                and other.patterns <= one.patterns
            )
        case Array(), Array():
            return (
                one.items_min >= other.items_min
                and (one.items.is_empty or _at_most(one.items_max, other.items_max))
                and (one.items_max == 0 or is_subset(one.items, other.items))
            )
        case Object(), Object():
            names = one.properties.keys() | other.properties.keys()
            return (
                other.required <= one.required
                and all(is_subset(one.value_of(name), other.value_of(name)) for name in names)
                and is_subset(one.additional, other.additional)
            )
        case _:
            return False


def _at_most(one: int | None, other: int | None) -> bool:
    return other is None or (one is not None and one <= other)


def _bounds_within(one: Number, other: Number) -> bool:
    if other.low is not None and (one.low is None or one.low < other.low):
        return False
    if other.high is not None and (one.high is None or one.high > other.high):
        return False
    # An integer's own bounds are never excluded.
    return not (
        (other.low_is_excluded and one.low == other.low and not one.low_is_excluded)
        or (other.high_is_excluded and one.high == other.high and not one.high_is_excluded)
    )


def examples(values: ValueSet, *, depth: int = 4) -> Iterator[JsonValue]:
    """Some values of a set, simple ones first. Where a pattern or keyword is not understood, they may be none of its values."""
    for alternative in values.alternatives:
        yield from _examples_of(alternative, depth)


def _examples_of(alternative: Alternative, depth: int) -> Iterator[JsonValue]:
    match alternative:
        case Enumeration() | Null() | Boolean():
            yield from _finite_values(alternative) or []
        case Number():
            yield from _numbers(alternative)
        case String():
            yield from _strings(alternative)
        case Array():
            item = _first(alternative.items, depth)
            counts = {alternative.items_min, alternative.items_min + 1, min(alternative.items_max or 0, 1000)}
            yield from ([item] * count for count in sorted(counts) if item is not _NONE or not count)  # type: ignore[misc]
        case Object():
            yield from _objects(alternative, depth)


def _numbers(numbers: Number) -> Iterator[JsonValue]:
    bounds = [bound for bound in (numbers.low, numbers.high) if bound is not None]
    yield 0
    yield from (int(bound) + step for bound in bounds for step in (0, 1, -1))
    yield from (1, -1, Decimal("0.5"))
    yield from (bound + step for bound in bounds for step in (Decimal(0), Decimal("0.5"), Decimal("-0.5")))
    if len(bounds) == 2:
        yield (bounds[0] + bounds[1]) / 2
    yield from (10**20, -(10**20))


def _strings(strings: String) -> Iterator[JsonValue]:
    texts = ["", "a", "0", "x y"]
    if strings.format in _FORMATS:
        texts.insert(0, _FORMATS[strings.format])
    patterns = [example for pattern in sorted(strings.patterns) if (example := example_of_pattern(pattern)) is not None]
    texts[:0] = [*patterns, "".join(patterns)]
    length_max = strings.length_min + 20 if strings.length_max is None else strings.length_max
    for text in texts:
        if len(text) < strings.length_min:
            # Either side of an anchored pattern is wrong, but both are worth a try.
            yield text.ljust(strings.length_min, text[-1:] or "a")
            yield text.rjust(strings.length_min, text[:1] or "a")
        else:
            yield text
    for text in texts[:4]:
        yield text.ljust(min(length_max, 2000), text[-1:] or "a")


def _objects(objects: Object, depth: int) -> Iterator[JsonValue]:
    smallest: dict[str, JsonValue] = {}
    for name in sorted(objects.required):
        value = _first(objects.value_of(name), depth)
        if value is _NONE:
            return
        smallest[name] = value  # type: ignore[assignment]
    yield smallest
    largest = dict(smallest)
    if depth:
        for name, values in objects.properties.items():
            if name not in largest and (value := _first(values, depth)) is not _NONE:
                largest[name] = value  # type: ignore[assignment]
    yield largest


_NONE: Final = object()


def _first(values: ValueSet, depth: int) -> object:
    """A value that is surely in the set; _NONE if we find none."""
    if depth:
        for value in islice(examples(values, depth=depth - 1), 50):
            if accepts(values, value):
                return value
    return _NONE


def _differences(values: ValueSet, others: ValueSet, depth: int = 6) -> Iterator[JsonValue]:
    """Values that are probably in the first set but not in the second."""
    if is_subset(values, others):
        return
    for alternative in values.alternatives:
        if others.opaque is None and _is_covered(alternative, others):
            continue
        yield from islice(_examples_of(alternative, depth), 40)
        for other in others.alternatives:
            match alternative, other:
                case Number(), Number():
                    yield from _around(other)
                case String(), String():
                    yield from _strings_beyond(alternative, other)
                case Object(), Object() if depth:
                    yield from _object_differences(alternative, other, depth - 1)
                case Array(), Array() if depth:
                    yield from _array_differences(alternative, other, depth - 1)


def _around(numbers: Number) -> Iterator[JsonValue]:
    for bound in (numbers.low, numbers.high):
        if bound is not None:
            yield from (bound, int(bound), int(bound) - 1, int(bound) + 1, bound - Decimal("0.5"), bound + Decimal("0.5"))


def _strings_beyond(strings: String, other: String) -> Iterator[JsonValue]:
    base = next((text for text in _strings(strings) if isinstance(text, str) and accepts(ValueSet((strings,)), text)), "")
    for length in (other.length_min - 1, (other.length_max or 0) + 1):
        if 0 <= length <= 10_000:
            yield base[:length].ljust(length, base[-1:] or "a")
    yield from ("!", "a!", "\u00e9", base + "!", "!" + base)


def _array_differences(one: Array, other: Array, depth: int) -> Iterator[JsonValue]:
    item = _first(one.items, depth)
    filler: list[JsonValue] = [] if item is _NONE else [item]  # type: ignore[list-item]
    for count in (other.items_min - 1, (other.items_max if other.items_max is not None else -2) + 1):
        if 0 <= count <= 10_000 and (filler or not count):
            yield filler * count
    for value in _differences(one.items, other.items, depth):
        yield [value, *filler * (one.items_min - 1)]


def _object_differences(one: Object, other: Object, depth: int) -> Iterator[JsonValue]:
    base = next((value for value in _objects(one, depth + 1) if isinstance(value, dict)), None)
    if base is None:
        return
    new = "new"
    while new in one.properties or new in other.properties:
        new += "_"
    for name in sorted(one.properties.keys() | other.properties.keys() | one.required | {new}):
        for value in islice(_differences(one.value_of(name), other.value_of(name), depth), 100):
            yield {**base, name: value}


Compatibility: TypeAlias = Literal["backward", "forward", "full", "none"]
COMPATIBILITIES: Final[tuple[Compatibility, ...]] = get_args(Compatibility)
Direction: TypeAlias = Literal["backward", "forward"]


@dataclass(frozen=True)
class Break:
    """What a new schema breaks in one direction, with an event's payload as an example; without one nobody can tell."""

    direction: Direction
    example: str | None
    reason: str

    @property
    def is_certain(self) -> bool:
        return self.example is not None

    def __str__(self) -> str:
        return f"{self.direction}: {self.reason}" + (f": {self.example}" if self.example is not None else "")


def check_compatibility(old: ValueSet, new: ValueSet, compatibility: Compatibility) -> tuple[Break, ...]:
    """What the change from the old to the new schema breaks; nothing if it is compatible."""
    if compatibility not in COMPATIBILITIES:
        raise Invalid(f"compatibility {compatibility!r} does not exist; choose {', '.join(COMPATIBILITIES)}")
    breaks: list[Break] = []
    directions: dict[Direction, tuple[ValueSet, ValueSet, str]] = {
        "backward": (old, new, "the old schema accepts a payload that the new one rejects"),
        "forward": (new, old, "the new schema accepts a payload that the old one rejects"),
    }
    for direction, (values, others, reason) in directions.items():
        if compatibility in (direction, "full"):
            comparison = compare(values, others)
            if comparison.holds is None:
                reason = f"cannot decide: {comparison.reason}"
            breaks += [] if comparison.holds else [Break(direction, comparison.example, reason)]
    return tuple(breaks)
