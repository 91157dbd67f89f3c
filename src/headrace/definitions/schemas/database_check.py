"""Value set → JSON path: the check of a payload in the database.

PostgreSQL's jsonpath evaluates it in C, without dynamic SQL, and it is a value in a closed table: every role may read the text of
every function, so that a generated function would show the fields of one namespace to all others.

A predicate here is true for a value that keeps the rule, and false or unknown for any other: in strict mode a comparison with a value of
another type, and a step to a key that is missing, are unknown. So one test often says several things: `@ >= 1` is true for numbers only,
`exists(@.a ? (…))` only where the key is there. Both `&&`, `||` and a filter take unknown for a no. A negation does not: what it negates
is within `exists(@ ? (…))`, which is never unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headrace.definitions.schemas.parsing import types_of
from headrace.definitions.schemas.value_set import (
    Alternative,
    Array,
    Boolean,
    Enumeration,
    Null,
    Number,
    Object,
    String,
    ValueSet,
    canonical,
    json_type,
    pointer_step,
    postgres_pattern,
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
        predicates = [predicate for _, predicate in self._rules_of(alternative, is_whole=True)]
        if not _implies_type(alternative, predicates):
            predicates.insert(0, _is_type(next(iter(types_of(alternative)))))
        return _and(predicates)

    def _rules_of(self, alternative: Alternative, *, is_whole: bool = False) -> list[tuple[str, str]]:
        """The rules of an alternative and their predicates, for a value that has its type. `is_whole`: only together they say all, and
        a required key is looked up once."""
        match alternative:
            case Number():
                return _number_rules(alternative)
            case String():
                return self._string_rules(alternative)
            case Array():
                low, high = alternative.items_min, alternative.items_max
                rules = [(f"minItems {low}", f"@.size() >= {low}")] if low else []
                rules += [] if high is None else [(f"maxItems {high}", f"@.size() <= {high}")]
                return [*rules, ("items", self._items(alternative.items))]
            case Object():
                return self._object_rules(alternative, is_whole=is_whole)
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
            # The other way round, "^.{0,40}$", takes twice as long.
            rules.append((f"maxLength {high}", f'!(@ like_regex "^.{{{high}}}." flag "s")'))
        for pattern in sorted(strings.patterns):
            text = postgres_pattern(pattern)
            if text is None:
                self.is_complete = False
            else:
                rules.append((f"pattern {pattern}", f'@ like_regex {json.dumps(text)} flag "s"'))
        return rules

    def _object_rules(self, objects: Object, *, is_whole: bool) -> list[tuple[str, str]]:
        checked = {
            name: self.set_predicate(values)
            for name, values in objects.properties.items()
            if not values.is_any or values.opaque is not None
        }
        rules = [
            (f"required {json.dumps(name)}", f"exists(@.{json.dumps(name)})")
            for name in sorted(objects.required)
            if not (is_whole and name in checked)
        ]
        for name, predicate in checked.items():
            is_required = is_whole and name in objects.required
            rules.append(("properties", _present(name, predicate) if is_required else _property(name, predicate)))
        if not objects.additional.is_any or objects.additional.opaque is not None:
            rules.append(("additionalProperties", self._additional(objects)))
        return rules

    def _additional(self, objects: Object) -> str:
        inner = self.set_predicate(objects.additional)
        known = _or([f"@.key == {json.dumps(name)}" for name in objects.properties])
        return f"!exists(@.keyvalue() ? (!({known}) && !exists(@.value ? ({inner}))))"

    def _items(self, values: ValueSet) -> str:
        return _TRUE if values.is_any and values.opaque is None else _all_items(self.set_predicate(values))

    def _enumeration(self, enumeration: Enumeration) -> str:
        predicates: list[str] = []
        opaque_types: set[str] = set()
        for value in enumeration.values:
            kind = json_type(value)
            if kind in ("array", "object"):
                # jsonpath compares neither; any value of the type passes.
                self.is_complete = False
                opaque_types.add(kind)
            else:
                predicates.append(f"@ == {canonical(value)}")
        return _or([*predicates, *map(_is_type, sorted(opaque_types))])

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
            return wrap(f'(@.type() != "{kind}" || {predicate})')

        for rule, predicate in self._rules_of(alternative):
            nested = rule in ("properties", "items") or (rule == "additionalProperties" and not _forbids(alternative))
            if not nested:
                self._add(path, "additionalProperties false" if rule == "additionalProperties" else rule, predicate, within)
        match alternative:
            case Array():
                self.collect_rules(alternative.items, f"{path}/*", lambda inner: within(_all_items(inner)))
            case Object():
                for name, values in alternative.properties.items():
                    self.collect_rules(values, f"{path}{pointer_step(name)}", _inside(name, within))
                if not _forbids(alternative) and not alternative.additional.is_any:
                    self._add(f"{path}/*", "additionalProperties", self._additional(alternative), within)

    def _add(self, path: str, rule: str, predicate: str, wrap: _Wrap) -> None:
        self.rules.append(PayloadRule(path, rule, _statement(wrap(predicate))))


def _inside(name: str, wrap: _Wrap) -> _Wrap:
    return lambda predicate: wrap(_property(name, predicate))


def _forbids(alternative: Alternative) -> bool:
    return isinstance(alternative, Object) and alternative.additional.is_empty


def _implies_type(alternative: Alternative, predicates: list[str]) -> bool:
    """True if the predicates of an alternative, together, are true only for values of its type."""
    match alternative:
        case Number() | String():
            return bool(predicates)
        case Array():
            return predicates != [_TRUE]
        case Object():
            return bool(alternative.required)
        case _:
            return False


def _present(name: str, predicate: str) -> str:
    return f"exists(@.{json.dumps(name)} ? ({predicate}))"


def _property(name: str, predicate: str) -> str:
    """The property is missing, or the predicate is true for it."""
    return f"({_present(name, predicate)} || (exists(@.{json.dumps(name)})) is unknown)"


def _all_items(predicate: str) -> str:
    """The predicate is true for every item of an array."""
    return f"!exists(@[*] ? (!exists(@ ? ({predicate}))))"


def _number_rules(numbers: Number) -> list[tuple[str, str]]:
    rules: list[tuple[str, str]] = []
    if numbers.is_integer:
        rules.append(("type integer", "@.floor() == @"))
    if numbers.low is not None:
        word, operator = ("exclusiveMinimum", ">") if numbers.low_is_excluded else ("minimum", ">=")
        rules.append((f"{word} {canonical(numbers.low)}", f"@ {operator} {canonical(numbers.low)}"))
    if numbers.high is not None:
        word, operator = ("exclusiveMaximum", "<") if numbers.high_is_excluded else ("maximum", "<=")
        rules.append((f"{word} {canonical(numbers.high)}", f"@ {operator} {canonical(numbers.high)}"))
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


def _or(predicates: list[str]) -> str:
    return f"({' || '.join(predicates)})" if predicates else _FALSE


def _and(predicates: list[str]) -> str:
    return f"({' && '.join(predicates)})"
