"""Value set → JSON path: the check of a payload in the database.

PostgreSQL's jsonpath evaluates it in C, without dynamic SQL, and it is a value in a closed table: every role may read the text of
every function, so that a generated function would show the fields of one namespace to all others.

Every predicate here is true or false, never unknown: each is behind a test of the type, and `(exists(@.a)) is unknown` is how strict mode
says that a key is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headrace.schemas.parsing import types_of
from headrace.schemas.patterns import postgres_pattern
from headrace.schemas.value_set import (
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
    canonical,
    json_type,
)

LENGTH_MAX: Final = 255
"""PostgreSQL's regexes repeat a character at most this often."""
SHOWN_VALUES: Final = 8
_TRUE: Final = "(1 == 1)"
_FALSE: Final = "(1 == 0)"
_Wrap: TypeAlias = Callable[[str], str]


@dataclass(frozen=True)
class PayloadRule:
    """One rule of a schema: where in the payload (a JSON pointer, `*` for any item), what, and the jsonpath that is true if it is kept."""

    path: str
    rule: str
    check: str


@dataclass(frozen=True)
class DatabaseCheck:
    """The jsonpath that is true for payloads of a schema, and the same rule by rule, to name the broken one.

    `is_complete`: false if the schema has parts without an exact form in SQL, which the check leaves out."""

    check: str
    rules: tuple[PayloadRule, ...]
    is_complete: bool


def database_check(values: ValueSet) -> DatabaseCheck:
    """The check of a schema in the database."""
    printer = _Printer()
    check = _statement(printer.set_predicate(values))
    printer.collect_rules(values, "", lambda predicate: predicate)
    return DatabaseCheck(check, tuple(printer.rules), printer.is_complete)


def _statement(predicate: str) -> str:
    return f"strict exists($ ? ({predicate}))"


@dataclass
class _Printer:
    """Prints predicates about `@`, and notes what has no exact form."""

    is_complete: bool = True
    rules: list[PayloadRule] = field(default_factory=list)

    def set_predicate(self, values: ValueSet) -> str:
        self.is_complete &= values.opaque is None
        if values.is_any:
            return _TRUE
        return _or([self.predicate(alternative) for alternative in values.alternatives])

    def predicate(self, alternative: Alternative) -> str:
        if isinstance(alternative, Enumeration):
            return self._enumeration(alternative)
        kind = next(iter(types_of(alternative)))
        return _and([_is_type(kind), *(predicate for _, predicate in self._rules_of(alternative))])

    def _rules_of(self, alternative: Alternative) -> list[tuple[str, str]]:
        """The rules of an alternative and their predicates, for a value that has its type."""
        match alternative:
            case Number():
                return _number_rules(alternative)
            case String():
                return self._string_rules(alternative)
            case Array():
                return [*_array_rules(alternative), ("items", self._items(alternative.items))]
            case Object():
                return self._object_rules(alternative)
            case _:
                return []

    def _string_rules(self, strings: String) -> list[tuple[str, str]]:
        rules: list[tuple[str, str]] = []
        low, high = strings.length_min, strings.length_max
        if max(low, high or 0) > LENGTH_MAX:
            self.is_complete = False
        if 0 < low <= LENGTH_MAX:
            rules.append((f"minLength {low}", f'@ like_regex "^.{{{low}}}" flag "s"'))
        if high is not None and high <= LENGTH_MAX:
            rules.append((f"maxLength {high}", f'@ like_regex "^.{{0,{high}}}$" flag "s"'))
        for pattern in sorted(strings.patterns):
            text = postgres_pattern(pattern)
            if text is None:
                self.is_complete = False
            else:
                rules.append((f"pattern {pattern}", f'@ like_regex {_quote(text)} flag "s"'))
        return rules

    def _object_rules(self, objects: Object) -> list[tuple[str, str]]:
        rules = [(f"required {_quote(name)}", f"!((exists(@.{_quote(name)})) is unknown)") for name in sorted(objects.required)]
        for name, values in objects.properties.items():
            if not values.is_any or values.opaque is not None:
                rules.append(("properties", _property(name, self.set_predicate(values))))
        if not objects.additional.is_any or objects.additional.opaque is not None:
            rules.append(("additionalProperties", self._additional(objects)))
        return rules

    def _additional(self, objects: Object) -> str:
        inner = self.set_predicate(objects.additional)
        known = _or([f"@.key == {_quote(name)}" for name in objects.properties])
        return f"!exists(@.keyvalue() ? (!({known}) && !exists(@.value ? ({inner}))))"

    def _items(self, values: ValueSet) -> str:
        if values.is_any and values.opaque is None:
            return _TRUE
        return f"!exists(@[*] ? (!({self.set_predicate(values)})))"

    def _enumeration(self, enumeration: Enumeration) -> str:
        by_type: dict[str, list[str]] = {}
        for value in enumeration.values:
            kind = json_type(value)
            if kind in ("array", "object"):
                # jsonpath compares neither; any value of the type passes.
                self.is_complete = False
                by_type[kind] = [_TRUE]
            else:
                by_type.setdefault(kind, []).append(f"@ == {_literal(value)}")
        return _or([_and([_is_type(kind), _or(predicates)]) for kind, predicates in by_type.items()])

    def collect_rules(self, values: ValueSet, path: str, wrap: _Wrap) -> None:
        """Adds a rule for every keyword of the schema, those of the outer values first."""
        if values.is_any:
            return
        kinds = [types_of(alternative) for alternative in values.alternatives]
        names = sorted(set().union(*kinds)) if kinds else []
        if sum(map(len, kinds)) != len(names) or not names:
            self._add(
                path, "no alternative of anyOf fits" if names else "nothing is allowed here", self.set_predicate(values), wrap
            )
            return
        type_rule = "type " + " or ".join(_type_name(alternative) for alternative in values.alternatives)
        if not any(isinstance(alternative, Enumeration) for alternative in values.alternatives):
            self._add(path, type_rule, _or([_is_type(name) for name in names]), wrap)
        else:
            self._add(path, _enum_rule(values), self.set_predicate(values), wrap)
        for alternative in values.alternatives:
            self._collect_alternative(alternative, path, wrap)

    def _collect_alternative(self, alternative: Alternative, path: str, wrap: _Wrap) -> None:
        if isinstance(alternative, Enumeration | Null | Boolean):
            return
        kind = next(iter(types_of(alternative)))

        def within(predicate: str) -> str:
            return wrap(f"({_is_not_type(kind)} || {predicate})")

        for rule, predicate in self._rules_of(alternative):
            nested = rule in ("properties", "items") or (rule == "additionalProperties" and not _forbids(alternative))
            if not nested:
                self._add(path, "additionalProperties false" if rule == "additionalProperties" else rule, predicate, within)
        match alternative:
            case Array():
                self.collect_rules(alternative.items, f"{path}/*", lambda inner: within(f"!exists(@[*] ? (!({inner})))"))
            case Object():
                for name, values in alternative.properties.items():
                    self.collect_rules(values, f"{path}/{_escape(name)}", _inside(name, within))
                if not _forbids(alternative) and not alternative.additional.is_any:
                    self._add(f"{path}/*", "additionalProperties", self._additional(alternative), within)

    def _add(self, path: str, rule: str, predicate: str, wrap: _Wrap) -> None:
        self.rules.append(PayloadRule(path, rule, _statement(wrap(predicate))))


def _inside(name: str, wrap: _Wrap) -> _Wrap:
    return lambda predicate: wrap(_property(name, predicate))


def _forbids(alternative: Alternative) -> bool:
    return isinstance(alternative, Object) and alternative.additional.is_empty


def _property(name: str, predicate: str) -> str:
    """The property is missing, or the predicate is true for it."""
    return f"((exists(@.{_quote(name)})) is unknown || exists(@.{_quote(name)} ? ({predicate})))"


def _number_rules(numbers: Number) -> list[tuple[str, str]]:
    rules: list[tuple[str, str]] = []
    if numbers.is_integer:
        rules.append(("type integer", "@.floor() == @"))
    if numbers.low is not None:
        word, operator = ("exclusiveMinimum", ">") if numbers.low_is_excluded else ("minimum", ">=")
        rules.append((f"{word} {canonical(numbers.low)}", f"@ {operator} {_literal(numbers.low)}"))
    if numbers.high is not None:
        word, operator = ("exclusiveMaximum", "<") if numbers.high_is_excluded else ("maximum", "<=")
        rules.append((f"{word} {canonical(numbers.high)}", f"@ {operator} {_literal(numbers.high)}"))
    return rules


def _array_rules(arrays: Array) -> list[tuple[str, str]]:
    rules = [(f"minItems {arrays.items_min}", f"@.size() >= {arrays.items_min}")] if arrays.items_min else []
    if arrays.items_max is not None:
        rules.append((f"maxItems {arrays.items_max}", f"@.size() <= {arrays.items_max}"))
    return rules


def _enum_rule(values: ValueSet) -> str:
    texts = [text for alternative in values.alternatives if isinstance(alternative, Enumeration) for text in alternative.texts]
    others = [_type_name(alternative) for alternative in values.alternatives if not isinstance(alternative, Enumeration)]
    more = [f"{len(texts) - SHOWN_VALUES} more"] if len(texts) > SHOWN_VALUES else []
    return "enum " + ", ".join([*texts[:SHOWN_VALUES], *more]) + "".join(f", or type {name}" for name in others)


def _type_name(alternative: Alternative) -> str:
    if isinstance(alternative, Number) and alternative.is_integer:
        return "integer"
    return " or ".join(sorted(types_of(alternative)))


def _is_type(name: str) -> str:
    return f'@.type() == "{name}"'


def _is_not_type(name: str) -> str:
    return f'@.type() != "{name}"'


def _or(predicates: list[str]) -> str:
    return f"({' || '.join(predicates)})" if predicates else _FALSE


def _and(predicates: list[str]) -> str:
    return f"({' && '.join(predicates)})"


def _quote(text: str) -> str:
    return json.dumps(text)


def _literal(value: JsonValue) -> str:
    return canonical(value)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
