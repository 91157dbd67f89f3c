"""Value sets: the JSON values that a schema accepts, as a union of alternatives of one JSON type each.

A schema of the part of JSON Schema that we understand is exactly such a union, and everything else here works on it: the
comparison of two schemas, the check in the database, the check of conditions, generated classes and Spark types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

from headrace.lang.condition import RegexDialect, RegexError, regex_example, regex_text

JsonValue: TypeAlias = "None | bool | int | float | Decimal | str | list[JsonValue] | dict[str, JsonValue]"

JSON_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


@dataclass(frozen=True)
class Null:
    """null."""


@dataclass(frozen=True)
class Boolean:
    """true and false."""


@dataclass(frozen=True)
class Number:
    """Numbers between two bounds; None is no bound. `1.0` is an integer, as JSON Schema says."""

    is_integer: bool = False
    low: Decimal | None = None
    high: Decimal | None = None
    low_is_excluded: bool = False
    high_is_excluded: bool = False


@dataclass(frozen=True)
class String:
    """Strings by their length in characters and by patterns that must all occur. `format` is a remark and excludes nothing."""

    length_min: int = 0
    length_max: int | None = None
    patterns: frozenset[str] = frozenset()
    format: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Array:
    """Arrays whose items are all in one value set."""

    items: ValueSet
    items_min: int = 0
    items_max: int | None = None


@dataclass(frozen=True)
class Object:
    """Objects: the values of the named properties, of all others, and the properties that must be there."""

    properties: Mapping[str, ValueSet]
    required: frozenset[str]
    additional: ValueSet

    def value_of(self, name: str) -> ValueSet:
        """The values that the property may have."""
        return self.properties.get(name, self.additional)


@dataclass(frozen=True)
class Enumeration:
    """Some values, one by one, in the order of the schema."""

    texts: tuple[str, ...]
    """Their canonical JSON."""

    @property
    def values(self) -> list[JsonValue]:
        return [read_json(text) for text in self.texts]


Alternative: TypeAlias = Null | Boolean | Number | String | Array | Object | Enumeration


@dataclass(frozen=True)
class ValueSet:
    """The values of all alternatives together.

    Where the schema has a keyword that we do not understand, `opaque` is its canonical text, and the value set is a part of the
    alternatives that only a validator knows."""

    listed: tuple[Alternative, ...] = ()
    is_any: bool = False
    opaque: str | None = None

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The alternatives. The set of all values has six, one per type."""
        if self.is_any:
            return (Null(), Boolean(), Number(), String(), Array(ANY), Object({}, frozenset(), ANY))
        return self.listed

    @property
    def is_empty(self) -> bool:
        return not self.alternatives

    @property
    def is_unknown(self) -> bool:
        """True if any value may be in it, or if only a validator knows."""
        return self.is_any or self.opaque is not None

    @property
    def is_exact(self) -> bool:
        """False if a keyword somewhere in it is not understood, or a pattern."""
        return self.opaque is None and (self.is_any or all(map(_is_exact, self.listed)))


ANY: Final = ValueSet(is_any=True)
NOTHING: Final = ValueSet()


def _is_exact(alternative: Alternative) -> bool:
    match alternative:
        case String():
            return all(compile_pattern(pattern) is not None for pattern in alternative.patterns)
        case Array():
            return alternative.items.is_exact
        case Object():
            return alternative.additional.is_exact and all(value.is_exact for value in alternative.properties.values())
        case _:
            return True


def read_json(text: str) -> JsonValue:
    """JSON with every digit: numbers with a fraction or an exponent are Decimals."""
    value: JsonValue = json.loads(text, parse_float=Decimal)
    return value


def canonical(value: JsonValue) -> str:
    """The same text for equal values: keys in order, and 1, 1.0 and 1e0 written alike."""
    match value:
        case None | bool() | str():
            return json.dumps(value)
        case int():
            return str(value)
        case float() | Decimal():
            number = value if isinstance(value, Decimal) else Decimal(repr(value))
            if number == number.to_integral_value() and number.adjusted() < 400:
                return str(int(number))
            # normalize() would round to 28 digits.
            sign, digits, exponent = number.as_tuple()
            text = "".join(map(str, digits)).rstrip("0")
            stripped = Decimal((sign, tuple(map(int, text)), int(exponent) + len(digits) - len(text)))
            return format(stripped, "f") if stripped.adjusted() > -20 else str(stripped)
        case list() | tuple():
            return f"[{', '.join(map(canonical, value))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {canonical(value[key])}" for key in sorted(value)) + "}"


def json_type(value: JsonValue) -> str:
    """The JSON type of a value: null, boolean, number, string, array or object."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float() | Decimal():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


def with_article(name: str) -> str:
    """The name of a JSON type in a sentence: `a string`, `an object`, `null`."""
    return name if name == "null" else f"{'an' if name[0] in 'ao' else 'a'} {name}"


def pointer_step(step: object) -> str:
    """A step of a JSON pointer."""
    return "/" + str(step).replace("~", "~0").replace("/", "~1")


def accepts(values: ValueSet, value: JsonValue) -> bool | None:
    """Is the value in the set? None if that depends on a part of the schema that we do not understand."""
    if values.is_any:
        return None if values.opaque is not None else True
    accepted = any_of(alternative_accepts(alternative, value) for alternative in values.alternatives)
    return None if accepted and values.opaque is not None else accepted


def alternative_accepts(alternative: Alternative, value: JsonValue) -> bool | None:
    match alternative:
        case Enumeration():
            return canonical(value) in alternative.texts
        case Null():
            return value is None
        case Boolean():
            return isinstance(value, bool)
        case Number():
            return json_type(value) == "number" and _within(alternative, value)
        case String():
            return isinstance(value, str) and _fits(alternative, value)
        case Array():
            if not isinstance(value, list):
                return False
            if len(value) < alternative.items_min or (alternative.items_max is not None and len(value) > alternative.items_max):
                return False
            return all_of(accepts(alternative.items, item) for item in value)
        case Object():
            if not isinstance(value, dict) or not alternative.required <= value.keys():
                return False
            return all_of(accepts(alternative.value_of(name), member) for name, member in value.items())


def _within(numbers: Number, value: JsonValue) -> bool:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)  # type: ignore[arg-type]
    if numbers.is_integer and number != number.to_integral_value():
        return False
    if numbers.low is not None and (number < numbers.low or (numbers.low_is_excluded and number == numbers.low)):
        return False
    return numbers.high is None or not (number > numbers.high or (numbers.high_is_excluded and number == numbers.high))


def _fits(strings: String, value: str) -> bool | None:
    if len(value) < strings.length_min or (strings.length_max is not None and len(value) > strings.length_max):
        return False
    compiled = [compile_pattern(pattern) for pattern in sorted(strings.patterns)]
    return all_of(None if regex is None else regex.search(value) is not None for regex in compiled)


def any_of(answers: Iterable[bool | None]) -> bool | None:
    unknown = False
    for answer in answers:
        if answer:
            return True
        unknown |= answer is None
    return None if unknown else False


def all_of(answers: Iterable[bool | None]) -> bool | None:
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown |= answer is None
    return None if unknown else True


_NOT_ALIKE: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\.|\\[sS])")
r"""`.` matches a line break in conditions but not in ECMA-262, and \s has other spaces there. Other differences do not exist in
the regexes that conditions allow."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern in Python; None if it may mean something else in another engine."""
    text = _common_text(pattern, RegexDialect.PYTHON)
    return None if text is None else re.compile(text, re.DOTALL)


def postgres_pattern(pattern: str) -> str | None:
    """The pattern in PostgreSQL; None if it may mean something else there."""
    return _common_text(pattern, RegexDialect.POSTGRES)


def _common_text(pattern: str, dialect: RegexDialect) -> str | None:
    if _NOT_ALIKE.search(pattern):
        return None
    try:
        return regex_text(pattern, dialect)
    except RegexError:
        return None


@lru_cache(maxsize=256)
def example_of_pattern(pattern: str) -> str | None:
    """A short text in which the pattern occurs; None if we find none."""
    regex = compile_pattern(pattern)
    if regex is None:
        return None
    text = regex_example(pattern)
    return text if regex.search(text) else None
