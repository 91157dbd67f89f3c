"""Classification: the key and the symbols of every event, by the Spark printer, each field taken out once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from headrace.core import Invalid
from headrace.lang.condition import Compare, Field, Node, Type, field_to_spark, fields_of, node_to_spark, spark_literal, to_spark
from headrace.lang.condition import parse as parse_condition
from headrace.lang.ecl import Alphabet, Decision, Table, compile, parse
from headrace.lang.ecl import tree as t

KEY_BYTES_MAX = 1024
"""A longer key is part of no index; it goes by its checksum, as in the database."""
PREFIX = "_headrace_"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatorSpec:
    """A correlator version as Spark runs it. `key` is a value of the condition language; None: one machine for all events."""

    name: str
    pattern: str
    key: str | None = None
    version: int = 1
    topic: str | None = None
    since_offset: int = 0
    evidence_max: int = 100
    forgets: bool = False
    """The time of a key's last event counts, so the state of every key with events is given back."""
    compiled: Table | None = None
    """The pattern's table where it is stored: another release may number its states in another way."""

    @property
    def table(self) -> Table:
        return self.compiled if self.compiled is not None else table_of(self.pattern)


@dataclass(frozen=True)
class Classifier:
    """Spark SQL that tells a correlator's events apart: `fields` to extract first, then the key and a symbol per alphabet."""

    table: Table
    fields: Mapping[Field, str]
    key: str
    symbols: tuple[str, ...]

    @cached_property
    def roots(self) -> frozenset[str]:
        return frozenset(field.root for field in self.fields)


def extractions(columns: Mapping[Field, str]) -> list[str]:
    """The fields as columns, in Spark SQL."""
    return [f"{field_to_spark(field)} as {name}" for field, name in columns.items()]


@lru_cache(maxsize=256)
def table_of(pattern: str) -> Table:
    """The compiled table of a pattern's text. Raises PatternError."""
    return compile(parse(pattern))


def classifier(spec: CorrelatorSpec, columns: dict[Field, str] | None = None) -> Classifier:
    """How the events of a correlator find their key and symbols. Several share `columns`, which takes in what is new."""
    columns = {} if columns is None else columns
    table = spec.table
    key = _key_node(spec.key) if spec.key is not None else None
    atoms = [atom for predicate in table.predicates for atom in t.atoms(predicate) if isinstance(atom, t.Condition)]
    fields = dict.fromkeys(field for atom in atoms for field in parse_condition(atom.text).fields)
    fields |= dict.fromkeys(fields_of(key) if key is not None else ())
    for field in fields:
        columns.setdefault(field, f"{PREFIX}f{len(columns)}")
    symbols = tuple(_symbol(alphabet, table, columns) for alphabet in table.alphabets)
    return Classifier(table, columns, _key_sql(key, columns), symbols)


def _key_node(text: str) -> Node:
    # A key is a value, not a condition; being equal to itself makes it one, and the parser checks it.
    tree = parse_condition(f"({text}) = ({text})").tree
    if not isinstance(tree, Compare) or tree.operator != "=" or tree.left != tree.right:
        raise Invalid(f"the key {text!r} is not one value of the condition language; write e.g. object ->> 'account'")
    if tree.left.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
        raise Invalid(f"the key {text!r} is {tree.left.type.value}; it may be text, an integer or a boolean")
    return tree.left


def _key_sql(key: Node | None, columns: Mapping[Field, str]) -> str:
    if key is None:
        return "''"
    sql = node_to_spark(key, columns)
    value = sql if key.type is Type.TEXT else f"cast({sql} as string)"
    if isinstance(key, Field) and key.root == "key" and key.type is Type.TEXT:
        return value
    hashed = f"concat('sha256:', sha2(cast({value} as binary), 256))"
    return f"(case when octet_length({value}) > {KEY_BYTES_MAX} then {hashed} else {value} end)"


def _symbol(alphabet: Alphabet, table: Table, columns: Mapping[Field, str]) -> str:
    def decided(decision: Decision) -> str:
        if isinstance(decision, int):
            return str(decision)
        number, yes, no = decision
        return f"if({_predicate(table.predicates[number], columns)}, {decided(yes)}, {decided(no)})"

    cases = " ".join(f"when {spark_literal(name)} then {decided(decision)}" for name, decision in alphabet.types.items())
    return f"(case type {cases} else {decided(alphabet.other)} end)" if cases else decided(alphabet.other)


def _predicate(predicate: t.Predicate, columns: Mapping[Field, str]) -> str:
    """Unknown stays unknown, which `if` takes as no."""
    match predicate:
        case t.Literal(value):
            return "true" if value else "false"
        case t.EventType(name):
            return f"(type = {spark_literal(name)})"
        case t.Condition(text):
            return to_spark(parse_condition(text), columns)
        case t.Named(_, inner):
            return _predicate(inner, columns)
        case t.Not(operand):
            return f"(not {_predicate(operand, columns)})"
        case t.And(parts):
            return "(" + " and ".join(_predicate(part, columns) for part in parts) + ")"
        case t.Or(parts):
            return "(" + " or ".join(_predicate(part, columns) for part in parts) + ")"
