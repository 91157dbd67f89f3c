"""Schema text → value set. Says what is wrong with a schema, and which keywords we do not understand.

JSON Schema 2020-12. Understood exactly: type, enum, const, properties, required, additionalProperties, items, minItems, maxItems,
minLength, maxLength, pattern, minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf of different types, $ref to
the schema's own $defs, true and false. Other keywords of the standard make the part of the schema where they stand opaque: the rest
of it still counts. A word that is no keyword is an error, because it is nearly always a typing mistake; `x-…` is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from math import ceil, floor
from typing import Final, NoReturn

from headrace.core import InvalidSchema
from headrace.definitions.schemas.value_set import (
    ANY,
    JSON_TYPES,
    NOTHING,
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
    json_type,
    pointer_step,
    read_json,
    with_article,
)

SCHEMA_BYTES_MAX: Final = 262_144
PARTS_MAX: Final = 20_000
"""Subschemas after every $ref was followed: a schema of a few lines can unfold into millions."""
DEPTH_MAX: Final = 100
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_ANNOTATIONS_WORDS: Final = (
    "title description default examples deprecated readOnly writeOnly $comment $schema $id $defs definitions format "
    "contentMediaType contentEncoding contentSchema"
)
_EXACT_WORDS: Final = (
    "type enum const properties required additionalProperties items minItems maxItems minLength maxLength pattern minimum maximum "
    "exclusiveMinimum exclusiveMaximum anyOf oneOf $ref"
)
_OPAQUE_WORDS: Final = (
    "allOf not if then else dependentSchemas dependentRequired prefixItems contains minContains maxContains patternProperties "
    "propertyNames unevaluatedItems unevaluatedProperties uniqueItems minProperties maxProperties multipleOf $dynamicRef "
    "$dynamicAnchor $anchor $vocabulary"
)
_ANNOTATIONS: Final = frozenset(_ANNOTATIONS_WORDS.split())
_EXACT: Final = frozenset(_EXACT_WORDS.split())
_OPAQUE: Final = frozenset(_OPAQUE_WORDS.split())
_KEYWORDS: Final = _ANNOTATIONS | _EXACT | _OPAQUE
_COUNTS: Final = ("minItems", "maxItems", "minLength", "maxLength")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def read_schema(schema: str | Mapping[str, object] | bool) -> JsonValue:
    """A schema, as text or as Python values, with every digit of its numbers. Raises InvalidSchema."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, default=_decimal_text)
        if len(text.encode()) > SCHEMA_BYTES_MAX:
            raise InvalidSchema(f"the schema has {len(text.encode())} bytes, at most {SCHEMA_BYTES_MAX} are allowed")
        value = read_json(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None
    if not isinstance(value, dict | bool):
        raise InvalidSchema(f'the schema is {with_article(json_type(value))}; write an object such as {{"type": "object"}}')
    return value


def parse_schema(schema: str | Mapping[str, object] | bool) -> ValueSet:
    """The values that a schema accepts. Raises InvalidSchema with the place in the schema."""
    root = read_schema(schema)
    try:
        return _Parser(root).parse(root, "")
    except RecursionError:
        raise InvalidSchema(f"the schema nests deeper than {DEPTH_MAX} levels") from None


def _decimal_text(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


class _Parser:
    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._parts = 0
        self._references: list[str] = []

    def parse(self, schema: JsonValue, place: str) -> ValueSet:
        """The value set of a subschema; `place` is its JSON pointer."""
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise InvalidSchema(f"the schema has more than {PARTS_MAX} parts, each $ref counted with all it refers to")
        if place.count("/") > 2 * DEPTH_MAX:
            raise InvalidSchema(f"the schema nests deeper than {DEPTH_MAX} levels")
        if isinstance(schema, bool):
            return ANY if schema else NOTHING
        if not isinstance(schema, dict):
            _fail(place, f"a schema must be an object, true or false, not {with_article(json_type(schema))}")
        self._check_keywords(schema, place)
        values = self._parse_known_keywords(schema, place)
        others = sorted(schema.keys() & _OPAQUE)
        if (place and "$id" in schema) or others:
            return self._opaque(schema, values)
        return values

    def _check_keywords(self, schema: dict[str, JsonValue], place: str) -> None:
        for word in schema.keys() - _KEYWORDS:
            if word == "nullable":
                _fail(place, 'nullable is not JSON Schema; write "type": ["string", "null"]')
            if not word.startswith("x-"):
                close = get_close_matches(word, _KEYWORDS, 1)
                _fail(
                    place,
                    f"{word!r} is not a keyword" + (f"; did you mean {close[0]}?" if close else "; own words begin with x-"),
                )
        dialect = schema.get("$schema", DIALECT)
        if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
            _fail(place, f"$schema is {dialect!r}; headrace reads {DIALECT}")
        for word in _COUNTS:
            count = schema.get(word, 0)
            if json_type(count) != "number" or count < 0 or count != int(count):  # type: ignore[operator, arg-type]
                _fail(place, f"{word} must be a whole number from 0, not {canonical(schema[word])}")
        for word in _BOUNDS:
            if word in schema and json_type(schema[word]) != "number":
                _fail(place, f"{word} must be a number, not {canonical(schema[word])}")
        for word in ("pattern", "format"):
            if word in schema and not isinstance(schema[word], str):
                _fail(place, f"{word} must be a string, not {canonical(schema[word])}")

    def _opaque(self, schema: dict[str, JsonValue], values: ValueSet) -> ValueSet:
        text = canonical({word: value for word, value in schema.items() if word not in _ANNOTATIONS})
        if '"$' in text and isinstance(self._root, dict):
            # The same reference may refer to something else in another version.
            text += canonical({word: self._root.get(word) for word in ("$defs", "definitions", "$id")})
        return replace(values, opaque=text)

    def _parse_known_keywords(self, schema: dict[str, JsonValue], place: str) -> ValueSet:
        """What the keywords say that we understand, and opaque where they meet in a way that we do not."""
        groups: list[ValueSet] = []
        own = {word: value for word, value in schema.items() if word in _EXACT and word not in ("$ref", "anyOf", "oneOf")}
        if "$ref" in schema:
            groups.append(self._reference(schema["$ref"], place))
        if "anyOf" in schema:
            union = _union(self._list(schema, "anyOf", place))
            groups.append(self._opaque(schema, union) if union.opaque else union)
        if "oneOf" in schema:
            groups.append(self._one_of(schema, place))
        if own or not groups:
            groups.append(self._own(schema, place))
        if len(groups) == 1:
            return groups[0]
        if len(groups) == 2 and own.keys() == {"type"}:
            return _restrict(groups[0], _types(own["type"], place))
        return self._opaque(schema, groups[0])

    def _list(self, schema: dict[str, JsonValue], word: str, place: str) -> list[ValueSet]:
        entries = schema[word]
        if not isinstance(entries, list) or not entries:
            _fail(place, f"{word} must be a list of schemas")
        return [self.parse(entry, f"{place}/{word}/{number}") for number, entry in enumerate(entries)]

    def _one_of(self, schema: dict[str, JsonValue], place: str) -> ValueSet:
        parts = self._list(schema, "oneOf", place)
        types = [{kind for alternative in part.alternatives for kind in types_of(alternative)} for part in parts]
        union = _union(parts)
        if not union.opaque and sum(map(len, types)) == len(set().union(*types)):
            return union
        return self._opaque(schema, union)

    def _reference(self, target: JsonValue, place: str) -> ValueSet:
        if not isinstance(target, str):
            _fail(place, "$ref must be a string")
        if not target.startswith("#"):
            _fail(place, f"$ref {target!r} leaves the schema; put what it refers to into $defs")
        if target in self._references:
            # A value set has an end; a tree that contains itself has none.
            return replace(ANY, opaque=f"recursive {target} " + canonical(self._root))
        schema = self._root
        for step in target.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(schema, dict) or key not in schema:
                _fail(place, f"$ref {target!r} refers to nothing in the schema")
            schema = schema[key]
        self._references.append(target)
        try:
            return self.parse(schema, target[1:])
        finally:
            self._references.pop()

    def _own(self, schema: dict[str, JsonValue], place: str) -> ValueSet:
        names = _types(schema["type"], place) if "type" in schema else tuple(name for name in JSON_TYPES if name != "integer")
        listed = tuple(self._alternative(name, schema, place) for name in names)
        plain = not schema.keys() & (_EXACT - {"type", "enum", "const"})
        values = ANY if plain and "type" not in schema else ValueSet(tuple(alternative for alternative in listed if alternative))
        for word in ("enum", "const"):
            if word in schema:
                chosen = schema[word] if word == "enum" else [schema[word]]
                if not isinstance(chosen, list):
                    _fail(place, "enum must be a list of values")
                values = self._restrict_to(values, chosen, schema)
        return values

    def _restrict_to(self, values: ValueSet, chosen: list[JsonValue], schema: dict[str, JsonValue]) -> ValueSet:
        answers = {canonical(value): accepts(values, value) for value in chosen}
        texts = tuple(text for text, answer in answers.items() if answer is not False)
        result = ValueSet((Enumeration(texts),) if texts else ())
        return self._opaque(schema, result) if None in answers.values() else result

    def _alternative(self, name: str, schema: dict[str, JsonValue], place: str) -> Alternative | None:
        match name:
            case "null":
                return Null()
            case "boolean":
                return Boolean()
            case "integer" | "number":
                return _number(schema, is_integer=name == "integer")
            case "string":
                low, high = _count(schema, "minLength") or 0, _count(schema, "maxLength")
                patterns = frozenset([str(schema["pattern"])] if "pattern" in schema else [])
                form = schema.get("format")
                text = String(low, high, patterns, None if form is None else str(form))
                return None if high is not None and low > high else text
            case "array":
                # Beside prefixItems, items is about the rest only.
                items = self.parse(schema["items"], f"{place}/items") if "items" in schema else ANY
                items = ANY if "prefixItems" in schema else items
                low, high = _count(schema, "minItems") or 0, _count(schema, "maxItems")
                return None if high is not None and low > high else Array(items, low, high)
            case _:
                return self._object(schema, place)

    def _object(self, schema: dict[str, JsonValue], place: str) -> Object | None:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict):
            _fail(place, "properties must be an object of schemas")
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            _fail(place, "required must be a list of names")
        values = {name: self.parse(value, f"{place}/properties{pointer_step(name)}") for name, value in properties.items()}
        additional = (
            self.parse(schema["additionalProperties"], f"{place}/additionalProperties")
            if "additionalProperties" in schema
            else ANY
        )
        if "patternProperties" in schema:
            additional = ANY
        result = Object(values, frozenset(name for name in required if isinstance(name, str)), additional)
        return None if any(result.value_of(name).is_empty for name in result.required) else result


def types_of(alternative: Alternative) -> set[str]:
    """The JSON types of an alternative's values."""
    if isinstance(alternative, Enumeration):
        return {json_type(value) for value in alternative.values}
    return {type(alternative).__name__.lower()}


def _union(parts: list[ValueSet]) -> ValueSet:
    opaque = "; ".join(part.opaque or canonical(None) for part in parts) if any(part.opaque for part in parts) else None
    if any(part.is_any for part in parts):
        return replace(ANY, opaque=opaque if all(part.opaque for part in parts if part.is_any) else None)
    listed: list[Alternative] = []
    for part in parts:
        listed += [alternative for alternative in part.listed if alternative not in listed]
    return ValueSet(tuple(listed), opaque=opaque)


def _restrict(values: ValueSet, names: tuple[str, ...]) -> ValueSet:
    """The values of these types only."""
    wanted = {"number" if name == "integer" else name for name in names}
    listed: list[Alternative | None] = []
    for alternative in values.alternatives:
        if isinstance(alternative, Enumeration):
            allowed = ValueSet(tuple(_plain(name) for name in names))
            texts = tuple(text for text in alternative.texts if accepts(allowed, read_json(text)))
            if texts:
                listed.append(Enumeration(texts))
        elif types_of(alternative) <= wanted:
            whole = isinstance(alternative, Number) and "number" not in names
            listed.append(_whole(alternative) if whole and isinstance(alternative, Number) else alternative)
    return ValueSet(tuple(filter(None, listed)), opaque=values.opaque)


def _plain(name: str) -> Alternative:
    kinds: dict[str, Alternative] = {
        "null": Null(),
        "boolean": Boolean(),
        "integer": Number(is_integer=True),
        "number": Number(),
        "string": String(),
        "array": Array(ANY),
        "object": Object({}, frozenset(), ANY),
    }
    return kinds[name]


def _types(value: JsonValue, place: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        _fail(place, f"type must be a name or a list of names, not {canonical(value)}")
    for name in names:
        if not isinstance(name, str) or name not in JSON_TYPES:
            close = get_close_matches(str(name), JSON_TYPES, 1, 0.4)
            _fail(
                place,
                f"type {canonical(name)} does not exist; " + (f"did you mean {close[0]}?" if close else ", ".join(JSON_TYPES)),
            )
    return tuple(name for name in JSON_TYPES if name in names and not (name == "integer" and "number" in names))


def _number(schema: dict[str, JsonValue], *, is_integer: bool) -> Number | None:
    low, low_excluded = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, high_excluded = _bound(schema, "maximum", "exclusiveMaximum", min)
    number = Number(is_integer, low, high, low_excluded, high_excluded)
    return _whole(number) if is_integer else _if_possible(number)


def _whole(number: Number) -> Number | None:
    """The integers of a range, with bounds that are integers themselves."""
    low, high = number.low, number.high
    if low is not None:
        low = Decimal(floor(low) + 1 if number.low_is_excluded else ceil(low))
    if high is not None:
        high = Decimal(ceil(high) - 1 if number.high_is_excluded else floor(high))
    return _if_possible(Number(True, low, high))


def _if_possible(number: Number) -> Number | None:
    if number.low is None or number.high is None or number.low < number.high:
        return number
    return number if number.low == number.high and not (number.low_is_excluded or number.high_is_excluded) else None


def _bound(schema: dict[str, JsonValue], word: str, exclusive: str, tighter: type | object) -> tuple[Decimal | None, bool]:
    included, excluded = _decimal(schema.get(word)), _decimal(schema.get(exclusive))
    if included is None or excluded is None:
        return (included, False) if excluded is None else (excluded, True)
    # On a tie, the exclusive bound is the tighter one.
    chosen = tighter(included, excluded)  # type: ignore[operator]
    return chosen, chosen == excluded


def _decimal(value: JsonValue) -> Decimal | None:
    return None if value is None else Decimal(value)  # type: ignore[arg-type]


def _count(schema: dict[str, JsonValue], word: str) -> int | None:
    value = schema.get(word)
    return None if value is None else int(value)  # type: ignore[arg-type]


def _fail(place: str, reason: str) -> NoReturn:
    raise InvalidSchema(f"schema at {place or 'its root'}: {reason}")
