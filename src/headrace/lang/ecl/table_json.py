"""Table ↔ JSON, version 1. Promises: an exact round trip, and stable bytes for a pattern, so that a hash identifies a table."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any
from typing import Literal as Only

import msgspec

from headrace.lang.ecl.alphabet import Alphabet, Decision, Example
from headrace.lang.ecl.errors import TableError
from headrace.lang.ecl.network import Flat, Guard, Node, Unit
from headrace.lang.ecl.parser import parse_predicate
from headrace.lang.ecl.printer import print_predicate
from headrace.lang.ecl.table import Table

FORMAT: Only["headrace.ecl.table"] = "headrace.ecl.table"
VERSION = 1


class _Flat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="flat"):
    alphabet: int
    symbols: int
    states: int
    next: tuple[int, ...]
    action: tuple[int, ...]
    live: tuple[int, ...]
    ticks: tuple[tuple[int, int, int, int], ...]
    timers: int
    first: int


class _Alphabet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    types: dict[str, object]
    other: object
    examples: tuple[tuple[str | None, tuple[tuple[str, bool | None], ...]], ...]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Only["headrace.ecl.table"]
    version: Only[1]
    pattern: str
    predicates: tuple[str, ...]
    tokens: tuple[str, ...]
    timers: tuple[int, ...]
    alphabets: tuple[_Alphabet, ...]
    actions: tuple[tuple[tuple[int, ...], int], ...]
    units: tuple[_Flat | Guard | Node, ...]
    components: tuple[int, ...]
    completes: bool


def to_json(table: Table) -> bytes:
    """Compact JSON in a fixed order of fields."""
    encoded = {
        "predicates": tuple(print_predicate(predicate) for predicate in table.predicates),
        "alphabets": tuple(_alphabet_out(alphabet) for alphabet in table.alphabets),
        "units": tuple(_unit_out(unit) for unit in table.units),
    }
    return msgspec.json.encode(_Table(FORMAT, 1, **(_fields_of(table) | encoded)), order="deterministic")


def _fields_of(record: Table | _Table) -> dict[str, Any]:
    """The fields of a table by name."""
    return {field.name: getattr(record, field.name) for field in fields(Table)}


def from_json(data: bytes | str) -> Table:
    """The table of a JSON text. Raises TableError for anything else, naming the place."""
    try:
        read = msgspec.json.decode(data, type=_Table)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = f"not a compiled table of version {VERSION}: {error}; compile the pattern again"
        raise TableError(problem) from error
    decoded = {
        "predicates": tuple(parse_predicate(text) for text in read.predicates),
        "alphabets": tuple(_alphabet_in(alphabet) for alphabet in read.alphabets),
        "units": tuple(_unit_in(unit) for unit in read.units),
    }
    return Table(**(_fields_of(read) | decoded))


def table_hash(table: Table) -> str:
    """Names a table: equal for the same pattern, whatever its layout in the text."""
    return hashlib.sha256(to_json(table)).hexdigest()


def _unit_out(unit: Unit) -> _Flat | Guard | Node:
    if not isinstance(unit, Flat):
        return unit
    ticks = tuple((*key, *cell) for key, cell in sorted(unit.ticks.items()))
    head = (unit.alphabet, unit.symbols, unit.states, unit.next, unit.action, unit.live)
    return _Flat(*head, ticks, unit.timers, unit.first)


def _unit_in(unit: _Flat | Guard | Node) -> Unit:
    if not isinstance(unit, _Flat):
        return unit
    ticks = {(state, due): (following, action) for state, due, following, action in unit.ticks}
    head = (unit.alphabet, unit.symbols, unit.states, unit.next, unit.action, unit.live)
    return Flat(*head, ticks, unit.timers, unit.first)


def _alphabet_out(alphabet: Alphabet) -> _Alphabet:
    examples = tuple((example.type, example.truths) for example in alphabet.examples)
    return _Alphabet(alphabet.size, dict(alphabet.types), alphabet.other, examples)


def _alphabet_in(alphabet: _Alphabet) -> Alphabet:
    types = {type_: _decision(tree) for type_, tree in alphabet.types.items()}
    examples = tuple(Example(type_, truths) for type_, truths in alphabet.examples)
    return Alphabet(alphabet.size, types, _decision(alphabet.other), examples)


def _decision(tree: object) -> Decision:
    match tree:
        case int():
            return tree
        case [int() as number, yes, no]:
            return number, _decision(yes), _decision(no)
    raise TableError(f"not a decision tree: {tree!r}; compile the pattern again")
